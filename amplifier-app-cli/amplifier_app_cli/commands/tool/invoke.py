"""`amplifier tool invoke`: run a tool by hand, under the rules that hold for a model."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from typing import Any

import click

from amplifier_app_cli import exits
from amplifier_app_cli.app import App, current_app
from amplifier_app_cli.commands.bundle.compose import finished
from amplifier_app_cli.commands.tool.mount import (
    SessionFailedError,
    find_tool,
    leave_out_keyless,
    prepared_bundle,
    running,
    stand_in,
)
from amplifier_app_cli.commands.tool.turn import Hearing, InvokeLoop
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.signals import Signals
from amplifier_app_cli.ui.approval.preview import OwnKeys
from amplifier_app_cli.ui.approval.stderr_terminal import StderrTerminal
from amplifier_app_cli.ui.approval.terminal import TerminalApproval
from amplifier_app_cli.ui.plain import plain
from amplifier_app_cli.ui.records import json_text, print_json
from amplifier_app_cli.ui.say import complain, show_warnings
from amplifier_app_cli.ui.streams import guarded_stdout
from amplifier_foundation.approvals.answered_by import person_at
from amplifier_foundation.children import Spawner
from amplifier_foundation.sessions import SessionRuntime


@click.command()
@click.argument("name")
@click.argument("arguments", metavar="[KEY=VALUE]...", nargs=-1)
@click.option("-b", "-B", "--bundle", "bundle", help="Of this bundle; else of the one that runs here.")
@click.option("--trust", is_flag=True, help="Trust what this project's files name, this once.")
@click.option(
    "-o",
    "--output",
    "output_format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How to print the result.",
)
@report_errors
def invoke(name: str, arguments: Sequence[str], bundle: str | None, trust: bool, output_format: str) -> None:
    """Run the tool NAME once and print what it answers.

    A VALUE is JSON where it can be, else text. What a model would need permission for needs it here too: it is asked
    for, and without a terminal refused with exit code 3. No model is asked, so none is needed, nor its key. The session
    is logged like any other.

    \b
    Examples:
      amplifier tool invoke read_file file_path=README.md
      amplifier tool invoke grep pattern=import 'paths=["src", "docs"]' -o json
    """
    app = current_app()
    given = _arguments(arguments)
    show_warnings()
    with guarded_stdout():
        code, record = finished(_invoked(app, name, given, bundle, trust))
    if output_format == "json":
        print_json(record)
    else:
        _print(record)
    if record["error"]:
        complain(code, f"{name}: {_why(record)}")
    app.inform(f"log: {record['log']}")
    sys.exit(code)


def _arguments(given: Sequence[str]) -> dict[str, Any]:
    """Return the input of a tool; raises UsageError unless each argument is KEY=VALUE."""
    arguments: dict[str, Any] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise click.UsageError(f"{text!r} is not KEY=VALUE")
        if key in arguments:
            raise click.UsageError(f"{key!r} is given twice; a list is written as JSON: '{key}=[1, 2]'")
        try:
            arguments[key] = json.loads(value)
        except ValueError:
            arguments[key] = value
    return arguments


async def _invoked(
    app: App, name: str, arguments: dict[str, Any], bundle: str | None, trust: bool
) -> tuple[int, dict[str, Any]]:
    """Run the tool in a new session, which is always closed; return exit code and result."""
    prepared = await prepared_bundle(bundle, trust=trust)
    runtime = SessionRuntime(prepared, spawner=Spawner())
    if app.can_ask:
        _ask_at_terminal(app, runtime)
    leave_out_keyless(runtime.session.config)
    return await _run(runtime, name, arguments)


def _ask_at_terminal(app: App, runtime: SessionRuntime) -> None:
    """Let the person at the terminal be the approval system of the session."""
    approval = TerminalApproval(
        StderrTerminal(app.environ, pause=lambda: None),
        runtime.prepared.project,
        lambda value: runtime.redactor.scrub(value).value,
        app.environ,
        runtime.permissions,
        answered_by=person_at("tool invoke"),
        own_values=OwnKeys.of_user(runtime.prepared.home),
    )
    approval.connect(runtime.session.coordinator)
    runtime.session.coordinator.approval_system = approval


async def _run(runtime: SessionRuntime, name: str, arguments: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    coordinator = runtime.session.coordinator
    hearing = Hearing(coordinator.hooks)
    record: dict[str, Any] = {"status": "cancelled", "tool": name, "session_id": runtime.session_id}
    record |= {"log": str(runtime.log_path), "result": None, "error": None}
    with Signals(coordinator.cancellation) as signals:
        signals.end_logs = runtime.end_logs
        try:
            async with running(runtime):
                find_tool(dict(coordinator.get("tools") or {}), name)
                await stand_in(coordinator)
                await coordinator.mount("orchestrator", InvokeLoop(name, arguments))
                content = await _executed(runtime, name)
                signals.closing = True
        except asyncio.CancelledError:
            return signals.exit_code or exits.INTERRUPTED, record
    code, outcome = _outcome(hearing, content)
    return signals.exit_code or code, {**record, **outcome}


async def _executed(runtime: SessionRuntime, name: str) -> str:
    try:
        # The arguments are in the call: in a prompt, an @ in them would bring files.
        return str(await runtime.execute(f"Run the tool {name}."))
    except RuntimeError as error:  # the plan has no memory: the kernel has no turn without one
        raise SessionFailedError(str(error)) from error


def _outcome(hearing: Hearing, content: str) -> tuple[int, dict[str, Any]]:
    """Return the exit code and the report of the call."""
    if hearing.error is not None:
        if hearing.status == "denied" and hearing.asked_because and hearing.denied_by == "kernel":
            message = f"it needs permission ({hearing.asked_because}), and there is no terminal to ask on"
            error = {"type": "approval_needed", "msg": message}
            return exits.APPROVAL_NEEDED, {"status": "approval_needed", "error": error}
        return exits.FAILURE, {"status": hearing.status, "error": hearing.error}
    result = hearing.result
    if result is None:  # a hook kept it back
        return exits.FAILURE, {"status": "denied", "error": {"type": "denied", "msg": content}}
    if result.get("success") is False:
        error = result.get("error") or {"message": str(result.get("output") or "it failed and does not say why")}
        return exits.FAILURE, {"status": "error", "result": result, "error": error}
    return exits.OK, {"status": "success", "result": result, "error": None}


def _print(record: dict[str, Any]) -> None:
    """Print what the tool answered; a failure that has nothing else to say says it on standard error."""
    output = (record["result"] or {}).get("output")
    if output is not None and output != _why(record):
        click.echo(
            plain(output) if isinstance(output, str) else json_text(output, indent=2, encoding=sys.stdout.encoding)
        )


def _why(record: dict[str, Any]) -> str | None:
    error = record["error"]
    return str(error.get("msg") or error.get("message") or record["status"]) if error else None

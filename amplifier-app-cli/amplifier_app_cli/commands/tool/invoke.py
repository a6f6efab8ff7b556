"""`amplifier module invoke`: run a tool by hand, with the hooks and policies of a model's call, and log it."""

from __future__ import annotations

import asyncio
import json
import sys
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

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
from amplifier_app_cli.completion import BUNDLE
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.signals import Signals
from amplifier_app_cli.ui.approval.preview import OwnKeys
from amplifier_app_cli.ui.approval.stderr_terminal import StderrTerminal
from amplifier_app_cli.ui.approval.terminal import TerminalApproval
from amplifier_app_cli.ui.plain import plain
from amplifier_app_cli.ui.records import json_option, json_text, print_json
from amplifier_app_cli.ui.say import complain, show_warnings
from amplifier_app_cli.ui.streams import guarded_stdout
from amplifier_core.events import APPROVAL_DENIED, APPROVAL_REQUIRED, TOOL_ERROR, TOOL_POST
from amplifier_foundation.approvals.answered_by import person_at
from amplifier_foundation.children.capabilities import Spawner
from amplifier_foundation.sessions.runtime import SessionRuntime
from amplifier_kit.engine.loop.reply import Call, Reply
from amplifier_kit.engine.loop.request import Choice
from amplifier_kit.engine.loop.turn import Outcome, Turn, TurnLoop


@click.command()
@click.argument("name")
@click.argument("arguments", metavar="[KEY=VALUE]...", nargs=-1)
@click.option("-b", "-B", "--bundle", "bundle", type=BUNDLE, help="Of this bundle; else of the one that runs here.")
@click.option("--trust", is_flag=True, help="Trust what this project's files name, this once.")
@json_option
@report_errors
def invoke(name: str, arguments: Sequence[str], bundle: str | None, trust: bool, as_json: bool) -> None:
    """Run the tool NAME once and print what it answers.

    A VALUE is JSON where it can be, else text. Actions need the same permission as for a model: you are asked, and
    without a terminal the call is denied with exit code 3. No model and no key are needed. The session is logged like
    any other.

    \b
    Examples:
      amplifier module invoke read_file file_path=README.md
      amplifier module invoke grep pattern=import 'paths=["src", "docs"]' --json
    """
    app = current_app()
    given = _arguments(arguments)
    show_warnings()
    with guarded_stdout():
        code, record = finished(_invoked(app, name, given, bundle, trust))
    if as_json:
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
    report = CallReport(coordinator.hooks)
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
    code, outcome = _outcome(report, content)
    return signals.exit_code or code, {**record, **outcome}


async def _executed(runtime: SessionRuntime, name: str) -> str:
    try:
        # The arguments are in the call: in a prompt, an @ in them would bring files.
        return str(await runtime.execute(f"Run the tool {name}."))
    except RuntimeError as error:  # the plan has no memory: the kernel has no turn without one
        raise SessionFailedError(str(error)) from error


def _outcome(report: CallReport, content: str) -> tuple[int, dict[str, Any]]:
    """Return the exit code and the report of the call."""
    if report.error is not None:
        if report.status == "denied" and report.asked_because and report.denied_by == "kernel":
            why = f"it needs permission ({report.asked_because}), and there is no terminal to ask on"
            message = f"{why}: allow it beforehand with `amplifier policy allow`"
            error = {"type": "approval_needed", "msg": message}
            return exits.APPROVAL_NEEDED, {"status": "approval_needed", "error": error}
        return exits.FAILURE, {"status": report.status, "error": report.error}
    result = report.result
    if result is None:  # a hook kept it back
        return exits.FAILURE, {"status": "denied", "error": {"type": "denied", "msg": content}}
    if result.get("success") is False:
        error = result.get("error") or {"message": str(result.get("output") or "it failed without a message")}
        return exits.FAILURE, {"status": "error", "result": result, "error": error}
    return exits.OK, {"status": "success", "result": result, "error": None}


def _print(record: dict[str, Any]) -> None:
    """Print the output of the tool, unless standard error reports the same."""
    output = (record["result"] or {}).get("output")
    if output is not None and output != _why(record):
        click.echo(
            plain(output) if isinstance(output, str) else json_text(output, indent=2, encoding=sys.stdout.encoding)
        )


def _why(record: dict[str, Any]) -> str | None:
    error = record["error"]
    return str(error.get("msg") or error.get("message") or record["status"]) if error else None


#: After all hooks that may change the data.
_LAST = 10_000


class CallReport:
    """What the events say about the one call of a session."""

    def __init__(self, hooks: Any) -> None:
        #: What the tool answered, as hooks left it.
        self.result: dict[str, Any] | None = None
        #: Why there is no answer.
        self.error: dict[str, Any] | None = None
        self.status = "success"
        #: Why approval was needed, None when it was not.
        self.asked_because: str | None = None
        self.denied_by: str | None = None
        for event, handler in (
            (TOOL_POST, self._on_result),
            (TOOL_ERROR, self._on_error),
            (APPROVAL_REQUIRED, self._on_question),
            (APPROVAL_DENIED, self._on_denial),
        ):
            hooks.register(event, handler, priority=_LAST, name="app-tool-invoke")

    def _on_result(self, event: str, data: dict[str, Any]) -> None:
        result = data.get("result")
        self.result = result if isinstance(result, dict) else {"success": True, "output": result, "error": None}

    def _on_error(self, event: str, data: dict[str, Any]) -> None:
        error = data.get("error")
        self.error = error if isinstance(error, dict) else {"type": "error", "msg": str(error)}
        self.status = str(data.get("status") or "error")

    def _on_question(self, event: str, data: dict[str, Any]) -> None:
        self.asked_because = str(data.get("reason"))

    def _on_denial(self, event: str, data: dict[str, Any]) -> None:
        self.denied_by = str(data.get("source"))


class InvokeTurn(Turn):
    """Run one call and end."""

    name: ClassVar[str] = "tool-invoke"

    def __init__(self, settings: Any, memory: Any, call: Call, **parts: Any) -> None:
        super().__init__(settings, memory, **parts)
        self._call = call

    async def answer(self, choice: Choice) -> Outcome:
        """Return the result of the call as text; the conversation gets it as if a model had called it."""
        call = self._call
        asked = {"id": call.id, "tool": call.name, "arguments": call.arguments}
        message = {"role": "assistant", "content": "", "tool_calls": [asked], "metadata": {"synthetic": True}}
        (done,) = await self._call_tools(Reply("", message, [call]))
        report = {"role": "assistant", "content": f"The user called {call.name}.", "metadata": {"synthetic": True}}
        await self.session.store(report)
        return Outcome(done.content if isinstance(done.content, str) else str(done.content), "success")


class InvokeLoop(TurnLoop):
    """The loop of a session in which the user calls a tool."""

    turn_type: ClassVar[type[Turn]] = InvokeTurn

    def __init__(self, tool: str, arguments: Mapping[str, Any], config: Mapping[str, Any] | None = None) -> None:
        super().__init__(config)
        self._call = Call(f"call-{uuid.uuid4().hex[:16]}", tool, dict(arguments))

    def turn_parts(self) -> tuple[Any, ...]:
        """Return the call."""
        return (self._call,)

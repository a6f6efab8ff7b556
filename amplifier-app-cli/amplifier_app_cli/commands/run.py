"""`amplifier run`: one prompt, one answer, everything in the log."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from amplifier_app_cli import exits
from amplifier_app_cli.ui.say import complain, say

if TYPE_CHECKING:
    from amplifier_foundation.sessions import SessionRuntime


@click.command()
@click.argument("prompt", required=False)
@click.option("-B", "--bundle", "bundle_path", type=click.Path(path_type=Path), help="Bundle file to run.")
@click.option("--allow-missing-modules", is_flag=True, help="Go on when a module of the bundle cannot be loaded.")
@click.option("-q", "--quiet", is_flag=True, help="Print the answer only.")
def run(prompt: str | None, bundle_path: Path | None, allow_missing_modules: bool, quiet: bool) -> None:
    """Run PROMPT (or standard input, with - or none) and print the answer.

    \b
    Examples:
      amplifier run "What is in this folder?"
      amplifier run --bundle my-bundle.yaml "hello"
      cat question.txt | amplifier run
    """
    import asyncio

    from amplifier_app_cli.collector import collect_nothing, collect_what_is_new
    from amplifier_app_cli.ui.diagnostics import show_warnings

    text = _prompt(prompt)
    show_warnings()
    collect_nothing()
    try:
        code = asyncio.run(_run(text, bundle_path, allow_missing_modules, quiet))
    finally:
        collect_what_is_new()
    sys.exit(code)


def _prompt(given: str | None) -> str:
    if given not in (None, "-"):
        text = given
    elif sys.stdin is None or sys.stdin.isatty():
        raise click.UsageError("no prompt: give one as an argument, or pipe it in")
    else:
        text = sys.stdin.buffer.read().decode("utf-8-sig", "replace")
    if not text or not text.strip():
        raise click.UsageError("the prompt is empty")
    # An argument that is not UTF-8 arrives in halves of characters, which nothing later could encode.
    return text.encode("utf-8", "replace").decode("utf-8")


async def _run(prompt: str, bundle_path: Path | None, allow_missing: bool, quiet: bool) -> int:
    from amplifier_foundation.bundles import BundleError, load_bundle_file
    from amplifier_foundation.bundles.shipped import default_bundle
    from amplifier_foundation.paths import NoHomeError, amplifier_home
    from amplifier_foundation.sessions import SessionRuntime

    try:
        bundle = load_bundle_file(bundle_path or default_bundle())
        runtime = SessionRuntime(bundle, amplifier_home(), Path.cwd(), allow_missing_modules=allow_missing)
    except (BundleError, NoHomeError, ValueError, TypeError, OSError) as error:
        return complain(exits.FAILURE, str(error))
    code = await _converse(runtime, prompt)
    if not quiet and runtime.was_opened:
        say(f"log: {runtime.log_path}")
    return code


async def _converse(runtime: SessionRuntime, prompt: str) -> int:
    """Run the prompt, show the answer, and return the exit code; whatever happens, the session is closed."""
    import asyncio

    from amplifier_app_cli.signals import Signals
    from amplifier_app_cli.ui.stream import AnswerStream

    stream = AnswerStream()
    stream.connect(runtime.session.coordinator.hooks)
    with Signals(runtime.session.coordinator.cancellation) as signals:
        try:
            async with runtime:
                answer = await runtime.execute(prompt)
                signals.closing = True
                stream.finish(str(answer))
        except asyncio.CancelledError:
            return signals.exit_code or exits.INTERRUPTED
        except Exception as error:
            return signals.exit_code or _failed(error)
    if stream.failure is not None:
        return complain(exits.FAILURE, f"the answer could not be printed: {stream.failure}")
    return signals.exit_code or exits.OK


def _failed(error: Exception) -> int:
    """Say what went wrong and return the exit code that stands for it."""
    from amplifier_core.llm_errors import LLMError
    from amplifier_foundation.log import SessionLogBusy
    from amplifier_foundation.sessions import ModulesMissingError

    if isinstance(error, ModulesMissingError):
        listed = "\n".join(f"  - {failure}" for failure in error.failures)
        hint = "" if error.is_fatal else "\nrun with --allow-missing-modules to go on"
        return complain(exits.MODULES, f"modules could not be loaded:\n{listed}{hint}")
    if isinstance(error, LLMError):
        return complain(exits.PROVIDER, f"the model failed: {type(error).__name__}: {error}")
    if isinstance(error, (SessionLogBusy, RuntimeError)):
        return complain(exits.FAILURE, str(error) or type(error).__name__)
    return complain(exits.FAILURE, f"{type(error).__name__}: {error}")

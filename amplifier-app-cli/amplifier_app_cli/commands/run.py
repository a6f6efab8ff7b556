"""`amplifier run`: one prompt, one answer, everything in the log."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from amplifier_app_cli import exits
from amplifier_app_cli.ui.say import complain, say

if TYPE_CHECKING:
    from amplifier_foundation.prepare import Options
    from amplifier_foundation.sessions import SessionRuntime


#: Faults that say that a module cannot be had, or must not.
_MODULE_CODES = ("module_activation", "untrusted")


@click.command()
@click.argument("prompt", required=False)
@click.option("-B", "--bundle", "bundle", help="Bundle to run: a name, a file, a folder or a source address.")
@click.option(
    "--resume", "resume", metavar="SESSION", help="Go on with a session: its id, the beginning of it, or name."
)
@click.option("--locked", is_flag=True, help="Use exactly what bundle.lock names, and fail for what it does not name.")
@click.option("--offline", is_flag=True, help="Fetch and install nothing.")
@click.option("--trust", is_flag=True, help="Trust what this project's files name, for this run.")
@click.option("--allow-missing-modules", is_flag=True, help="Go on when a module of the bundle cannot be loaded.")
@click.option("-q", "--quiet", is_flag=True, help="Print the answer only.")
def run(prompt: str | None, resume: str | None, quiet: bool, **wishes: Any) -> None:
    """Run PROMPT (or standard input, with - or none) and print the answer.

    \b
    Examples:
      amplifier run "What is in this folder?"
      amplifier run --bundle my-bundle.yaml "hello"
      amplifier run --resume 3f2a "And now?"
      cat question.txt | amplifier run
    """
    import asyncio

    from amplifier_app_cli.collector import collect_nothing, collect_what_is_new
    from amplifier_app_cli.ui.diagnostics import show_warnings

    _speak_utf8()
    text = _prompt(prompt)
    show_warnings()
    collect_nothing()
    try:
        code = asyncio.run(_run(text, resume, quiet, wishes))
    finally:
        collect_what_is_new()
    sys.exit(code)


def _speak_utf8() -> None:
    """Start over when Python was told to know ASCII alone: prompts and names of files would lose their characters."""
    if sys.getfilesystemencoding() != "ascii" or not sys.executable:
        return
    import os

    os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])


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


async def _run(prompt: str, resume: str | None, quiet: bool, wishes: dict[str, Any]) -> int:
    from amplifier_foundation.errors import FoundationError

    try:
        runtime = await _runtime(_options(wishes, quiet), resume, quiet)
    except FoundationError as error:
        return _failed(error)
    except (ValueError, TypeError, OSError, RuntimeError) as error:  # a plan that is none, a disk or a `~` that fails
        return complain(exits.FAILURE, str(error))
    code = await _converse(runtime, prompt)
    if not quiet and runtime.was_opened:
        say(f"log: {runtime.log_path}")
    return code


def _options(wishes: dict[str, Any], quiet: bool) -> Options:
    """Return what the user asked for, with the keys of the user in the environment."""
    import os

    from amplifier_foundation.paths import Home, current_project
    from amplifier_foundation.prepare import Options
    from amplifier_foundation.settings.keys import KeyStore

    home = Home.find()
    keys = KeyStore(home, os.environ)
    keys.apply(os.environ)
    for warning in keys.warnings:
        say(f"warning: {warning}")
    return Options(
        home,
        current_project(),
        bundle=wishes["bundle"],
        locked=wishes["locked"],
        offline=wishes["offline"],
        trust=wishes["trust"],
        allow_missing=wishes["allow_missing_modules"],
        on_progress=None if quiet else say,
    )


async def _runtime(options: Options, resume: str | None, quiet: bool) -> SessionRuntime:
    """Return the session to run, a new one or one that goes on; what the user should know is said."""
    from amplifier_foundation.prepare import prepare, prepare_saved
    from amplifier_foundation.sessions import SessionRuntime, load_session
    from amplifier_foundation.sessions.store import SessionStore

    saved = None
    if resume is not None:
        saved = load_session(SessionStore(options.home).find(resume, options.project).folder)
        prepared = await prepare_saved(saved, options)
    else:
        prepared = await prepare(options)
    if not quiet:
        for warning in (*(saved.notes if saved else ()), *prepared.warnings):
            say(f"note: {warning}")
    return SessionRuntime(prepared, saved=saved, allow_missing_modules=options.allow_missing)


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
    from amplifier_foundation.errors import FoundationError
    from amplifier_foundation.log import SessionLogBusy
    from amplifier_foundation.sessions import ModulesMissingError

    if isinstance(error, ModulesMissingError):
        listed = "\n".join(f"  - {failure}" for failure in error.failures)
        hint = "" if error.is_fatal else "\nrun with --allow-missing-modules to go on"
        return complain(exits.MODULES, f"modules could not be loaded:\n{listed}{hint}")
    if isinstance(error, FoundationError):
        return complain(exits.MODULES if error.code in _MODULE_CODES else exits.FAILURE, str(error))
    if isinstance(error, LLMError):
        return complain(exits.PROVIDER, f"the model failed: {type(error).__name__}: {error}")
    if isinstance(error, (SessionLogBusy, RuntimeError)):
        return complain(exits.FAILURE, str(error) or type(error).__name__)
    return complain(exits.FAILURE, f"{type(error).__name__}: {error}")

"""`amplifier run`: one prompt, one answer, everything in the log."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from amplifier_app_cli import exits

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
    text = _prompt(prompt)
    sys.exit(asyncio.run(_run(text, bundle_path, allow_missing_modules, quiet)))


def _prompt(given: str | None) -> str:
    text = given
    if given in (None, "-"):
        if sys.stdin is None or sys.stdin.isatty():
            raise click.UsageError("no prompt: give one as an argument, or pipe it in")
        text = sys.stdin.read()
    if not text or not text.strip():
        raise click.UsageError("the prompt is empty")
    return text


async def _run(prompt: str, bundle_path: Path | None, allow_missing: bool, quiet: bool) -> int:
    from amplifier_core.llm_errors import LLMError
    from amplifier_foundation.bundles import BundleError, load_bundle_file
    from amplifier_foundation.bundles.shipped import default_bundle
    from amplifier_foundation.log import SessionLogBusy
    from amplifier_foundation.paths import NoHomeError, amplifier_home
    from amplifier_foundation.sessions import ModulesMissingError, SessionRuntime

    from amplifier_app_cli.ui.stream import AnswerStream

    try:
        bundle = load_bundle_file(bundle_path or default_bundle())
        runtime = SessionRuntime(bundle, amplifier_home(), Path.cwd(), allow_missing_modules=allow_missing)
    except (BundleError, NoHomeError, ValueError, TypeError) as error:
        return _fail(exits.FAILURE, str(error))
    stream = AnswerStream()
    stream.connect(runtime.session.coordinator.hooks)
    stops: list[int] = []
    try:
        async with runtime:
            with _Signals(runtime, stops):
                answer = await runtime.execute(prompt)
            stream.finish(str(answer))
    except ModulesMissingError as error:
        listed = "\n".join(f"  - {failure}" for failure in error.failures)
        return _fail(
            exits.MODULES, f"modules could not be loaded:\n{listed}\nrun with --allow-missing-modules to go on"
        )
    except SessionLogBusy as error:
        return _fail(exits.FAILURE, str(error))
    except LLMError as error:
        return _fail(exits.PROVIDER, f"the model failed: {type(error).__name__}: {error}")
    except asyncio.CancelledError:
        return _stopped(stops)
    except (RuntimeError, OSError) as error:
        return _fail(exits.FAILURE, str(error))
    if not quiet:
        click.echo(f"log: {runtime.log_path}", err=True)
    return _stopped(stops) if stops else exits.OK


class _Signals:
    """Turn the first SIGINT or SIGTERM into a graceful stop and the second into an immediate one."""

    def __init__(self, runtime: SessionRuntime, stops: list[int]) -> None:
        self._runtime = runtime
        self._stops = stops
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[Any] | None = asyncio.current_task()

    def __enter__(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._loop.add_signal_handler(number, self._stop, number)

    def __exit__(self, *_: object) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._loop.remove_signal_handler(number)

    def _stop(self, number: int) -> None:
        self._stops.append(number)
        token = self._runtime.session.coordinator.cancellation
        if len(self._stops) == 1 and number == signal.SIGINT:
            token.request_graceful()
            click.echo("\nstopping after the current step; press Ctrl-C again to stop at once", err=True)
            return
        token.request_immediate()
        if self._task is not None:
            self._task.cancel()


def _stopped(stops: list[int]) -> int:
    return exits.TERMINATED if stops and stops[0] == signal.SIGTERM else exits.INTERRUPTED


def _fail(code: int, message: str) -> int:
    click.echo(f"amplifier: {message}", err=True)
    return code

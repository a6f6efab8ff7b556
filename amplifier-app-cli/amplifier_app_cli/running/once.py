"""Run one prompt in one session and print what comes of it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from amplifier_app_cli import exits
from amplifier_app_cli.app import App
from amplifier_app_cli.failures import described
from amplifier_app_cli.running.printers import Facts, Printer, printer_for
from amplifier_app_cli.running.request import Parts, RunRequest, make_parts
from amplifier_app_cli.running.tally import Tally
from amplifier_app_cli.signals import Signals
from amplifier_app_cli.ui.say import complain, say

if TYPE_CHECKING:
    from amplifier_foundation.sessions import SessionRuntime

_NO_SESSION = Facts(None, None, None, "")


async def run_once(app: App, request: RunRequest, prompt: str, output_format: str, out: TextIO) -> int:
    """Run the prompt, print the result to `out`, and return the exit code; whatever happens, the session is closed."""
    tally = Tally()
    signals = Signals()
    try:
        with signals:  # fetching and installing may take long, and start processes of their own
            parts = await make_parts(app, request)
        runtime = _runtime(app, request, parts)
    except asyncio.CancelledError:
        code = signals.exit_code or exits.INTERRUPTED
        printer = printer_for(output_format, out, _NO_SESSION, tally, lambda value: value)
        printer.fail("cancelled", "the run was stopped", code, status="cancelled")
        return code
    except Exception as error:
        failure = described(error)
        if failure is None:
            raise
        printer = printer_for(output_format, out, _NO_SESSION, tally, lambda value: value)
        printer.fail(failure.code, failure.message, failure.exit_code)
        return complain(failure.exit_code, failure.message)
    for note in (*parts.notes, *runtime.warnings):
        say(f"note: {note}")  # a difference is never silent, whatever is quiet
    app.inform(parts.provider_line)
    printer = printer_for(output_format, out, _facts(runtime), tally, lambda value: runtime.redactor.scrub(value).value)
    code = await _converse(app, runtime, printer, tally, prompt, request.images)
    if runtime.was_opened:
        app.inform(f"log: {runtime.log_path}")
    return code


def _runtime(app: App, request: RunRequest, parts: Parts) -> SessionRuntime:
    from amplifier_foundation.sessions import SessionRuntime

    return SessionRuntime(
        parts.prepared,
        saved=parts.saved,
        allow_missing_modules=request.allow_missing_modules,
        budget=request.budget,
    )


def _facts(runtime: SessionRuntime) -> Facts:
    composed = runtime.prepared.composed
    return Facts(runtime.session_id, composed.name, runtime.model, str(runtime.prepared.project))


async def _converse(
    app: App, runtime: SessionRuntime, printer: Printer, tally: Tally, prompt: str, images: tuple[Path, ...]
) -> int:
    coordinator = runtime.session.coordinator
    tally.connect(coordinator.hooks)
    printer.connect(coordinator.hooks)
    printer.start()
    with Signals(coordinator.cancellation) as signals:
        try:
            async with runtime:
                await _show_images(coordinator.get("context"), images)
                answer = await runtime.execute(prompt)
                signals.closing = True
                code, status = _ending(runtime, tally, signals.exit_code)
                printer.finish(str(answer), status)
        except asyncio.CancelledError:
            code = signals.exit_code or exits.INTERRUPTED
            printer.fail("cancelled", "the run was stopped", code, status="cancelled")
            return code
        except Exception as error:
            if signals.exit_code is not None:
                printer.fail("cancelled", "the run was stopped", signals.exit_code, status="cancelled")
                return signals.exit_code
            failure = described(error, anything=True)
            assert failure is not None
            printer.fail(failure.code, failure.message, failure.exit_code)
            return complain(failure.exit_code, failure.message)
    if printer.failure is not None:
        return complain(exits.FAILURE, f"the answer could not be printed: {printer.failure}")
    if code == exits.BUDGET_EXHAUSTED:
        complain(code, f"{runtime.budget.exhausted}; go on with `amplifier run --resume {runtime.session_id}`")
    return signals.exit_code or code


def _ending(runtime: SessionRuntime, tally: Tally, stopped: int | None) -> tuple[int, str]:
    """Return the exit code and the status of a turn that came to its end."""
    if stopped is not None:
        return stopped, "cancelled"
    if runtime.budget.exhausted is not None and tally.reason == "denied":
        return exits.BUDGET_EXHAUSTED, "budget_exhausted"
    if tally.reason == "denied":
        return exits.PROMPT_DENIED, "denied"
    return exits.OK, tally.status or "success"


async def _show_images(context: Any, images: tuple[Path, ...]) -> None:
    """Put images before the prompt, as a message of their own."""
    if not images:
        return
    from amplifier_app_cli.running.images import image_block

    blocks = [image_block(path) for path in images]
    await context.add_message({"role": "user", "content": blocks})

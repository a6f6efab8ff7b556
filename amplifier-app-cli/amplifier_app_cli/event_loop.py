"""Run the program's work in an event loop, and end the process although a module does not finish what it started.

`asyncio.run` waits for all remaining tasks and executor threads. One tool that swallows its cancellation, or that reads
from a network share that is gone, would keep the program running forever, with the answer on the screen.
"""

from __future__ import annotations

import asyncio
import atexit
import gc
import logging
import os
import sys
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, NoReturn

from amplifier_app_cli import exits

logger = logging.getLogger(__name__)

#: Seconds for the remaining tasks and threads to end, once the work is done or was stopped.
GRACE: Final = 3.0


def run_to_exit(work: Callable[[], Coroutine[Any, Any, int]]) -> NoReturn:
    """Run the coroutine that `work` makes, and leave the program with its exit code."""
    from amplifier_app_cli.ui.say import complain, show_warnings

    show_warnings()
    pause_garbage_collection()
    loop = EventLoop()
    try:
        code = loop.run(work())
    except SystemExit as error:
        # None of our code exits in there: a module's exit code must not pass for that of the run.
        from amplifier_foundation.tracebacks import location

        place = location(error)
        where = f" ({place}): raise an error there instead" if place else ""
        code = complain(exits.FAILURE, f"a module tried to end the program with exit code {error.code!r}{where}")
    finally:
        resume_garbage_collection()
    if not loop.is_over:
        _leave_now(code)
    sys.exit(code)


class EventLoop:
    """One event loop for one piece of work."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        #: Whether nothing is left of the work, so that the interpreter can end in the usual way.
        self.is_over = False

    def run(self, work: Coroutine[Any, Any, int]) -> int:
        """Return what the work returns, after everything it started has ended or had the time to; raise likewise."""
        try:
            return self._runner.run(work)
        finally:
            self._end()

    def _end(self) -> None:
        loop, until = self._runner.get_loop(), time.monotonic() + GRACE
        # A task that is cancelled may start another one to finish its work: that one is cancelled and awaited too.
        while (tasks := asyncio.all_tasks(loop)) and (left := until - time.monotonic()) > 0:
            for task in tasks:
                task.cancel()
            loop.run_until_complete(asyncio.wait(tasks, timeout=left))
        if asyncio.all_tasks(loop) or not _threads_end(loop, until):
            logger.warning("a module does not end what it has begun, and is left behind")
            return
        self._runner.close()
        self.is_over = True


def _leave_now(code: int) -> NoReturn:
    """End the process at once, with its output flushed: the interpreter would wait for threads that do not end."""
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # the reader is gone
            stream.flush()
    os._exit(code)


def _threads_end(loop: asyncio.AbstractEventLoop, until: float) -> bool:
    """Return whether the executor threads of a loop end in time; they get no more work."""
    executor = getattr(loop, "_default_executor", None)
    if executor is None:
        return True
    executor.shutdown(wait=False, cancel_futures=True)
    threads = tuple(getattr(executor, "_threads", ()))
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    return not any(thread.is_alive() for thread in threads)


# -- the garbage collector --


def pause_garbage_collection() -> None:
    """Stop collecting while the program starts: imports create many objects that stay, and scanning them is in vain."""
    gc.disable()


def resume_garbage_collection() -> None:
    """Collect again, except for what start-up created; call it when a session is open, which may run for hours."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
        # At exit everything that matters is closed; freeing the rest one by one only delays the shell's prompt.
        atexit.register(gc.freeze)

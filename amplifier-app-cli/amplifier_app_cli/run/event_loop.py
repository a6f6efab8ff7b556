"""Run the program's work, and come to an end although a module does not end what it has begun.

`asyncio.run` waits for every task that is left, and for every thread that was given something to do. One tool that
keeps its cancellation to itself, or that reads from a share that is gone, would hold the program for ever, with the
answer on the screen.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final, NoReturn

logger = logging.getLogger(__name__)

#: Seconds that what is left has to end, once everything that matters is done or somebody wants out.
GRACE: Final = 3.0


class EventLoop:
    """One event loop for one piece of work."""

    def __init__(self) -> None:
        """Prepare it; the loop is made when it is needed."""
        self._runner = asyncio.Runner()
        #: Whether nothing is left of the work, so that the interpreter can end in the usual way.
        self.is_over = False

    def run(self, work: Coroutine[Any, Any, int]) -> int:
        """Return what the work returns, when all it has started is ended or was given the time to; raises likewise."""
        try:
            return self._runner.run(work)
        finally:
            self._end()

    def _end(self) -> None:
        loop, until = self._runner.get_loop(), time.monotonic() + GRACE
        # What ends may have something to finish in a task of its own: that too is told to end, and waited for.
        while (tasks := asyncio.all_tasks(loop)) and (left := until - time.monotonic()) > 0:
            for task in tasks:
                task.cancel()
            loop.run_until_complete(asyncio.wait(tasks, timeout=left))
        if asyncio.all_tasks(loop) or not _threads_end(loop, until):
            logger.warning("a module does not end what it has begun, and is left behind")
            return
        self._runner.close()
        self.is_over = True


def leave_now(code: int) -> NoReturn:
    """End the process at once with what was printed: the interpreter would wait for threads that do not end."""
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # whoever read it is gone
            stream.flush()
    os._exit(code)


def _threads_end(loop: asyncio.AbstractEventLoop, until: float) -> bool:
    """Tell whether the threads that work for a loop have come to their end in time; they get nothing more to do."""
    executor = getattr(loop, "_default_executor", None)
    if executor is None:
        return True
    executor.shutdown(wait=False, cancel_futures=True)
    threads = tuple(getattr(executor, "_threads", ()))
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    return not any(thread.is_alive() for thread in threads)

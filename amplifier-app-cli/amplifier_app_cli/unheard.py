"""End the process for signals that its event loop does not take up: what blocks the loop blocks every other way out.

A tool that sleeps or computes in its coroutine keeps the loop from everything, the handlers of signals included. The
signals are therefore noted beside it, and a thread looks whether the loop has taken them up.
"""

from __future__ import annotations

import asyncio
import math
import os
import select
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Final, NoReturn

#: Seconds that the loop has to take up what somebody waits for, who pressed a key or has asked again.
_PATIENCE: Final = 1.5
#: Seconds for one signal to end: to mask and write a large result may take so long, and is worth it. Whoever kills what
#: does not end waits longer.
_LONG_PATIENCE: Final = 6.0
#: Seconds for one more signal of somebody who has been waiting already.
_NO_PATIENCE: Final = 0.3
#: Seconds after which the thread must have looked.
_LATE: Final = 3.0
#: So many signals that nobody has taken up say that somebody is waiting.
_MANY: Final = 3
#: Seconds that the logs have to be closed; they may be long, and on a disk that is gone.
_CLOSING: Final = 5.0
_STANDARD_ERROR: Final = 2

_ASKED: Final = "amplifier: the session does not answer: a module may block it; press Ctrl-C again to end it"
_ENDED: Final = "amplifier: the session does not answer: a module may block it; its logs are closed, and it is ended"


class Unheard:
    """Signals, handed to the event loop, and those among them that it has not taken up.

    A SIGINT asks first, a second one ends the process, and so does any other signal. It is ended with the exit code
    that stands for the first of them, unless `exit_code` knows of an earlier one.
    """

    def __init__(self, numbers: tuple[signal.Signals, ...]) -> None:
        self._numbers = numbers
        self._waiting: list[int] = []
        #: When the first of them came.
        self._since = 0.0
        #: Whether the person was told to ask once more.
        self._was_asked = False
        self._pipe = (-1, -1)
        self._process = -1
        #: Ends the logs of the session that runs; called in another thread than the loop's.
        self.end_logs: Callable[[], None] = lambda: None
        #: Brings the terminal back to what it was.
        self.restore: Callable[[], None] = lambda: None
        #: Tells the exit code that is settled already, None when there is none.
        self.exit_code: Callable[[], int | None] = lambda: None

    def watch(self, on_signal: Callable[[int], None]) -> None:
        """Call `on_signal` in the running loop for every signal from now on; note what the loop does not take up."""
        self._loop = asyncio.get_running_loop()
        for number in self._numbers:
            self._loop.add_signal_handler(number, self._take, on_signal, number)
        self._process = os.getpid()
        self._pipe = os.pipe()
        os.set_blocking(self._pipe[1], False)
        # Started now: in a handler of a signal, the locks that this needs may be held by whom it interrupts.
        threading.Thread(target=self._look, args=(self._pipe[0],), name="amplifier-signals", daemon=True).start()
        for number in self._numbers:
            # In the place of what asyncio puts there to do nothing: it learns of signals by its own file descriptor.
            signal.signal(number, self._note)

    def stop(self) -> None:
        """Leave signals to whoever had them before; only after `watch()`."""
        for number in self._numbers:
            self._loop.remove_signal_handler(number)
        os.close(self._pipe[1])
        self._pipe = (-1, -1)

    def end_process(self, number: int) -> None:
        """End the process by a signal that has no handler any more, with the logs closed."""
        self.end_logs()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    def _take(self, on_signal: Callable[[int], None], number: int) -> None:
        """Take that the loop runs and has got the signals."""
        self._waiting.clear()
        self._was_asked = False
        on_signal(number)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._process:  # a fork: it has the handler, and the pipe is not its own
            return
        now = time.monotonic()
        if not self._waiting:
            self._since = now
        self._waiting.append(number)
        if len(self._waiting) > 1 and now - self._since > _LATE and not self._was_asked:
            self._end(self._waiting[0])  # the thread has had its time: what blocks the loop keeps the interpreter too
        try:
            os.write(self._pipe[1], b"!")
        except OSError:
            pass  # full: the thread has enough to read

    # -- in the thread --

    def _look(self, pipe: int) -> None:
        """Look at each signal until there are no more."""
        while os.read(pipe, 1):
            self._await_loop(pipe)
        os.close(pipe)

    def _await_loop(self, pipe: int) -> None:
        """Give the loop the time to take up what has come; end the process when it does not, or say how to do that."""
        started = time.monotonic()
        until = math.inf
        while waiting := tuple(self._waiting):
            until = min(until, started + self._patience(waiting))
            if len(waiting) >= _MANY:
                until = min(until, time.monotonic() + _NO_PATIENCE)
            left = until - time.monotonic()
            if left <= 0:
                if len(waiting) > 1 or waiting[0] != signal.SIGINT:
                    self._end(waiting[0])
                self._was_asked = True
                _say(_ASKED)
                return
            if select.select([pipe], [], [], left)[0] and not os.read(pipe, 1):
                return

    def _patience(self, waiting: tuple[int, ...]) -> float:
        if self._was_asked:
            return _NO_PATIENCE  # somebody who was told to ask once more has been waiting already
        return _PATIENCE if len(waiting) > 1 or waiting[0] == signal.SIGINT else _LONG_PATIENCE

    def _end(self, number: int) -> NoReturn:
        """End the process as it is; neither the loop nor what was printed and not written yet is waited for."""
        _say(_ENDED)
        # In another thread: the one that blocks the loop may be writing to the very log, and never come back.
        closing = threading.Thread(target=self.end_logs, name="amplifier-logs", daemon=True)
        closing.start()
        closing.join(_CLOSING)
        code = self.exit_code()
        try:
            self.restore()
        finally:
            os._exit(128 + number if code is None else code)


def _say(text: str) -> None:
    """Write a line to standard error past its buffer, whose lock may be held by whoever blocks the loop."""
    try:
        os.write(_STANDARD_ERROR, f"\r\n{text}\r\n".encode() if os.isatty(_STANDARD_ERROR) else f"{text}\n".encode())
    except OSError:
        pass  # closed, full, or nobody reads it: there is no other place to complain to

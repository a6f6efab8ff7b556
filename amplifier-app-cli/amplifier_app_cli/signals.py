"""Stop a session by signals: gracefully first, then at once, then by ending the process.

A tool that sleeps or computes in its coroutine blocks the event loop, and with it the loop's signal handlers. So
signals are also noted outside of the loop, and the thread of `SignalWatchdog` ends the process when the loop does not
handle them in time.
"""

from __future__ import annotations

import asyncio
import math
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final, NoReturn

from amplifier_app_cli import exits
from amplifier_app_cli.ui.say import say

_CODES: Final = {signal.SIGINT: exits.INTERRUPTED, signal.SIGTERM: exits.TERMINATED, signal.SIGHUP: exits.HUNG_UP}
#: Seconds for the loop to handle a SIGINT, or a signal that was sent again.
_PATIENCE: Final = 1.5
#: Seconds for the loop to handle any other signal: masking and writing a large result may take that long, and is worth
#: it. Programs that kill what does not end wait longer.
_LONG_PATIENCE: Final = 6.0
#: Seconds for one more signal after that.
_NO_PATIENCE: Final = 0.3
#: Seconds after which the thread must have looked.
_LATE: Final = 3.0
#: This many unhandled signals mean that the user is waiting.
_MANY: Final = 3
#: Seconds for closing the logs; they may be long, and on a disk that is gone.
_CLOSING: Final = 5.0
_STANDARD_ERROR: Final = 2

_BLOCKED: Final = "amplifier: the session does not respond: a module may block it; press Ctrl-C again to end it"
_ENDED: Final = "amplifier: the session does not respond: a module may block it; its logs are closed, and it is ended"


class Signals:
    """While entered, turn signals into cancellation of the session that the current task runs.

    The first SIGINT lets the current step end; a second one, SIGTERM or SIGHUP stops at once; a third ends the process,
    with the logs closed. Without a session to cancel, every signal cancels the task. A view that handles signals itself
    does so with `handled_by()`.
    """

    def __init__(self, token: Any = None) -> None:
        """Cancel `token`, the cancellation token of the session, if there is one."""
        self.token = token
        self._received: list[int] = []
        self._handler: Callable[[int], None] | None = None
        #: Which signal ends the process.
        self.limit = 3
        #: Set when the answer is complete: one signal then only changes the exit code, so that the session is closed.
        self.closing = False
        #: Called at every signal: an open question is denied.
        self.on_stop: Callable[[], None] = lambda: None
        #: Closes the logs of the session when the process ends without closing it; called from any thread.
        self.end_logs: Callable[[], None] = lambda: None
        #: Restores the terminal when the process is ended by force.
        self.restore_terminal: Callable[[], None] = lambda: None
        self._watchdog = SignalWatchdog(tuple(_CODES), self)

    @property
    def exit_code(self) -> int | None:
        """Return the exit code of the first signal that stopped the session, None if no signal did."""
        return _CODES[signal.Signals(self._received[0])] if self._received else None

    def __enter__(self) -> Signals:
        self._task = asyncio.current_task()
        self._watchdog.watch(self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        self._watchdog.stop()

    @contextmanager
    def handled_by(self, handler: Callable[[int], None]) -> Iterator[None]:
        """Pass signals to `handler` for the length of a block."""
        self._handler = handler
        try:
            yield
        finally:
            self._handler = None

    def stop(self, number: int) -> None:
        """Stop the session for a signal, harder each time."""
        self._received.append(number)
        self.on_stop()
        count = len(self._received)
        if count >= self.limit:
            self._watchdog.end_process(number)
        elif count == 1 and self.closing:
            return
        elif count == 1 and number == signal.SIGINT and self.token is not None:
            self.token.request_graceful()
            say("\nstopping after the current step; press Ctrl-C again to stop at once")
        else:
            if self.token is not None:
                self.token.request_immediate()
            if self._task is not None:
                self._task.cancel()

    def _on_signal(self, number: int) -> None:
        (self._handler or self.stop)(number)


class SignalWatchdog:
    """Pass signals to the event loop, and end the process if the loop does not handle them in time.

    After an unhandled SIGINT the user is asked to press Ctrl-C again; a second one, or any other signal, ends the
    process. Its exit code is that of the first unhandled signal, unless the session was stopped by an earlier one.
    """

    def __init__(self, numbers: tuple[signal.Signals, ...], signals: Signals) -> None:
        self._numbers = numbers
        self._signals = signals
        self._unhandled: list[int] = []
        #: When the first of them came.
        self._since = 0.0
        #: Whether the user was asked to press Ctrl-C again.
        self._has_asked = False
        self._pipe = (-1, -1)
        self._process = -1

    def watch(self, on_signal: Callable[[int], None]) -> None:
        """Call `on_signal` in the running loop for every signal from now on, and watch whether it is called."""
        self._loop = asyncio.get_running_loop()
        for number in self._numbers:
            self._loop.add_signal_handler(number, self._handle, on_signal, number)
        self._process = os.getpid()
        self._pipe = os.pipe()
        os.set_blocking(self._pipe[1], False)
        # Started now: a signal handler may interrupt a thread that holds the locks which starting a thread needs.
        threading.Thread(target=self._look, args=(self._pipe[0],), name="amplifier-signals", daemon=True).start()
        for number in self._numbers:
            # Replaces the no-op handler of asyncio, which learns of signals through its own file descriptor.
            signal.signal(number, self._note)

    def stop(self) -> None:
        """Restore the handlers from before `watch()`."""
        for number in self._numbers:
            self._loop.remove_signal_handler(number)
        os.close(self._pipe[1])
        self._pipe = (-1, -1)

    def end_process(self, number: int) -> None:
        """End the process by a signal, with the logs closed."""
        self._signals.end_logs()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    def _handle(self, on_signal: Callable[[int], None], number: int) -> None:
        """Run in the loop: all signals so far are handled."""
        self._unhandled.clear()
        self._has_asked = False
        on_signal(number)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._process:  # a forked process inherits the handler, but not the thread
            return
        now = time.monotonic()
        if not self._unhandled:
            self._since = now
        self._unhandled.append(number)
        if len(self._unhandled) > 1 and now - self._since > _LATE and not self._has_asked:
            self._end(self._unhandled[0])  # the thread did not run either: something holds the interpreter lock
        try:
            os.write(self._pipe[1], b"!")
        except OSError:
            pass  # full: the thread has enough to read

    # -- in the thread --

    def _look(self, pipe: int) -> None:
        while os.read(pipe, 1):
            self._await_loop(pipe)
        os.close(pipe)

    def _await_loop(self, pipe: int) -> None:
        """Give the loop time to handle the signals; then end the process, or ask for another Ctrl-C."""
        started = time.monotonic()
        until = math.inf
        while unhandled := tuple(self._unhandled):
            until = min(until, started + self._patience(unhandled))
            if len(unhandled) >= _MANY:
                until = min(until, time.monotonic() + _NO_PATIENCE)
            left = until - time.monotonic()
            if left <= 0:
                if len(unhandled) > 1 or unhandled[0] != signal.SIGINT:
                    self._end(unhandled[0])
                self._has_asked = True
                _say(_BLOCKED)
                return
            if select.select([pipe], [], [], left)[0] and not os.read(pipe, 1):
                return

    def _patience(self, unhandled: tuple[int, ...]) -> float:
        if self._has_asked:
            return _NO_PATIENCE
        return _PATIENCE if len(unhandled) > 1 or unhandled[0] == signal.SIGINT else _LONG_PATIENCE

    def _end(self, number: int) -> NoReturn:
        """End the process without waiting for the loop or for buffered output."""
        _say(_ENDED)
        # In another thread: the one that blocks the loop may hold the lock of the log forever.
        closing = threading.Thread(target=self._signals.end_logs, name="amplifier-logs", daemon=True)
        closing.start()
        closing.join(_CLOSING)
        code = self._signals.exit_code
        try:
            self._signals.restore_terminal()
        finally:
            os._exit(128 + number if code is None else code)


def _say(text: str) -> None:
    """Write a line to standard error past its buffer, whose lock the blocked thread may hold."""
    try:
        os.write(_STANDARD_ERROR, f"\r\n{text}\r\n".encode() if os.isatty(_STANDARD_ERROR) else f"{text}\n".encode())
    except OSError:
        pass  # closed, full, or without a reader: there is no other place to report to

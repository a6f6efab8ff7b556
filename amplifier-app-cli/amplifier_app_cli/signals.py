"""Stop a running session by signals: gracefully first, then at once, then whatever it takes."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Any

from amplifier_app_cli import exits
from amplifier_app_cli.ui.say import say
from amplifier_app_cli.unheard import Unheard

#: What each signal is for scripts.
_CODES = {signal.SIGINT: exits.INTERRUPTED, signal.SIGTERM: exits.TERMINATED, signal.SIGHUP: exits.HUNG_UP}
_NUMBERS = tuple(_CODES)
#: The signal that no longer waits for the session to be closed.
_LAST = 3


class Signals:
    """While entered, turn signals into cancellation of the session that the current task runs.

    The first SIGINT lets the current step end; a second one, SIGTERM or SIGHUP stops at once; a third ends the process,
    with the logs closed. What the event loop does not take up, because something blocks it, ends the process as well.
    """

    def __init__(self, token: Any = None) -> None:
        """Cancel `token`, the session's; while there is none, as while a session is being prepared, stop at once."""
        self.token = token
        self._received: list[int] = []
        #: Set when the answer is there: one signal then changes only the exit code, so that the session is closed.
        self.closing = False
        #: Called at every signal: a question that is put is not answered any more.
        self.on_stop: Callable[[], None] = lambda: None
        #: Ends the logs of the session when the process ends without closing it; any thread may call it.
        self.end_logs: Callable[[], None] = lambda: None
        self._unheard = Unheard(_NUMBERS)

    @property
    def exit_code(self) -> int | None:
        """Return the exit code that stands for the first signal, None when there was none."""
        if not self._received:
            return None
        return _CODES[signal.Signals(self._received[0])]

    def __enter__(self) -> Signals:
        self._task = asyncio.current_task()
        self._unheard.end_logs = lambda: self.end_logs()
        self._unheard.exit_code = lambda: self.exit_code
        self._unheard.watch(self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        self._unheard.stop()

    def _on_signal(self, number: int) -> None:
        self._received.append(number)
        self.on_stop()
        count = len(self._received)
        if count >= _LAST:
            self._unheard.end_process(number)
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

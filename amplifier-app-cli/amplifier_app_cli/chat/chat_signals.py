"""Hear the signals that reach a chat."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from amplifier_app_cli.chat.terminal_modes import TerminalModes
from amplifier_app_cli.unheard import Unheard

_NUMBERS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class ChatSignals:
    """Turn signals into whatever they mean at the time: before and after the talk, they end the chat."""

    def __init__(self) -> None:
        self._listener: Any = None
        #: What stands for the first signal that nobody else took.
        self.exit_code: int | None = None
        #: Ends the logs of the session when the process ends without closing it; any thread may call it.
        self.end_logs: Callable[[], None] = lambda: None
        self._unheard = Unheard(_NUMBERS)

    def __enter__(self) -> ChatSignals:
        self._task = asyncio.current_task()
        self._unheard.end_logs = lambda: self.end_logs()
        self._unheard.exit_code = lambda: self.exit_code
        self._unheard.restore = TerminalModes().restore
        self._unheard.watch(self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        self._unheard.stop()

    @contextmanager
    def heard_by(self, listener: Any) -> Iterator[None]:
        """Hand signals to `listener` for the length of a block."""
        self._listener = listener
        try:
            yield
        finally:
            self._listener = None

    def _on_signal(self, number: int) -> None:
        if self._listener is not None:
            self._listener(number)
        else:
            self.end(number)

    def end(self, number: int) -> None:
        """End the chat for a signal; for a second one, the process, with the logs closed."""
        if self.exit_code is not None:  # it was asked before, and closing takes too long for the person
            self._unheard.end_process(number)
        self.exit_code = 128 + number
        if self._task is not None:
            self._task.cancel()

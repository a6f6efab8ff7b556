"""Ctrl-C, SIGTERM and SIGHUP as one exception, raised only where it can be dealt with."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_NUMBERS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(BaseException):
    """Somebody wants the program to end. Not an Exception: nothing that handles faults may take it for one."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    @property
    def exit_code(self) -> int:
        """Return what shells expect of a program that a signal ended."""
        return 128 + self.number


class _Deferral:
    """Whether signals wait, and the one that does."""

    depth = 0
    pending: int | None = None


def _on_signal(number: int, _: FrameType | None) -> None:
    if _Deferral.depth:
        _Deferral.pending = number
        return
    raise Interrupted(number)


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise Interrupted for signals while the block runs; those the program was started to ignore stay ignored."""
    before = {}
    for number in _NUMBERS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, _on_signal)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def deferred() -> Iterator[None]:
    """Let signals wait while the block runs, and until `raise_deferred`: in it something is made that must be ended."""
    _Deferral.depth += 1
    try:
        yield
    finally:
        _Deferral.depth -= 1


def raise_deferred() -> None:
    """Raise Interrupted for a signal that was made to wait."""
    number, _Deferral.pending = _Deferral.pending, None
    if number is not None:
        raise Interrupted(number)

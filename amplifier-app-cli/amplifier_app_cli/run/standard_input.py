"""Read what is piped into the program, beside a prompt that is given as an argument."""

from __future__ import annotations

import io
import os
import stat
import sys
import threading
from typing import Final

#: After how many seconds without the end of standard input the user is told that it is read.
_PATIENCE: Final = 2.0
#: How many seconds a program that started this one has to send something through a socket.
_SOCKET_SECONDS: Final = 1.0


def read_piped() -> str:
    """Return the text of a pipe or a file at standard input; empty for a terminal, a device, or none.

    A pipe is read to its end, and a line on standard error says so if that takes long. A program that starts this one
    may leave a socket open and silent: it has a second to send something.
    """
    if sys.stdin is None or sys.stdin.isatty():
        return ""
    try:
        descriptor = sys.stdin.fileno()
        kind = os.fstat(descriptor).st_mode
    except (OSError, ValueError, io.UnsupportedOperation):
        # Not a file of the system, as in tests and in programs that replace standard input.
        return _decoded(sys.stdin.buffer.read())
    if stat.S_ISSOCK(kind) and not _has_data(descriptor):
        return ""
    if not (stat.S_ISFIFO(kind) or stat.S_ISREG(kind) or stat.S_ISSOCK(kind)):
        return ""
    timer = threading.Timer(_PATIENCE, _say_that_it_waits)
    timer.daemon = True
    timer.start()
    try:
        return _decoded(sys.stdin.buffer.read())
    finally:
        timer.cancel()


def _has_data(descriptor: int) -> bool:
    import select

    return bool(select.select([descriptor], [], [], _SOCKET_SECONDS)[0])


def _say_that_it_waits() -> None:
    from amplifier_app_cli.ui.say import say

    say(
        "reading standard input, which is sent with the prompt, to its end; to send the prompt alone, add `< /dev/null`"
    )


def _decoded(content: bytes) -> str:
    return content.decode("utf-8-sig", "replace")

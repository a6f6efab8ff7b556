"""Read what is piped into the program, beside a prompt that is given as an argument."""

from __future__ import annotations

import io
import os
import stat
import sys
import threading
from typing import BinaryIO, Final

import click

#: After how many seconds without the end of standard input the user is told that it is read.
_PATIENCE: Final = 2.0
#: How many seconds a program that started this one has to send something through a socket.
_SOCKET_SECONDS: Final = 1.0
_MEGABYTE: Final = 1_000_000


def read_piped(megabytes: int) -> str:
    """Return the text of a pipe or a file at standard input; empty for a terminal, a device, or none.

    A pipe is read to its end, and a line on standard error says so if that takes long. A program that starts this one
    may leave a socket open and silent: it has a second to send something. Raises UsageError for more than `megabytes`.
    """
    if sys.stdin is None or sys.stdin.isatty():
        return ""
    try:
        descriptor = sys.stdin.fileno()
        kind = os.fstat(descriptor).st_mode
    except (OSError, ValueError, io.UnsupportedOperation):
        # Not a file of the system, as in tests and in programs that replace standard input.
        return text_of(sys.stdin.buffer, megabytes)
    if stat.S_ISSOCK(kind) and not _has_data(descriptor):
        return ""
    if not (stat.S_ISFIFO(kind) or stat.S_ISREG(kind) or stat.S_ISSOCK(kind)):
        return ""
    timer = threading.Timer(_PATIENCE, _say_that_it_waits)
    timer.daemon = True
    timer.start()
    try:
        return text_of(sys.stdin.buffer, megabytes)
    finally:
        timer.cancel()


def _has_data(descriptor: int) -> bool:
    import select

    return bool(select.select([descriptor], [], [], _SOCKET_SECONDS)[0])


def _say_that_it_waits() -> None:
    from amplifier_app_cli.ui.say import say

    say("reading standard input to its end, to send it with the prompt; to send the prompt alone, add `< /dev/null`")


def text_of(stream: BinaryIO, megabytes: int) -> str:
    """Return all text of a stream; raises UsageError, and reads no further, for more than `megabytes`."""
    content = stream.read(megabytes * _MEGABYTE + 1)
    if len(content) > megabytes * _MEGABYTE:
        raise click.UsageError(
            f"standard input is longer than {megabytes} MB: send a part of it (`head -c 1M`), or save it as a file and "
            "let the tools search it; --max-stdin MB allows more"
        )
    return content.decode("utf-8-sig", "replace")

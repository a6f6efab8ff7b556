"""Standard streams: always open, able to encode every character, and standard output kept for the result."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from io import TextIOWrapper
from typing import Any, TextIO


def fill_standard_streams() -> None:
    """Open closed standard streams on the null device, before another file gets their descriptor."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:
            # The lowest free number is taken, which is this one.
            os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(descriptor, "r" if name == "stdin" else "w", encoding="utf-8", closefd=False))


def never_fail_to_encode() -> None:
    """Show a character that the terminal's encoding lacks as a question mark, not as a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")


def speak_utf8() -> None:
    """Restart Python in UTF-8 mode if its encoding is ASCII: prompts and file names would lose characters."""
    if sys.getfilesystemencoding() == "ascii" and sys.executable:
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])


class ResultStream:
    """Writes the result to a stream that may go away.

    A reader that closes the pipe (as in `| head`) ends the writing, not the run: the session continues, with its log.
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._is_over = False
        #: Why nothing more could be written, unless the reader closed the stream.
        self.failure: OSError | None = None

    @property
    def encoding(self) -> str:
        return self._out.encoding

    def is_terminal(self) -> bool:
        return self._out.isatty()

    def is_shared(self) -> bool:
        """Return whether standard error writes to the same place, so that both may meet on one line."""
        try:
            if self._out.isatty() and sys.stderr.isatty():
                return True
            own, other = os.fstat(self._out.fileno()), os.fstat(sys.stderr.fileno())
        except (AttributeError, OSError, ValueError):
            return False
        return (own.st_dev, own.st_ino) == (other.st_dev, other.st_ino)

    def write(self, text: str) -> None:
        """Write a text, and flush it."""
        if self._is_over:
            return
        try:
            self._out.write(text)
            self._out.flush()
        except BrokenPipeError:
            self._give_up()
        except OSError as error:
            self.failure = error
            self._give_up()

    def _give_up(self) -> None:
        """Write nothing more, and let the interpreter discard what is left in the buffer when it ends."""
        self._is_over = True
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, self._out.fileno())
        finally:
            os.close(nowhere)


#: Whether foreign code may have been loaded, which may still print when the interpreter exits.
_was_used = False


@contextmanager
def guarded_stdout() -> Iterator[TextIO]:
    """Yield a stream for the result, while descriptor 1 and `sys.stdout` lead to standard error.

    Prints of modules, writes of libraries to the descriptor and output of child processes stay out of the result.
    Everything is restored at the end; `seal_stdout` is for what comes later. A `sys.stdout` that the caller replaced
    is the stream for the result.
    """
    global _was_used
    given = sys.stdout
    if given is not sys.__stdout__:
        with redirect_stdout(sys.stderr):
            yield given
        return
    _was_used = True
    sys.stdout.flush()
    own = os.dup(1)
    result = os.fdopen(own, "w", encoding=sys.stdout.encoding or "utf-8", errors="replace")
    replaced = sys.stdout
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    try:
        yield result
    finally:
        sys.stdout = replaced
        # What was written to the stream through sys.__stdout__ belongs to standard error too.
        _flush(replaced)
        _flush(result)
        os.dup2(own, 1)
        try:
            result.close()
        except (OSError, ValueError):
            pass  # the reader is gone


def seal_stdout() -> None:
    """Send what exit handlers print to standard error: the result is complete.

    Call it once, at the end of a command. Output that cannot be written is discarded, so that the interpreter does
    not try again and exit with another code.
    """
    if sys.stdout is None or sys.stdout is not sys.__stdout__:
        return  # the caller replaced it
    if not _flush(sys.stdout):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)
    elif _was_used:
        os.dup2(2, 1)
        sys.stdout = sys.stderr


def is_about_stdout(error: Exception) -> bool:
    """Return whether an error may be about standard output itself."""
    import errno

    return isinstance(error, OSError) and error.filename is None and error.errno in (errno.ENOSPC, errno.EIO)


def unwritten(error: OSError) -> str:
    """Return a sentence for output that could not be written."""
    return f"the output could not be written: {error.strerror or error}"


def _flush(stream: TextIO | Any) -> bool:
    """Return whether everything that was written could be passed on."""
    try:
        stream.flush()
    except (OSError, ValueError):
        return False
    return True

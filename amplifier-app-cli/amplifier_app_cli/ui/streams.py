"""Standard streams: always open, able to encode every character, and standard output kept for the result."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from io import TextIOWrapper
from typing import Any, TextIO


def fill_standard_streams() -> None:
    """Put nothing where a standard stream was closed, before a file of ours takes its place and is written into."""
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
    """Start over when Python was told to know ASCII alone: prompts and names of files would lose their characters."""
    if sys.getfilesystemencoding() == "ascii" and sys.executable:
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])


class ResultStream:
    """Writes the result to a stream that may go away.

    A reader that closes the pipe (as in `| head`) ends the writing, not the run: the session goes on and has a log.
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


#: Whether code that is not ours may have been loaded, which may still print when the interpreter ends.
_was_used = False


@contextmanager
def guarded_stdout() -> Iterator[TextIO]:
    """Yield a stream for the result, while descriptor 1 and `sys.stdout` lead to standard error.

    A module that prints, a library that writes to the descriptor and a child process that inherits it cannot get into
    what a program reads. Everything is put back at the end, whatever happens; `seal_stdout` is for what comes later.
    A `sys.stdout` that the caller has put in place is the stream for the result: the descriptor is not the caller's.
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
        # What somebody wrote to the stream itself, by its other name, belongs where the descriptor still leads.
        _flush(replaced)
        _flush(result)
        os.dup2(own, 1)
        try:
            result.close()
        except (OSError, ValueError):
            pass  # nobody reads it any more


def seal_stdout() -> None:
    """Say that the result is complete: what is printed from now on, by code that runs at exit, goes to standard error.

    To be called once, when a command is over. Output that cannot be written is thrown away, so that the interpreter
    does not try again and end with an exit code of its own; returns nothing, since whoever wrote it has been told.
    """
    if sys.stdout is None or sys.stdout is not sys.__stdout__:
        return  # not ours: somebody else reads it
    if not _flush(sys.stdout):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)
    elif _was_used:
        os.dup2(2, 1)
        sys.stdout = sys.stderr


def is_about_stdout(error: Exception) -> bool:
    """Tell whether it may be standard output itself that cannot be written: then nothing more is."""
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

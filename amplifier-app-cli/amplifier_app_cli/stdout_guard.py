"""Keep standard output for the result: whatever else is printed, by whomever, goes to standard error."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO


@contextmanager
def guarded_stdout() -> Iterator[TextIO]:
    """Yield a stream for the result, while descriptor 1 and `sys.stdout` lead to standard error.

    A module that prints, a library that writes to the descriptor and a child process that inherits it cannot get into
    what a program reads. Everything is put back at the end, whatever happens.
    """
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
        try:
            result.flush()
        except (OSError, ValueError):
            pass  # nobody reads it any more
        os.dup2(own, 1)
        try:
            result.close()
        except OSError:
            pass

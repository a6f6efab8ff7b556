"""See to it that there are standard streams, and that writing to them does not fail for want of a character."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper


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

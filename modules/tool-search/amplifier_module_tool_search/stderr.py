"""Report problems of the searching process on stderr, in the format of ripgrep."""

from __future__ import annotations

import os


def problem(path: str, error: OSError) -> None:
    """Report a file or folder that cannot be read."""
    say(f"./{path}: {error.strerror} (os error {error.errno})")


def say(text: str) -> None:
    """Write one line to stderr."""
    os.write(2, text.replace("\n", " ").encode("utf-8", "replace") + b"\n")

"""The program's output: one JSON object on standard output for programs, lines on standard error for people."""

from __future__ import annotations

import json
import os
import re
import sys
from typing import Any, Final

from amplifier_kit.guard.invisible_characters import printable_json

#: Escape sequences and control characters: output of a universe must not control the terminal.
_CONTROL: Final = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
)


def print_result(record: dict[str, Any]) -> None:
    """Print the result of a command: one object, indented on a terminal."""
    indent = 2 if sys.stdout.isatty() else None
    _print(json.dumps(record, indent=indent, ensure_ascii=False, default=str))


def print_line(record: dict[str, Any]) -> None:
    """Print one of many results, on one line."""
    _print(json.dumps(record, ensure_ascii=False, default=str))


def _print(text: str) -> None:
    text = printable_json(text)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        # A terminal without the character, or bytes of a file name that are not text: JSON can write both in ASCII.
        text = "".join(char if ord(char) < 128 else json.dumps(char)[1:-1] for char in text)
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def report(text: str) -> None:
    """Write a line to standard error; failure to do so is ignored, because there is nowhere to report it."""
    try:
        encoding = sys.stderr.encoding or "utf-8"
        sys.stderr.write(_CONTROL.sub("", text).encode(encoding, "replace").decode(encoding) + "\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        pass  # closed, full, or a pipe without a reader


def print_error(code: str, message: str, remedy: str, **more: Any) -> None:
    """Print an error, for programs and for people."""
    print_result({"error": {"code": code, "message": message, "remedy": remedy}, **more})
    report_error(message, remedy)


def report_error(message: str, remedy: str) -> None:
    """Report what went wrong and what to do, to people alone."""
    report(f"amplifier-digital-twin: {message}" + (f"\n  → {remedy}" if remedy else ""))


def discard_stdout() -> None:
    """Point standard output at /dev/null, so that the interpreter does not fail to flush it when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)

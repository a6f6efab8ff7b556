"""How the program speaks: one JSON object on standard output for programs, lines on standard error for people."""

from __future__ import annotations

import json
import os
import re
import sys
from typing import Any, Final

from amplifier_kit.guard.invisible_characters import printable_json

#: Escape sequences and control characters: what a universe says must not steer the terminal.
_CONTROL: Final = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
)


def answer(record: dict[str, Any]) -> None:
    """Print the result of a command: one object, indented on a terminal."""
    indent = 2 if sys.stdout.isatty() else None
    _print(json.dumps(record, indent=indent, ensure_ascii=False, default=str))


def answer_line(record: dict[str, Any]) -> None:
    """Print one of many results, on one line."""
    _print(json.dumps(record, ensure_ascii=False, default=str))


def _print(text: str) -> None:
    text = printable_json(text)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        # A terminal without the character, or bytes of a file's name that are no text: JSON can say both in ASCII.
        text = "".join(char if ord(char) < 128 else json.dumps(char)[1:-1] for char in text)
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def say(text: str) -> None:
    """Write a line to standard error; what cannot be said there cannot be said at all."""
    try:
        encoding = sys.stderr.encoding or "utf-8"
        sys.stderr.write(_CONTROL.sub("", text).encode(encoding, "replace").decode(encoding) + "\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        pass  # closed, full, or nobody reads it: there is no other place to complain to


def refuse(code: str, message: str, remedy: str, **more: Any) -> None:
    """Print an error, for programs and for people."""
    answer({"error": {"code": code, "message": message, "remedy": remedy}, **more})
    complain(message, remedy)


def complain(message: str, remedy: str) -> None:
    """Say what went wrong and what to do, to people alone."""
    say(f"amplifier-digital-twin: {message}" + (f"\n  → {remedy}" if remedy else ""))


def forget_stdout() -> None:
    """Throw away what nobody reads, so that the interpreter does not try to write it when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)

"""Make text safe to show: what a model or a tool says must not steer the terminal."""

from __future__ import annotations

import re
import sys

from amplifier_kit.guard.invisible_characters import is_unseen

#: Escape sequences, control characters, and the marks that reverse the direction of what follows.
_CONTROL = (
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
)


def plain(text: str) -> str:
    """Return the text without terminal escapes and control characters; tab and newline stay."""
    return re.sub(_CONTROL, "", text)


def without_secrets(text: str) -> str:
    """Return the text with known secrets masked: errors of modules may quote them, and CI keeps what we print.

    Before any code has run that reads secrets, it is the text itself.
    """
    redaction = sys.modules.get("amplifier_kit.guard.redaction.redactor")
    return str(redaction.process_redactor().scrub_text(text)) if redaction is not None else text


def visible(text: str) -> str:
    """Return the text with everything in it: what a terminal would obey or not show is written out, as in `\\x1b`.

    Tab and newline stay. This is for text that a user decides on: nothing may be hidden.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character if character in "\t\n" or not is_unseen(character) else _escaped(character) for character in text
    )


def on_one_line(text: str) -> str:
    """Return the text as `visible()` does, on one line: foreign text must not imitate our lines."""
    return visible(text).replace("\n", "\\n")


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")

"""Colours of the terminal, and when to use them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final, Literal

from amplifier_kit.named_tuple import NamedTuple


def choose_colour(when: str) -> None:
    """Set the variables that everything which colours reads: `always`, `never`, or `auto` to leave them as they are."""
    if when == "never":
        os.environ["NO_COLOR"] = "1"
    elif when == "always":
        os.environ.pop("NO_COLOR", None)
        os.environ["FORCE_COLOR"] = "1"


Tone = Literal["dim", "bold", "good", "bad", "note"]

_CODES: Final[dict[Tone, str]] = {"dim": "2", "bold": "1", "good": "32", "bad": "31", "note": "36"}


class Ink(NamedTuple):
    """Styles text. Text from models, tools and files must be made plain before."""

    is_styled: bool

    @classmethod
    def for_terminal(cls, environ: Mapping[str, str], *, is_terminal: bool) -> Ink:
        """Return styled ink for a terminal, plain ink with NO_COLOR or TERM=dumb or without a terminal.

        FORCE_COLOR counts if TERM is not set.
        """
        kind = environ.get("TERM") or ("" if environ.get("FORCE_COLOR", "0") == "0" else "forced")
        return cls(is_terminal and not environ.get("NO_COLOR") and kind not in ("", "dumb"))

    def __call__(self, tone: Tone, text: str) -> str:
        """Return the text in a tone, line by line, so that a line can stand alone."""
        if not self.is_styled or not text:
            return text
        return "\n".join(f"\x1b[{_CODES[tone]}m{line}\x1b[0m" if line else line for line in text.split("\n"))

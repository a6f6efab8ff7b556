"""Find what is left of a known secret where a text was cut: whoever cuts does not know what it cuts through.

Texts are shortened in many places before they are written: a line of a file, a title, the reason of a hook. Of a secret
that lies across the cut, the rest is no known value any more. It is known by where it stands: the beginning of a secret
right before the cut, or the end of one right behind it. A long rest with digits in it is known between words as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from amplifier_kit.guard.redaction.glance import LONG, Glance, any_in, is_word
from amplifier_kit.guard.redaction.mask import MASK, MASKS

#: Less of a secret is no secret, and would mask ordinary words.
LEAST_REST: Final = LONG
#: As much of a secret, with a digit and a letter in it, is no ordinary word wherever it stands.
_TELLING_REST: Final = 12
#: What stands before or behind a cut: the end of the text, dots, or a remark in brackets, also on a line of its own.
_CUT_AFTER: Final = re.compile(r"\Z|\s{0,4}(?:…|\.\.|[\[(<{])")
_CUT_BEFORE: Final = re.compile(r"(?:…|\.\.|[\])>}])\s{0,4}\Z")
_LONGEST_CUT: Final = 8
_WORD: Final = re.compile(r"[A-Za-z0-9_\-+/=.%~]")
#: Addresses begin alike, and files with keys and objects in JSON do: that much more must be there of these.
_COMMON: Final = re.compile(
    r"[A-Za-z][A-Za-z0-9+.\-]{1,20}(?:://|%3A%2F%2F|%3a%2f%2f)|[{\[][^A-Za-z0-9]*|-----BEGIN[A-Z ]*-+"
)


class Ends:
    """The beginnings and ends of known secrets."""

    def __init__(self, forms: Iterable[str] = (), plain: Iterable[str] = ()) -> None:
        """Know the beginnings of secrets in all forms in which they may be written, and their ends as they are."""
        #: The secrets by their first characters, with how much must be there, and by their last ones.
        self._heads: dict[str, list[tuple[str, int]]] = {}
        self._tails: dict[str, list[str]] = {}
        for form in forms:
            if len(form) > LEAST_REST and not any(form[:LEAST_REST] in mask for mask in MASKS):
                common = _COMMON.match(form)
                least = LEAST_REST + (common.end() if common else 0)
                self._heads.setdefault(form[:LEAST_REST], []).append((form, least))
        for secret in plain:
            if len(secret) > LEAST_REST and not any(secret[-LEAST_REST:] in mask for mask in MASKS):
                self._tails.setdefault(secret[-LEAST_REST:], []).append(secret)
        known = tuple(dict.fromkeys((*self._heads, *self._tails)))
        self._words = tuple(each for each in known if is_word(each))
        self._texts = tuple(each for each in known if not is_word(each))

    def may_be_in(self, glance: Glance) -> bool:
        """Tell whether a text holds the beginning or the end of a known secret."""
        return (bool(self._words) and any_in(self._words, glance.long_words())) or any_in(self._texts, glance.text)

    def mask(self, text: str) -> tuple[str, int]:
        """Return a text without what is left of known secrets at its cuts, and how many there were."""
        spans = [*self._beginnings(text), *self._endings(text)]
        if not spans:
            return text, 0
        parts: list[str] = []
        done = count = 0
        for start, end in sorted(spans):
            if start >= done:
                parts += (text[done:start], MASK)
                count += 1
            done = max(done, end)
        return "".join((*parts, text[done:])), count

    def _beginnings(self, text: str) -> Iterator[tuple[int, int]]:
        for head, forms in self._heads.items():
            at = text.find(head)
            while at >= 0:
                ends = [end for form, least in forms if (end := _end_of_beginning(text, at, form, least))]
                if ends:
                    yield at, max(ends)
                at = text.find(head, at + 1)

    def _endings(self, text: str) -> Iterator[tuple[int, int]]:
        for tail, forms in self._tails.items():
            at = text.find(tail)
            while at >= 0:
                end = at + LEAST_REST
                starts = [start for form in forms if (start := _start_of_ending(text, end, form)) is not None]
                if starts:
                    yield min(starts), end
                at = text.find(tail, at + 1)


def _end_of_beginning(text: str, at: int, form: str, least: int) -> int | None:
    """Return where the beginning of a secret is cut that stands somewhere in a text, None when it is not."""
    most = LEAST_REST
    while most < len(form) and text[at + most : at + most + 1] == form[most]:
        most += 1
    for length in range(most, least - 1, -1):
        end = at + length
        if _CUT_AFTER.match(text, end) or (_is_telling(form[:length]) and not _WORD.match(text, end)):
            return end
    return None


def _start_of_ending(text: str, end: int, form: str) -> int | None:
    """Return where the end of a secret begins that was cut, None when nothing was."""
    most = LEAST_REST
    while most < len(form) and end > most and text[end - most - 1] == form[-most - 1]:
        most += 1
    for length in range(most, LEAST_REST - 1, -1):
        start = end - length
        is_cut = start == 0 or _CUT_BEFORE.search(text, max(0, start - _LONGEST_CUT), start)
        if is_cut or (_is_telling(form[-length:]) and not _WORD.match(text, start - 1)):
            return start
    return None


def _is_telling(rest: str) -> bool:
    return (
        len(rest) >= _TELLING_REST
        and any(character.isdigit() for character in rest)
        and any(character.isalpha() for character in rest)
    )

"""Secrets that give themselves away by their form: the tokens of known services, private keys, signed web tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, cached_property
from itertools import product
from typing import NamedTuple

from amplifier_kit.guard.redaction.prefilter import HEAD, MASK, VERY_LONG, Glance, is_word
from amplifier_kit.guard.redaction.private_keys import mask_private_keys, may_hold_private_key
from amplifier_kit.guard.redaction.token_formats import (
    ALPHABETS,
    ANYWHERE,
    TOKEN_FORMATS,
    Run,
    TokenFormat,
    parts,
)


class _Search:
    """The search for the tokens of one row, or for those with one of its marks."""

    def __init__(self, number: int, form: TokenFormat, common: str, marks: list[str]) -> None:
        #: The place in the table: what stands first there is masked first.
        self.number = number
        self._form = form
        self._marks = common, marks
        #: Whether such a token is several words.
        self._needs_text = not all(map(is_word, _literals(form, common)))

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(self._form.pattern(*self._marks))

    def finds_any(self, glance: Glance) -> bool:
        text = glance.text if self._needs_text or glance.has_escapes else glance.long_words(VERY_LONG)
        return any(map(self._is_token, self._pattern.finditer(text)))

    def mask(self, text: str) -> tuple[str, int]:
        found = 0

        def replace(match: re.Match[str]) -> str:
            nonlocal found
            if not self._is_token(match):
                return match.group()
            found += 1
            return match["mark"] + MASK if self._form.keep else MASK

        return self._pattern.sub(replace, text), found

    def _is_token(self, match: re.Match[str]) -> bool:
        return self._form.is_token(match["body"])


class _Index(NamedTuple):
    """The searches by what a text must contain for them to be worth a try.

    However long the table is, a text without tokens costs about the same: most marks begin a word, and the first
    characters of all long words are looked up at once.
    """

    by_head: dict[bytes, list[_Search]]
    heads: set[bytes]
    in_words: list[tuple[str, list[_Search]]]


#: A mark that begins with one of these begins a piece, even inside of a token.
_BREAKS = "-.+:"
_SEPARATORS = re.compile("[^A-Za-z0-9]+")


def may_hold_shape(glance: Glance) -> bool:
    """Tell, fast, whether there is anything to mask."""
    return any(search.finds_any(glance) for search in _worth_trying(glance)) or may_hold_private_key(glance)


def mask_shapes(text: str) -> tuple[str, int]:
    """Return the text without secrets that have a known form, and how many there were."""
    total = 0
    for search in sorted(_worth_trying(Glance(text)), key=lambda search: search.number):
        text, found = search.mask(text)
        total += found
    text, found = mask_private_keys(text)
    return text, total + found


def _worth_trying(glance: Glance) -> set[_Search]:
    """Return the searches whose marks are there, as far as a glance can tell.

    No token is shorter than VERY_LONG, so only long words are looked at.
    """
    by_head, known, in_words = _index()
    found: set[_Search] = set()
    if words := glance.long_words(VERY_LONG):
        for anchor, searches in in_words:
            if anchor in words:
                found.update(searches)
        heads = glance.heads()
        if not known.isdisjoint(heads):
            for head in known & heads:
                found.update(by_head[head])
    return found


@cache
def _index() -> _Index:
    by_head: dict[bytes, list[_Search]] = {}
    in_words: dict[str, list[_Search]] = {}
    for number, form in enumerate(TOKEN_FORMATS):
        for anchor, marks in form.groups():
            search = _Search(number, form, anchor, marks)
            if form.start == ANYWHERE or (form.before and anchor[0] not in _BREAKS):
                in_words.setdefault(anchor, []).append(search)
            else:
                for head in {head for mark in marks for head in _heads(mark, form.after)}:
                    by_head.setdefault(head, []).append(search)
    # Of anchors that are part of others, the short ones are enough.
    short = [anchor for anchor in in_words if not any(other in anchor for other in in_words if other != anchor)]
    merged = [
        (part, [search for anchor in in_words if part in anchor for search in in_words[anchor]]) for part in short
    ]
    return _Index(by_head, set(by_head), merged)


def _heads(mark: str, after: str) -> Iterator[bytes]:
    """Yield what the first piece of a token with this mark may begin with; of a short mark, with what may follow."""
    first, *rest = [piece for piece in _SEPARATORS.split(mark) if piece]
    if rest or len(first) >= HEAD or not mark[-1].isalnum():
        yield first[:HEAD].encode()
        return
    kinds: list[str] = []
    for part in parts(after):
        kinds += [ALPHABETS[part.kind]] * min(part.most or HEAD, HEAD) if isinstance(part, Run) else part
    for count in range(HEAD - len(first) + 1):
        # Fewer characters, where a separator comes next.
        for following in product(*kinds[:count]):
            yield (first + "".join(following)).encode()


def _literals(form: TokenFormat, common: str) -> list[str]:
    return [common, *(part for part in (*parts(form.before), *parts(form.after)) if isinstance(part, str))]

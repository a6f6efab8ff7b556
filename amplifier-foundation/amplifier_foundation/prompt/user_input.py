"""Which parts of a prompt the user typed: only there does an `@` name a file.

Text that was piped in, pasted, written by a model or read from a file may come from anyone. It is data, and an `@` in
it is a plain character.
"""

from __future__ import annotations

from amplifier_foundation.prompt.mentions import Mention, find_mentions
from amplifier_kit.struct import FrozenStruct

__all__ = ["Span", "UserInput"]

#: The start and the end of a part of a text.
Span = tuple[int, int]


class UserInput(FrozenStruct):
    """A prompt, and the parts of it that the user typed."""

    text: str
    typed: tuple[Span, ...] = ()

    @classmethod
    def of_typed(cls, text: str, pasted: tuple[Span, ...] = ()) -> UserInput:
        """Return a text that the user typed, except for the parts in `pasted`."""
        typed: list[Span] = []
        start = 0
        for first, last in sorted(pasted):
            if first > start:
                typed.append((start, first))
            start = max(start, last)
        if start < len(text):
            typed.append((start, len(text)))
        return cls(text, tuple(typed))

    @classmethod
    def of_data(cls, text: str) -> UserInput:
        """Return a text that the user did not type."""
        return cls(text)

    def __add__(self, other: UserInput) -> UserInput:
        """Return one text after another."""
        shift = len(self.text)
        return UserInput(self.text + other.text, (*self.typed, *((a + shift, b + shift) for a, b in other.typed)))

    def ending(self, end: str) -> UserInput:
        """Return its last part `end`, ignoring trailing white space; not typed if the text does not end with it."""
        kept = self.text.rstrip()
        if not kept.endswith(end):
            return UserInput(end)
        start = len(kept) - len(end)
        spans = ((max(a - start, 0), min(b - start, len(end))) for a, b in self.typed)
        return UserInput(end, tuple((a, b) for a, b in spans if a < b))

    def mentions(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the names that the user mentions, and those whose `@` they did not type; each once, in order."""
        typed: dict[str, None] = {}
        others: dict[str, None] = {}
        for mention in find_mentions(self.text):
            (typed if self._is_typed(mention) else others)[mention.text] = None
        return tuple(typed), tuple(name for name in others if name not in typed)

    def escaped(self) -> str:
        """Return the text with a backslash before every mention that was not typed, so that it never counts as typed.

        For a history of inputs, from which texts come back without their spans.
        """
        parts: list[str] = []
        start = 0
        for mention in find_mentions(self.text):
            if not self._is_typed(mention):
                parts += [self.text[start : mention.start], "\\"]
                start = mention.start
        return "".join([*parts, self.text[start:]])

    def _is_typed(self, mention: Mention) -> bool:
        return any(start <= mention.start < end for start, end in self.typed)

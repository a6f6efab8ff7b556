"""Tell thinking from text where a server leaves the model's own marks in the text."""

from __future__ import annotations

from typing import Final, Literal

__all__ = ["ThinkTags"]

_OPEN: Final = "<think>"
_CLOSE: Final = "</think>"

Said = tuple[Literal["text", "thinking"], str]


class ThinkTags:
    """Split a text that may begin with `<think>...</think>`, however it is cut into pieces.

    Marks elsewhere are text: only at the beginning does a model mean them.
    """

    def __init__(self, *, enabled: bool = True) -> None:
        self._state: Literal["start", "thinking", "behind", "text"] = "start" if enabled else "text"
        self._held = ""
        #: Whether nothing was thought yet: blank lines in front are left out.
        self._is_blank = True

    @property
    def is_open(self) -> bool:
        """Tell whether pieces still have to be split; when not, they are plain text."""
        return self._state != "text"

    def feed(self, piece: str) -> list[Said]:
        """Return what can be said now; what may turn out to be a mark is held back."""
        held, self._held = self._held + piece, ""
        if self._state == "start":
            return self._begin(held)
        if self._state == "thinking":
            return self._think(held)
        if self._state == "behind":
            return self._after(held)
        return [("text", held)] if held else []

    def flush(self) -> list[Said]:
        """Return what was held back, when nothing more comes."""
        held, self._held = self._held, ""
        kind: Literal["text", "thinking"] = "thinking" if self._state == "thinking" else "text"
        return [(kind, held)] if held and self._state != "behind" else []

    def _begin(self, held: str) -> list[Said]:
        start = held.lstrip()
        if start.startswith(_OPEN):
            self._state = "thinking"
            return self._think(start[len(_OPEN) :])
        if _OPEN.startswith(start):
            self._held = held
            return []
        self._state = "text"
        return [("text", held)]

    def _think(self, held: str) -> list[Said]:
        held = held.lstrip("\n") if self._is_blank else held
        self._is_blank = not held
        thought, mark, rest = held.partition(_CLOSE)
        if mark:
            self._state = "behind"
            said: list[Said] = [("thinking", thought)] if thought else []
            return said + self._after(rest)
        keep = next((n for n in range(len(_CLOSE) - 1, 0, -1) if held.endswith(_CLOSE[:n])), 0)
        self._held = held[len(held) - keep :]
        sure = held[: len(held) - keep]
        return [("thinking", sure)] if sure else []

    def _after(self, held: str) -> list[Said]:
        """Leave out the blank lines behind the thinking."""
        text = held.lstrip()
        if not text:
            return []
        self._state = "text"
        return [("text", text)]

"""Follow the answers of a session while they stream in."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Final

from amplifier_app_cli.ui.plain import plain

#: After hooks that change events.
_PRIORITY: Final = 950
#: The beginning of an escape sequence whose end may be in the next piece.
_BEGUN_ESCAPE: Final = r"\x1b(?:\[[0-?]{0,40}[ -/]{0,4})?\Z"

Handler = Callable[[str, dict[str, Any]], None]


class AnswerFollower(ABC):
    """Passes answers, without terminal escapes, to `show()` and `end_block()` of a subclass.

    `end_turn()` ends a turn: it shows the answer if it did not stream in.
    """

    #: The kinds of blocks to show.
    kinds: ClassVar[tuple[str, ...]] = ("text",)

    def __init__(self) -> None:
        #: What was shown, without white space, by which a streamed answer and the final one may differ.
        self._shown = ""
        self._held = ""

    def connect(self, hooks: Any) -> None:
        """Listen to a session."""
        for event, handler in self.handlers().items():
            hooks.register(event, handler, priority=_PRIORITY, name="app-answer")

    def handlers(self) -> dict[str, Handler]:
        return {"llm:stream_block_start": self._on_boundary, "llm:stream_block_delta": self._on_delta}

    @abstractmethod
    def show(self, kind: str, text: str) -> None:
        """Show a piece of a block."""

    @abstractmethod
    def end_block(self) -> None:
        """Show that the block is complete."""

    def add(self, kind: str, text: str) -> None:
        """Show a piece of a block of this kind."""
        if kind not in self.kinds:
            return
        text = self._held + text
        begun = re.search(_BEGUN_ESCAPE, text)
        self._held = begun.group() if begun else ""
        if text := plain(text.removesuffix(self._held)):
            self._shown += _without_space(text)
            self.show(kind, text)

    def close(self) -> None:
        """End the block, because it is complete or something else is about to be shown."""
        self._held = ""
        self.end_block()

    def end_turn(self, answer: str) -> None:
        """End the turn, after showing its answer unless that was shown already."""
        self.close()
        if not self._shown.endswith(_without_space(plain(answer))):
            self.add("text", answer)
            self.close()

    def _on_boundary(self, event: str, data: dict[str, Any]) -> None:
        self.close()

    def _on_delta(self, event: str, data: dict[str, Any]) -> None:
        if isinstance(text := data.get("text"), str):
            self.add(str(data.get("block_type") or "text"), text)

    def has_shown(self, text: str) -> bool:
        """Return whether a text was shown before."""
        return _without_space(plain(text)) in self._shown


def _without_space(text: str) -> str:
    return "".join(text.split())

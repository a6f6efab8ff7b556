"""Queue what hooks say to the model until its next request."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from amplifier_core.models import HookResult
from amplifier_kit.reminders import reminder, without_tags
from amplifier_kit.struct import FrozenStruct

#: More pending notes than this mean that nothing reads them.
_MOST: Final = 100
_LENGTH: Final = 20_000
_CUT: Final = "(cut here)"


class Note(FrozenStruct):
    """Something for the model."""

    hook: str
    event: str
    text: str


class Notes:
    """What waits in one session; bounded, the oldest goes first."""

    def __init__(self, coordinator: Any) -> None:
        self._coordinator = coordinator
        self._waiting: deque[Note] = deque(maxlen=_MOST)

    @staticmethod
    def of(event: str, contexts: Sequence[tuple[str, str]]) -> list[Note]:
        """Return what hooks said on an event as notes."""
        return [Note(hook, event, text[:_LENGTH]) for hook, text in contexts]

    def add(self, event: str, contexts: Sequence[tuple[str, str]]) -> None:
        """Keep what hooks said on an event for later."""
        self._waiting.extend(self.of(event, contexts))

    def take(self) -> list[Note]:
        """Return what waits, once."""
        taken = list(self._waiting)
        self._waiting.clear()
        return taken

    def on_provider_request(self, event: str, data: Any) -> HookResult | None:
        """Give what waits to the model with the request that comes next."""
        return self.result(self.take())

    def result(self, notes: Sequence[Note]) -> HookResult | None:
        """Return notes as an injection, within the session's limit; one over it would be refused altogether."""
        if not notes:
            return None
        limit = getattr(self._coordinator, "injection_size_limit", None)
        text = "\n\n".join(_wrapped(note) for note in notes)
        if isinstance(limit, int) and len(text) > limit:
            text = f"{text[: max(0, limit - len(_CUT))]}{_CUT}"[:limit]
        return HookResult(action="inject_context", context_injection=text, context_injection_role="user")


def _wrapped(note: Note) -> str:
    return reminder(without_tags(note.text), "hook-shell", event=note.event)

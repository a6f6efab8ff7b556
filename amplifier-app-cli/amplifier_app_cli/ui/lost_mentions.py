"""Say which names of files in a prompt have brought nothing: they may be mistyped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

#: So many are named; text that was pasted may hold any number of words with an @.
_MOST_NAMED: Final = 3


class LostMentions:
    """Listen for `mentions:resolved`, and tell of each prompt in one line what of it was not found."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        """Tell by `tell`, which makes the text plain and may have nothing to say it to."""
        self._tell = tell

    def connect(self, hooks: Any) -> None:
        """Listen to a session."""
        hooks.register("mentions:resolved", self._on_resolved, priority=950, name="app-lost-mentions")

    def _on_resolved(self, event: str, data: dict[str, Any]) -> None:
        lost = [one for one in data.get("failed") or () if one.get("in_prompt")]
        if not lost:
            return
        told = "; ".join(f"{one.get('mention')}: {one.get('reason')}" for one in lost[:_MOST_NAMED])
        more = f"; and {len(lost) - _MOST_NAMED} more" if len(lost) > _MOST_NAMED else ""
        self._tell(f"note: not given to the model: {told}{more}")

"""Say which files were not given to the model: names in a prompt that may be mistyped, and what was denied."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

#: So many are named; text that was pasted may hold any number of words with an @.
_MOST_NAMED: Final = 3


class LostMentions:
    """Listen for `mentions:resolved`, and tell in one line what of a prompt was not found, and what was denied.

    A file that instructions or bundles ask for and that is denied is told once in a session.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        """Tell by `tell`, which makes the text plain and may have nothing to say it to."""
        self._tell = tell
        self._told: set[tuple[str, str]] = set()

    def connect(self, hooks: Any) -> None:
        """Listen to a session."""
        hooks.register("mentions:resolved", self._on_resolved, priority=950, name="app-lost-mentions")

    def _on_resolved(self, event: str, data: dict[str, Any]) -> None:
        lost = [one for one in data.get("failed") or () if one.get("in_prompt") or self._is_news(one)]
        if not lost:
            return
        told = "; ".join(f"{one.get('mention')}: {one.get('reason')}" for one in lost[:_MOST_NAMED])
        more = f"; and {len(lost) - _MOST_NAMED} more" if len(lost) > _MOST_NAMED else ""
        self._tell(f"note: not given to the model: {told}{more}")

    def _is_news(self, failure: dict[str, Any]) -> bool:
        """Tell whether a file was denied, and that has not been said yet."""
        key = (str(failure.get("mention")), str(failure.get("reason")))
        if "decided_by" not in failure or key in self._told:
            return False
        self._told.add(key)
        return True

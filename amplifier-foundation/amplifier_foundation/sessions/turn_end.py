"""Know how the last turn of a session ended: as its loop tells it, and whether the budget ended it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from amplifier_core.events import ORCHESTRATOR_COMPLETE

if TYPE_CHECKING:
    from amplifier_core import AmplifierSession
    from amplifier_foundation.usage import SessionBudget

#: Ends that no budget has to do with, whatever it refused on the way, to a hook for example.
_OTHER_ENDS: Final = ("success", "cancelled")
#: After everybody has changed what they change.
_LAST: Final = 900


class TurnEnd:
    """Listen for how turns end."""

    def __init__(self, budget: SessionBudget) -> None:
        self._budget = budget
        #: What the loop says of the last turn, empty when it has not said anything.
        self.told: Mapping[str, Any] = {}

    def connect(self, coordinator: Any) -> None:
        """Listen to a session."""
        coordinator.hooks.register(ORCHESTRATOR_COMPLETE, self._on_complete, priority=_LAST, name="app-turn-end")

    def begin(self) -> None:
        """Take that another turn begins."""
        self.told = {}

    @property
    def used_up(self) -> str | None:
        """Return the limit that ended the turn, in words; None when it was not the budget that did.

        What others have used up is no reason for one who has come to an end without being refused anything.
        """
        return None if self.told.get("status") in _OTHER_ENDS else self._budget.refused

    def judge(self, session: AmplifierSession) -> None:
        """Have a session that the budget has ended say so: for the kernel, a loop that returns has done its work."""
        if (reason := self.used_up) is not None:
            session.status.status = "failed"
            session.status.last_error = {"message": reason}

    def _on_complete(self, event: str, data: dict[str, Any]) -> None:
        self.told = data

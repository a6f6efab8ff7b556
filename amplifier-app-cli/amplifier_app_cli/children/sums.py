"""Add up what each child used, with all below it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplifier_kit.engine.usage import UsageRecord

if TYPE_CHECKING:
    from amplifier_foundation.sessions.origin import ChildFacts


class ChildSums:
    """Sums of the children that have not ended."""

    def __init__(self) -> None:
        self._sums: dict[str, UsageRecord] = {}
        self._parents: dict[str, str] = {}

    def begin(self, facts: ChildFacts) -> None:
        """Note whose child it is, before it or a child of it uses anything."""
        self._parents[facts.session_id] = facts.parent_id

    def add(self, session_id: str, used: UsageRecord) -> None:
        """Add what a session used to its sum and to those above it; listens to a `UsageAccount`."""
        counted: set[str] = set()
        at: str | None = session_id
        while at in self._parents and at not in counted:
            counted.add(at)
            self._sums[at] = self._sums.get(at, UsageRecord()) + used
            at = self._parents.get(at)

    def end(self, facts: ChildFacts) -> UsageRecord:
        """Return the sum of a child that ended."""
        self._parents.pop(facts.session_id, None)
        return self._sums.pop(facts.session_id, UsageRecord())

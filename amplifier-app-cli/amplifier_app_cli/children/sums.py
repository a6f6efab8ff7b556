"""Add up what each child has used, with all below it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amplifier_app_cli.chat.usage import UsageCount

if TYPE_CHECKING:
    from amplifier_foundation.spawn import ChildFacts


class ChildSums:
    """Sums of tokens and prices, one for each child that is not over."""

    def __init__(self) -> None:
        self._sums: dict[str, UsageCount] = {}
        self._parents: dict[str, str] = {}

    def add(self, facts: ChildFacts, usage: Any, broken: Any = 0) -> None:
        """Add what one answer used, and attempts at it that broke off, to the child, and to those above it."""
        self._parents[facts.session_id] = facts.parent_id
        counted: set[str] = set()
        at: str | None = facts.session_id
        while at is not None and at not in counted and (at in self._parents or at == facts.session_id):
            counted.add(at)
            self._sums.setdefault(at, UsageCount()).add(usage, broken)
            at = self._parents.get(at)

    def begin(self, facts: ChildFacts) -> None:
        """Note whose child it is, before anything below it speaks."""
        self._parents[facts.session_id] = facts.parent_id

    def end(self, facts: ChildFacts) -> dict[str, Any]:
        """Return the sums of a child that is over: `usage`, and `cost_usd`, None when an answer had no price."""
        self._parents.pop(facts.session_id, None)
        return totals(self._sums.pop(facts.session_id, UsageCount()))


def totals(count: UsageCount) -> dict[str, Any]:
    """Return a sum for programs. What has no price is unknown, not free."""
    usage = {name: number for name, number in count.tokens.items() if number}
    is_known = count.cost is not None and not count.calls_without_price
    return {"usage": usage, "cost_usd": str(count.cost) if is_known else None}

"""Contribute what the children of a session cost on the channel `session.cost`."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amplifier_foundation.children.child import Child
    from amplifier_foundation.children.remote import RemoteChild


class ChildCosts:
    """Tell what each child of one session costs, as a contributor of its own named `delegate:<id>`.

    A session may start children without end: of one that is over, its id and its cost are all that is kept.
    """

    def __init__(self, coordinator: Any) -> None:
        """Tell it to whoever asks the session that has this coordinator."""
        self._coordinator = coordinator
        #: The one at work, else what it had cost; None when its notes alone say that.
        self._known: dict[str, Child | RemoteChild | str | None] = {}
        #: Of those that went on, what they had cost before their last call.
        self._before: dict[str, str] = {}

    def is_counted(self, session_id: str) -> bool:
        """Tell whether this process tells what a child costs."""
        return self._known.get(session_id) is not None

    @property
    def at_work(self) -> list[Child | RemoteChild]:
        """Return the children that are at work; another thread may ask, too."""
        return [one for one in list(self._known.values()) if one is not None and not isinstance(one, str)]

    def begin(self, session_id: str, child: Child | RemoteChild) -> None:
        """Take that a child is at work, which goes on counting where it had stopped."""
        before = self._known.get(session_id)
        child.spent = child.before = before if isinstance(before, str) else None
        if session_id not in self._known:
            teller = _Teller(self, session_id)
            self._coordinator.register_contributor("session.cost", f"delegate:{session_id}", teller)
        self._known[session_id] = child

    def end(self, session_id: str, child: Child | RemoteChild) -> None:
        """Take that a child is over; of one that never came to counting, its notes say what it had cost."""
        self._known[session_id] = child.spent
        if child.before is not None:
            self._before[session_id] = child.before

    async def told(self, session_id: str) -> dict[str, str] | None:
        """Return what a child has cost, and of one that went on also what its last call has; None when nobody knows."""
        known = self._known[session_id]
        if known is None or isinstance(known, str):
            spent, before = known, self._before.get(session_id)
        else:
            spent, before = await known.cost(), known.before
        since = cost_since(before, spent) if before is not None else None
        told = {"cost_usd": spent, "call_cost_usd": since}
        return {name: amount for name, amount in told.items() if amount is not None} or None


class _Teller:
    """Tell what one child costs; small, for there is one for every child that ever was."""

    __slots__ = ("_costs", "_session_id")

    def __init__(self, costs: ChildCosts, session_id: str) -> None:
        self._costs, self._session_id = costs, session_id

    async def __call__(self) -> dict[str, str] | None:
        return await self._costs.told(self._session_id)


def cost_since(before: str | None, now: str | None) -> str | None:
    """Return what was added to a cost, None when it is not known; nothing is ever given back."""
    return now if now is None or before is None else str(max(Decimal(0), Decimal(now) - Decimal(before)))

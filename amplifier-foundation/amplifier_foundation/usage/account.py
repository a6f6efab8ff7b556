"""The account of a session: what it and its children used, for which agent, tool or hook, and price estimates."""

from __future__ import annotations

import logging
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from amplifier_core.events import LLM_RESPONSE
from amplifier_core.trace import current_scope
from amplifier_kit.engine.usage import UsageRecord, usage_fault
from amplifier_kit.named_tuple import NamedTuple

logger = logging.getLogger(__name__)

#: How many rows are kept apart. The oldest of other sessions are then merged by agent and source: a session may start
#: any number of children.
MOST_ROWS: Final = 200
#: How many calls of a model may be estimated by the prices of others: it may cost more, and limits would not hold.
BY_OTHERS: Final = 3
#: Before other hooks: one that stops the event must not hide what was spent.
_FIRST: Final = -1000
_LOOP: Final = "loop"


class Spender(NamedTuple):
    """Who used something; the session is None in rows that sum up several."""

    session: str | None
    #: None for the root session.
    agent: str | None
    #: `loop`, `tool:<name>` or `hook:<name>`.
    source: str


class Estimate(NamedTuple):
    """What is charged for calls without a price."""

    calls: int = 0
    usd: Decimal = Decimal(0)

    def __add__(self, other: object) -> Estimate:
        """Return the sum."""
        if not isinstance(other, Estimate):
            return NotImplemented
        return Estimate(self.calls + other.calls, self.usd + other.usd)


class Spent(NamedTuple):
    """What was used, and what is charged for calls that broke off and have no price."""

    used: UsageRecord = UsageRecord()
    estimate: Estimate = Estimate()

    def __add__(self, other: object) -> Spent:
        """Return the sum."""
        if not isinstance(other, Spent):
            return NotImplemented
        # Estimates are rare, and every answer is added at each level of the tree.
        estimate = self.estimate + other.estimate if other.estimate.calls else self.estimate
        return Spent(self.used + other.used, estimate)


class UsageAccount:
    """Add up what a session and its children use in this process. Not thread-safe: a tree runs on one event loop."""

    def __init__(self, parent: UsageAccount | None = None, agent: str | None = None) -> None:
        """Open the account of a session; what is added to it is added to its parent's too."""
        #: The session of the account, once it is connected.
        self.session_id: str | None = None
        self.agent = agent
        #: What the session itself used, without its children.
        self.own = UsageRecord()
        #: What the session and its descendants used, and what is charged for calls that broke off.
        self.total = UsageRecord()
        self.estimate = Estimate()
        #: Called after something was added here.
        self.on_change: Callable[[], None] = lambda: None
        #: Called with the session that used something, here or below, and with what it used.
        self.listeners: list[Callable[[str, UsageRecord], None]] = []
        #: What answers cost in the whole tree.
        self.prices: Prices = parent.prices if parent is not None else Prices()
        self._all: tuple[UsageAccount, ...] = (self, *parent._all) if parent is not None else (self,)
        self._rows: dict[Spender, Spent] = {}

    @property
    def usd(self) -> Decimal:
        """What is charged: known prices and estimates."""
        return self.total.known_cost + self.estimate.usd

    @property
    def unpriced(self) -> int:
        """How many answers have neither a price nor an estimate."""
        return self.total.unpriced - self.estimate.calls

    def connect(self, coordinator: Any) -> None:
        """Count every answer of a session."""
        self.session_id = str(coordinator.session_id)

        async def count(event: str, data: dict[str, Any]) -> None:
            if (fault := usage_fault(data.get("usage"))) is not None:
                logger.warning(
                    "invalid usage of %s: %s; the price counts as unknown", data.get("provider"), fault.args[0]
                )
            self.add(UsageRecord.of_response(data), source_of_call(coordinator))

        coordinator.hooks.register(LLM_RESPONSE, count, priority=_FIRST, name="app-usage")

    def add(self, used: UsageRecord, source: str = _LOOP) -> None:
        """Count what a call of the session used, here and in its parents."""
        self.own += used
        who = Spender(self.session_id, self.agent, source)
        spent = Spent(used, self.prices.take_record(used))
        for account in self._all:
            account.total += spent.used
            if spent.estimate.calls:
                account.estimate += spent.estimate
            account._add_row(who, spent)
        for account in self._all:
            account.on_change()
            for listen in account.listeners:
                if who.session is not None and spent.used.calls > 0:
                    listen(who.session, spent.used)

    def rows(self) -> list[dict[str, Any]]:
        """Return who used how much, children included, as events and programs have it: money as exact text."""
        return [
            {
                **who._asdict(),
                "calls": spent.used.calls,
                "tokens": spent.used.total_tokens,
                "usd": str(spent.used.known_cost + spent.estimate.usd),
                "unpriced": spent.used.unpriced - spent.estimate.calls,
                "estimated_usd": str(spent.estimate.usd),
            }
            for who, spent in self._rows.items()
        ]

    def _add_row(self, who: Spender, spent: Spent) -> None:
        known = self._rows.get(who)
        self._rows[who] = spent if known is None else known + spent
        while known is None and len(self._rows) > MOST_ROWS and self._merge_oldest():
            pass

    def _merge_oldest(self) -> bool:
        """Add the oldest row of another session to that of its agent; return False if none is left."""
        oldest = next((who for who in self._rows if who.session not in (None, self.session_id)), None)
        if oldest is None:
            return False
        merged = oldest._replace(session=None)
        self._rows[merged] = self._rows.get(merged, Spent()) + self._rows.pop(oldest)
        return True


class Prices:
    """The most expensive answer of each model in a tree of sessions, as the estimate for calls that broke off."""

    def __init__(self) -> None:
        self._highest: dict[str, Decimal] = {}
        #: How many calls of each model were estimated by the prices of others.
        self._by_others: dict[str, int] = {}

    def take_record(self, used: UsageRecord) -> Estimate:
        """Learn the price of a call; return the estimate for its attempts that broke off.

        There is no estimate before any answer had a price, nor for more than `BY_OTHERS` calls of a model that has not
        answered.
        """
        model = next(iter(used.models), "")
        if used.priced:  # before the attempts on the way to this answer are estimated
            self._highest[model] = max(used.known_cost, self._highest.get(model, Decimal(0)))
        price = self._estimate(model) if used.broken else None
        if price is None or not self._may_be_estimated(model, used.broken):
            return Estimate()
        return Estimate(used.broken, used.broken * price)

    def _estimate(self, model: str) -> Decimal | None:
        """Return the highest price of a call of a model; None when unknown.

        For a model that has not answered yet it is the highest price of any, unless all were free: the model may not
        be.
        """
        if (known := self._highest.get(model)) is not None:
            return known
        return max(self._highest.values(), default=None) or None

    def _may_be_estimated(self, model: str, broken: int) -> bool:
        if model in self._highest:
            return True
        self._by_others[model] = self._by_others.get(model, 0) + broken
        return self._by_others[model] <= BY_OTHERS


# Which part of a session calls the model


def source_of_call(coordinator: Any) -> str:
    """Return what awaits the answer whose event is being handled: `loop`, `tool:<name>` or `hook:<name>`.

    To be called by a handler of that event, whose own scope is the first one found.
    """
    scope, is_in_handler = current_scope(), True
    while scope is not None:
        if scope.owner is coordinator:
            if scope.name.startswith("provider:"):
                return _LOOP
            if scope.name.startswith(("tool:", "hook:")):
                if not is_in_handler:
                    return scope.name
                is_in_handler = False
        scope = scope.before
    return _LOOP

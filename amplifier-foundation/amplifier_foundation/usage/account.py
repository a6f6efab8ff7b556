"""The account of a session: what it and its children used, and which agent, tool or hook asked for it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final, NamedTuple

from amplifier_core.events import LLM_RESPONSE
from amplifier_foundation.usage.estimates import Estimate, Prices
from amplifier_kit.engine.usage import UsageRecord, usage_fault

logger = logging.getLogger(__name__)

#: How many rows are kept apart. The oldest of other sessions are then merged by agent and source: a session may start
#: any number of children.
MOST_ROWS: Final = 200
#: Before other hooks: one that stops the event must not hide what was spent.
_FIRST: Final = -1000


class Spender(NamedTuple):
    """Who used something; the session is None in rows that stand for several."""

    session: str | None
    #: None for the session that was started first.
    agent: str | None
    #: `loop`, `tool:<name>` or `hook:<name>`.
    source: str


class Spent(NamedTuple):
    """How much was used, and what is charged for calls that broke off and have no price."""

    used: UsageRecord = UsageRecord()
    estimate: Estimate = Estimate()

    def __add__(self, other: object) -> Spent:
        """Return both together."""
        if not isinstance(other, Spent):
            return NotImplemented
        # Estimates are rare, and every answer is added at each level of the tree.
        estimate = self.estimate + other.estimate if other.estimate.calls else self.estimate
        return Spent(self.used + other.used, estimate)

    def __sub__(self, before: Spent) -> Spent:
        """Return what was used since an earlier sum."""
        return Spent(self.used - before.used, self.estimate - before.estimate)


Rows = dict[Spender, Spent]


class UsageAccount:
    """Add up what a session and its children use in this process and in those that they start.

    Not for several threads: the sessions of a tree run on one event loop, or in processes that report what they used.
    """

    def __init__(self, parent: UsageAccount | None = None, agent: str | None = None) -> None:
        """Open the account of a session; what is added to it is added to its parent's too."""
        #: The session whose account it is, once it is known.
        self.session_id: str | None = None
        self.agent = agent
        #: What the session itself used, without its children.
        self.own = UsageRecord()
        #: What the session and all below it used, and what is charged for calls that broke off.
        self.total = UsageRecord()
        self.estimate = Estimate()
        #: Called after something was added here.
        self.on_change: Callable[[], None] = lambda: None
        #: Called with the session that used something, here or below, and with what it used.
        self.listeners: list[Callable[[str, UsageRecord], None]] = []
        #: What answers cost in the whole tree, as far as this process knows.
        self.prices: Prices = parent.prices if parent is not None else Prices()
        self._all: tuple[UsageAccount, ...] = (self, *parent._all) if parent is not None else (self,)
        self._rows: Rows = {}
        #: What the session, in another process, has reported so far.
        self._reported: Rows = {}

    @property
    def usd(self) -> Decimal:
        """Return what is charged: known prices and estimates."""
        return self.total.known_cost + self.estimate.usd

    @property
    def unpriced(self) -> int:
        """Return how many answers have neither a price nor an estimate."""
        return self.total.unpriced - self.estimate.calls

    def connect(self, coordinator: Any) -> None:
        """Count every answer of a session."""
        self.session_id = str(coordinator.session_id)

        async def count(event: str, data: dict[str, Any]) -> None:
            from amplifier_foundation.usage.source import source_of_call

            if (fault := usage_fault(data.get("usage"))) is not None:
                logger.warning("invalid usage of %s: %s; the price counts as unknown", data.get("provider"), fault)
            self.add(UsageRecord.of_response(data), source_of_call(coordinator))

        coordinator.hooks.register(LLM_RESPONSE, count, priority=_FIRST, name="app-usage")

    def add(self, used: UsageRecord, source: str = "loop") -> None:
        """Count what a call of the session used, here and above."""
        self.own += used
        spent = Spent(used, self.prices.take_record(used))
        self._add([(Spender(self.session_id, self.agent, source), spent)])

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

    # -- sessions in other processes --

    def report(self) -> list[dict[str, Any]]:
        """Return everything that was used so far as plain data, for `absorb()` in another process."""
        return [
            {**who._asdict(), "used": spent.used.plain(), "estimate": spent.estimate.plain()}
            for who, spent in self._rows.items()
        ]

    def read_report(self, report: list[Mapping[str, Any]]) -> Rows:
        """Return the rows of a report; raises KeyError, TypeError or ArithmeticError for anything else."""
        rows: Rows = {}
        for row in report:
            who = Spender(row["session"], row["agent"] or self.agent, str(row["source"]))
            rows[who] = Spent(UsageRecord.of_plain(row["used"]), Estimate.of_plain(row["estimate"]))
        return rows

    def absorb(self, rows: Rows) -> None:
        """Count what is new in a report of the session in another process; each report holds everything."""
        before, self._reported = self._reported, rows
        # Rows that were merged in the other process are missing here, and are part of another.
        names = dict.fromkeys((*rows, *before))
        nothing = Spent()
        changes = [(who, rows.get(who, nothing) - before.get(who, nothing)) for who in names]
        self._add([(who, change) for who, change in changes if change != nothing])

    # -- parts --

    def _add(self, changes: list[tuple[Spender, Spent]]) -> None:
        for account in self._all:
            for who, spent in changes:
                account.total += spent.used
                if spent.estimate.calls:
                    account.estimate += spent.estimate
                account._add_row(who, spent)
        for account in self._all:
            account.on_change()
            for listen in account.listeners:
                for who, spent in changes:
                    if who.session is not None and spent.used.calls > 0:  # else a row that was merged
                        listen(who.session, spent.used)

    def _add_row(self, who: Spender, spent: Spent) -> None:
        known = self._rows.get(who)
        self._rows[who] = spent if known is None else known + spent
        while known is None and len(self._rows) > MOST_ROWS and self._merge_oldest():
            pass

    def _merge_oldest(self) -> bool:
        """Add the oldest row of another session to that of its agent; return False when there is none."""
        oldest = next((who for who in self._rows if who.session not in (None, self.session_id)), None)
        if oldest is None:
            return False
        merged = oldest._replace(session=None)
        self._rows[merged] = self._rows.get(merged, Spent()) + self._rows.pop(oldest)
        return True

"""What one session and its child sessions may use."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from decimal import Decimal
from typing import Any, Final, Literal, overload

from amplifier_foundation.usage import UsageAccount
from amplifier_foundation.usage.home_line import Asked, HomeLine
from amplifier_foundation.usage.limits import BudgetExceededError, read_limits, too_deep, too_many
from amplifier_kit.engine.usage import UsageRecord

BUDGET_EXHAUSTED: Final = "budget:exhausted"
BUDGET_WARNING: Final = "budget:warning"
#: The capability under which everybody in the session finds its budget.
CAPABILITY: Final = "session.budget"
#: The share of a limit at which the session is warned.
_WARN_AT: Final = Decimal("0.8")

Counted = Literal["turns", "tool_calls"]


class SessionBudget(AbstractContextManager["SessionBudget"]):
    """Count what a session and its children use, and refuse the next call when a limit of it or a parent is reached.

    Not for several threads: all sessions of a tree run on one event loop, or in processes that report what they used.
    """

    def __init__(
        self,
        limits: Mapping[str, Any],
        *,
        parent: SessionBudget | None = None,
        agent: str | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """Take the limits of a plan; raises BudgetError for a name there is not and for what is no amount.

        With a `parent`, everything counts there too, and its limits hold here.
        """
        self._limits = read_limits(limits)
        self._clock: Callable[[], float] = clock or (parent._clock if parent is not None else time.monotonic)
        self._started = self._clock()
        self._ends_at = self._started + float(self._limits["seconds"]) if "seconds" in self._limits else None
        self.agent = agent
        #: What is used; the limits are checked against it.
        self.account: UsageAccount = UsageAccount(parent.account if parent is not None else None, agent)
        self.account.on_change = self._on_spent
        #: Levels below the first session of the tree.
        self.depth: int = parent.depth + 1 if parent is not None else 0
        self._above: tuple[SessionBudget, ...] = (parent, *parent._above) if parent is not None else ()
        self._all: tuple[SessionBudget, ...] = (self, *self._above)
        self._counts: dict[str, int] = {"turns": 0, "tool_calls": 0}
        self._most: dict[str, int] = {name: int(self._limits[name]) for name in self._counts if name in self._limits}
        #: What of `usd` and `tokens` is used up; looked at before every call, so it is known beforehand.
        self._reached = [name for name in ("usd", "tokens") if self._limits.get(name) == 0]
        self._children = 0
        self._has_place = False
        #: Places of children that the session, in another process, has started there.
        self._places: list[SessionBudget] = []
        #: Gives the place back that a child of a session in another process has where that comes from.
        self._give_back: Callable[[], None] | None = None
        #: Calls that the session, in another process, has reported so far.
        self._reported: dict[str, int] = dict.fromkeys(self._counts, 0)
        #: Why the session itself was not let do something, whoever had used up the limit; None while it never was.
        self.refused: str | None = None
        #: Tells whether the question that the session is about to ask was counted already.
        self._is_granted: Callable[[], bool] = lambda: False
        self._own_reason: str | None = None
        self._own_limit: str | None = None
        self._warned: set[str] = set()
        self._is_told = False
        #: The way to the process that started this one, where others draw on the same limits.
        self.home: HomeLine | None = None
        self._barred: str | None = None
        self._followers: list[Callable[[str], None]] = []
        self._follower: Callable[[str], None] | None = None

    def connect(self, coordinator: Any) -> None:
        """Check before every model and tool call of a session, and count what comes back."""
        from amplifier_foundation.usage.budget_hooks import BudgetWatch

        self.account.connect(coordinator)
        coordinator.register_capability(CAPABILITY, self)
        coordinator.register_contributor(
            "observability.events", "app-budget", lambda: [BUDGET_WARNING, BUDGET_EXHAUSTED]
        )
        watch = BudgetWatch(self, coordinator)
        self._is_granted = watch.is_granted
        watch.start()

    @property
    def session_id(self) -> str | None:
        """Return the session that this is the budget of, once it is connected."""
        return self.account.session_id

    # -- may it go on? --

    @property
    def is_limited(self) -> bool:
        """Tell whether there is any limit to keep to, here or above."""
        return any(budget._limits for budget in self._all)

    @property
    def exhausted(self) -> str | None:
        """Return which limit something was refused for, in words; None while the session may go on."""
        return next((budget._own_reason for budget in self._all if budget._own_reason is not None), None)

    def check(self) -> str | None:
        """Return why nothing more may be done, None when it may; once exhausted, a budget stays so.

        A question whose turn was granted may be asked although others were refused theirs since.
        """
        is_granted = self._is_granted()
        for budget in self._all:
            reason = budget._own_reason if not is_granted else None
            if (reason := reason or budget._used_up_now()) is not None:
                self.refused = reason
                return reason
        return None

    def reserve(self, name: Counted) -> str | None:
        """Count one question to the model, or one tool call, before it is made; return why it may not be, else None.

        What is refused is not counted.
        """
        reason = self._refusal(name)
        if reason is None:
            for budget in self._all:
                budget._counts[name] += 1
        return reason

    async def claim(self, name: Counted) -> str | None:
        """Reserve a call, in the process that started this one first, where others draw on the same limits."""
        first = self._all[-1]
        if first.home is not None and self._refusal(name) is None and (reason := await first.home.ask(name)):
            first.end(reason)
        return self.reserve(name)

    @overload
    def remaining(self, name: Literal["seconds"]) -> float | None: ...

    @overload
    def remaining(self, name: Literal["usd", "tokens", "turns", "tool_calls"]) -> Decimal | None: ...

    def remaining(self, name: str) -> Decimal | float | None:
        """Return how much is left of something, by the tightest limit here or above; None when nothing limits it."""
        if name == "seconds":
            ends = [budget._ends_at - budget._clock() for budget in self._all if budget._ends_at is not None]
            return max(0.0, min(ends)) if ends else None
        left = [budget._limits[name] - budget.used()[name] for budget in self._all if name in budget._limits]
        return max(Decimal(0), min(left)) if left else None

    # -- what is used --

    def add_usage(self, usage: Any, source: str = "loop") -> None:
        """Count the tokens and the price of one answer."""
        self.account.add(UsageRecord.of_usage(usage), source)

    def used(self) -> dict[str, Decimal]:
        """Return what was used so far, by the names of the limits; `estimated_usd` is a part of `usd`."""
        seconds = Decimal(str(round(self._clock() - self._started, 3)))
        counts = {name: Decimal(count) for name, count in self._counts.items()}
        return {**self._charged(), **counts, "seconds": seconds}

    def spent(self) -> list[dict[str, Any]]:
        """Return how much each agent, tool and hook used, children included."""
        return self.account.rows()

    # -- child sessions --

    def child(self, limits: Mapping[str, Any] | None = None, agent: str | None = None) -> SessionBudget:
        """Return the budget of a child session, without asking whether there may be one."""
        return SessionBudget(limits or {}, parent=self, agent=agent)

    def open_child(self, agent: str | None = None, limits: Mapping[str, Any] | None = None) -> SessionBudget:
        """Return the budget of a child session, which has its place among those that run until it is closed.

        Raises BudgetExceededError when nothing more may be done, when it would be too deep or one too many, and
        BudgetError for limits that are none. Being too deep or too many ends nobody's session.
        """
        reason = self.check()
        if reason is not None:
            limit = next(budget._own_limit for budget in self._all if budget._own_limit is not None)
            raise BudgetExceededError(reason, limit)
        for budget in self._all:
            budget._require_room(self.depth + 1)
        child = self.child(limits, agent)
        child._has_place = True
        for budget in self._all:
            budget._children += 1
        return child

    async def claim_child(self, agent: str | None = None, limits: Mapping[str, Any] | None = None) -> SessionBudget:
        """Open the budget of a child, with a place in the process that started this one too; raises as `open_child`."""
        child, first = self.open_child(agent, limits), self._all[-1]
        if first.home is None or "fan_out" not in first._limits:
            return child
        try:
            if reason := await first.home.take_place():
                raise BudgetExceededError(reason, "fan_out")
        except BaseException:
            child.close()
            raise
        child._give_back = first.home.left
        return child

    def close(self) -> None:
        """Give the place of a child session back, and those of its own; again, or without one, nothing happens."""
        while self._places:
            self._places.pop().close()
        if self._give_back is not None:
            self._give_back()
            self._give_back = None
        if self._has_place:
            self._has_place = False
            for budget in self._above:
                budget._children -= 1
        if self._follower is not None:
            for budget in self._all:
                budget._followers.remove(self._follower)
            self._follower = None

    def __exit__(self, *raised: object) -> None:
        self.close()

    # -- child sessions in processes of their own --

    def allowance(self) -> dict[str, str]:
        """Return the limits of a session that cannot ask here, as plain data: what is left of each."""
        left: dict[str, list[Decimal]] = {}
        for budget in self._all:
            used = {**budget.used(), "depth": Decimal(self.depth - budget.depth), "fan_out": Decimal(budget._children)}
            for name, limit in budget._limits.items():
                left.setdefault(name, []).append(limit - used[name])
        return {name: str(max(Decimal(0), min(amounts))) for name, amounts in left.items()}

    async def claim_for_process(self, name: Asked) -> str | None:
        """Count a call of the session in another process, or a child of it, before it is made or started.

        What the session reports later has its calls too; the place of a child is its until `place_left()`. Return why
        there may be none, None when there may.
        """
        if name == "fan_out":
            try:
                self._places.append(await self.claim_child())
            except BudgetExceededError as error:
                return str(error)
            return None
        reason = await self.claim(name)
        if reason is None:
            self._reported[name] += 1  # reports that come later have it too
        return reason

    def place_left(self) -> None:
        """Take back one of the places of the session in another process."""
        if self._places:
            self._places.pop().close()

    def follow(self, tell: Callable[[str], None]) -> None:
        """Call `tell` with the reason when what limits the session, in another process, is used up; until `close()`."""
        self._follower = tell
        for budget in self._all:
            budget._followers.append(tell)

    def bar(self, reason: str) -> None:
        """Take that a limit elsewhere is used up: whoever wants to do something more is refused it."""
        self._barred = reason

    def end(self, reason: str) -> None:
        """Take that a limit elsewhere has refused something; it is told there."""
        if self._own_reason is None:
            self._own_reason, self._own_limit, self._is_told = reason, "elsewhere", True

    def report(self) -> dict[str, Any]:
        """Return what was used so far as plain data, for `absorb()` in another process."""
        return {**self._counts, "spent": self.account.report(), "prices": self.account.prices.plain()}

    def absorb(self, report: Mapping[str, Any]) -> None:
        """Count what a session in another process reports; each report says it all, so that it may come often.

        Raises KeyError, TypeError, AttributeError or ArithmeticError for what is no report; nothing is counted then.
        """
        # A call that was reserved here may not be counted there yet.
        counts = {name: max(int(report[name]), known) for name, known in self._reported.items()}
        rows = self.account.read_report(report["spent"])
        self.account.prices.take(report["prices"])
        for name, count in counts.items():
            for budget in self._all:
                budget._counts[name] += count - self._reported[name]
        self._reported = counts
        self.account.absorb(rows)

    # -- what is told --

    def news(self) -> Iterable[tuple[str, dict[str, Any]]]:
        """Yield the events that are due, once each in the whole tree: that a limit is near, that one is reached."""
        for budget in self._all:
            if not budget._limits:
                continue
            if budget._own_reason is not None:
                if not budget._is_told:
                    budget._is_told = True
                    yield BUDGET_EXHAUSTED, {**budget._facts(str(budget._own_limit)), "spent": budget.spent()}
                continue
            for name in budget._near():
                budget._warned.add(name)
                yield BUDGET_WARNING, budget._facts(name)

    def _near(self) -> list[str]:
        used = self.used()
        return [
            name
            for name, limit in self._limits.items()
            if name in used and name not in self._warned and used[name] >= limit * _WARN_AT
        ]

    def _facts(self, name: str) -> dict[str, Any]:
        reason = {"reason": self._own_reason} if self._own_reason is not None else {}
        limit = {"limit": name, "amount": str(self._limits[name]), "limit_of": self.session_id}
        return {**reason, **limit, "used": {key: str(amount) for key, amount in self.used().items()}}

    # -- parts --

    def _charged(self) -> dict[str, Decimal]:
        account = self.account
        tokens = Decimal(account.total.total_tokens)
        return {"usd": account.usd, "estimated_usd": account.estimate.usd, "tokens": tokens}

    def _on_spent(self) -> None:
        """Check the limits of money and tokens, and tell those elsewhere that one is used up."""
        if self._limits:
            was_reached = bool(self._reached)
            self._reached = [name for name in ("usd", "tokens") if name in self._limits and self._is_reached(name)]
            if self._reached and not was_reached:
                for tell in tuple(self._followers):
                    tell(self._used_up(self._reached[0]))
        if self.home is not None:
            self.home.on_spent()

    def _is_reached(self, name: str) -> bool:
        account, limit = self.account, self._limits[name]
        if name == "tokens":
            return account.total.total_tokens >= limit
        return account.usd >= limit or account.unpriced > 0

    def _refusal(self, name: Counted) -> str | None:
        """Return why there may not be another call, None when there may."""
        reason = self.check()
        if reason is not None:
            return reason
        for budget in self._all:
            if name in budget._most and budget._counts[name] >= budget._most[name]:
                self.refused = budget._exhaust(name)
                return self.refused
        return None

    def _used_up_now(self) -> str | None:
        """Return why nothing more may be used of dollars, tokens and seconds, None when it may."""
        if self._barred is not None:
            self.end(self._barred)
            return self._barred
        if self._reached:
            return self._exhaust(self._reached[0])
        if self._ends_at is not None and self._clock() >= self._ends_at:
            return self._exhaust("seconds")
        return None

    def _exhaust(self, name: str) -> str:
        reason = self._used_up(name)
        if self._own_reason is None:
            self._own_limit, self._own_reason = name, reason
        return reason

    def _used_up(self, name: str) -> str:
        limit = self._limits[name]
        unpriced, guessed = self.account.unpriced, self.account.estimate.usd
        if name == "usd" and unpriced:
            return f"the budget of {limit} usd cannot be kept: the price of {unpriced} answers is not known"
        part = f", {guessed} of it estimated" if guessed and name == "usd" else ""
        return f"the budget of {limit} {name} is used up ({self.used()[name]} used{part})"

    def _require_room(self, depth: int) -> None:
        """Raise BudgetExceededError when a child at that depth would be too deep below here, or one too many."""
        deep, wide = self._limits.get("depth"), self._limits.get("fan_out")
        if deep is not None and depth - self.depth > deep:
            raise too_deep(deep, depth - self.depth)
        # In another process, how many are running is known where it was started from.
        if wide is not None and self.home is None and self._children + 1 > wide:
            raise too_many(wide, self._children)

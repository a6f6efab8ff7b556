"""What one session and its child sessions may use, and the hooks that check it before their model and tool calls."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from decimal import Decimal, InvalidOperation
from typing import Any, Final, Literal

from amplifier_core.events import (
    LLM_REQUEST,
    LLM_RESPONSE,
    PROVIDER_ERROR,
    PROVIDER_REQUEST,
    PROVIDER_RESPONSE,
    TOOL_PRE,
)
from amplifier_core.models import HookResult
from amplifier_core.trace import scope_of
from amplifier_foundation.errors import FoundationError, did_you_mean
from amplifier_foundation.usage.account import UsageAccount
from amplifier_kit.engine.usage import UsageRecord

BUDGET_EXHAUSTED: Final = "budget:exhausted"
BUDGET_WARNING: Final = "budget:warning"
#: The capability that holds the budget of a session.
CAPABILITY: Final = "session.budget"
#: The share of a limit at which the session is warned.
_WARN_AT: Final = Decimal("0.8")
#: Before other hooks: a call that the budget refuses needs no approval.
_FIRST: Final = -1000

Counted = Literal["turns", "tool_calls"]

#: Limits that answers and time use up: known only afterwards.
SPENT: Final = ("usd", "tokens", "seconds")
#: Limits that are counted before the call, so that they are never exceeded.
COUNTED: Final = ("turns", "tool_calls")
#: Limits of child sessions: levels below the session, and how many run at the same time.
OF_CHILDREN: Final = ("depth", "fan_out")
#: Names of limits in a plan.
LIMITS: Final = (*SPENT, *COUNTED, *OF_CHILDREN)


class BudgetError(FoundationError):
    """The budget in a plan is invalid."""

    code = "budget_invalid"


class BudgetExceededError(FoundationError):
    """A limit is reached, so that no call may be made or no child session started; `limit` is its name."""

    code = "budget_exhausted"

    def __init__(self, reason: str, limit: str) -> None:
        super().__init__(reason)
        self.limit = limit


def read_limits(limits: Mapping[str, Any]) -> dict[str, Decimal]:
    """Return the limits that are set; raises BudgetError for an unknown name or an invalid amount."""
    return {name: _amount(name, value) for name, value in limits.items() if value is not None}


def _amount(name: str, value: Any) -> Decimal:
    if name not in LIMITS:
        raise BudgetError(f"session.budget: there is no limit {name!r}: {did_you_mean(name, list(LIMITS))}")
    try:
        amount = Decimal(str(value))
        if isinstance(value, bool) or not amount.is_finite() or amount < 0:
            raise InvalidOperation
    except InvalidOperation as error:
        raise BudgetError(f"session.budget.{name} must be a number of zero or more, got {value!r}") from error
    return amount


class SessionBudget(AbstractContextManager["SessionBudget"]):
    """Count what a session and its children use, and refuse the next call when a limit of it or a parent is reached.

    Not thread-safe: all sessions of a tree run on one event loop.
    """

    def __init__(
        self,
        limits: Mapping[str, Any],
        *,
        parent: SessionBudget | None = None,
        agent: str | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """Take the limits of a plan; raises BudgetError for an unknown name or an invalid amount.

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
        #: Levels below the root session.
        self.depth: int = parent.depth + 1 if parent is not None else 0
        #: How many descendants of the session are running.
        self.running_children = 0
        self._above: tuple[SessionBudget, ...] = (parent, *parent._above) if parent is not None else ()
        self._all: tuple[SessionBudget, ...] = (self, *self._above)
        self._counts: dict[str, int] = {"turns": 0, "tool_calls": 0}
        self._most: dict[str, int] = {name: int(self._limits[name]) for name in self._counts if name in self._limits}
        #: Which of `usd` and `tokens` are used up; computed after each answer, since it is read before every call.
        self._reached = [name for name in ("usd", "tokens") if self._limits.get(name) == 0]
        self._is_open = False
        #: Why the last call of this session was refused, by whichever budget; None while none was.
        self.refused: str | None = None
        #: Returns whether the request that the session is about to send was counted already.
        self._is_granted: Callable[[], bool] = lambda: False
        self._own_reason: str | None = None
        self._own_limit: str | None = None
        self._warned: set[str] = set()
        self._is_announced = False

    def connect(self, coordinator: Any) -> None:
        """Check before every model and tool call of a session, and count its answers."""
        self.account.connect(coordinator)
        coordinator.register_capability(CAPABILITY, self)
        coordinator.register_contributor(
            "observability.events", "app-budget", lambda: [BUDGET_WARNING, BUDGET_EXHAUSTED]
        )
        hooks = _BudgetHooks(self, coordinator)
        self._is_granted = hooks.is_granted
        hooks.register()

    @property
    def session_id(self) -> str | None:
        """The session of the budget, once it is connected."""
        return self.account.session_id

    # -- checks --

    @property
    def is_limited(self) -> bool:
        """Whether there is any limit, here or above."""
        return any(budget._limits for budget in self._all)

    @property
    def limits_depth(self) -> bool:
        """Whether the depth of the tree is limited, here or above."""
        return any("depth" in budget._limits for budget in self._all)

    @property
    def exhausted(self) -> str | None:
        """The limit that a call was refused for, in words; None while none was."""
        return next((budget._own_reason for budget in self._all if budget._own_reason is not None), None)

    def check(self) -> str | None:
        """Return why no further call may be made, None when it may; once exhausted, a budget stays so.

        A request whose turn was granted may be sent although others were refused theirs since.
        """
        is_granted = self._is_granted()
        for budget in self._all:
            reason = budget._own_reason if not is_granted else None
            if (reason := reason or budget._used_up_now()) is not None:
                self.refused = reason
                return reason
        return None

    def reserve(self, name: Counted) -> str | None:
        """Count one model or tool call before it is made; return why it is refused, else None.

        What is refused is not counted.
        """
        reason = self.check()
        if reason is not None:
            return reason
        for budget in self._all:
            if name in budget._most and budget._counts[name] >= budget._most[name]:
                self.refused = budget._exhaust(name)
                return self.refused
        for budget in self._all:
            budget._counts[name] += 1
        return None

    # -- what is used --

    def add_usage(self, usage: Any, source: str = "loop") -> None:
        """Count the tokens and the price of one answer."""
        self.account.add(UsageRecord.of_usage(usage), source)

    def used(self) -> dict[str, Decimal]:
        """Return what was used so far, by the names of the limits; `estimated_usd` is a part of `usd`."""
        return {
            "usd": self.account.usd,
            "estimated_usd": self.account.estimate.usd,
            "tokens": Decimal(self.account.total.total_tokens),
            **{name: Decimal(count) for name, count in self._counts.items()},
            "seconds": Decimal(str(round(self._clock() - self._started, 3))),
        }

    def spent(self) -> list[dict[str, Any]]:
        """Return how much each agent, tool and hook used, children included."""
        return self.account.rows()

    # -- child sessions --

    def child(self, limits: Mapping[str, Any] | None = None, agent: str | None = None) -> SessionBudget:
        """Return the budget of a child session, without checking whether it may be started."""
        return SessionBudget(limits or {}, parent=self, agent=agent)

    def open_child(self, agent: str | None = None, limits: Mapping[str, Any] | None = None) -> SessionBudget:
        """Return the budget of a child session, which counts as running until it is closed.

        Raises BudgetExceededError when a limit is reached, when the child would be too deep or one too many, and
        BudgetError for invalid limits. A child that is refused for its depth or number ends no session.
        """
        reason = self.check()
        if reason is not None:
            limit = next(budget._own_limit for budget in self._all if budget._own_limit is not None)
            raise BudgetExceededError(reason, limit)
        for budget in self._all:
            budget._check_child(self.depth + 1)
        child = self.child(limits, agent)
        child._is_open = True
        for budget in self._all:
            budget.running_children += 1
        return child

    def close(self) -> None:
        """End a child session that `open_child` has started; a second call does nothing."""
        if self._is_open:
            self._is_open = False
            for budget in self._above:
                budget.running_children -= 1

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _check_child(self, depth: int) -> None:
        """Raise BudgetExceededError when a child at that depth would be too deep below here, or one too many."""
        deep, wide = self._limits.get("depth"), self._limits.get("fan_out")
        if deep is not None and (level := depth - self.depth) > deep:
            raise BudgetExceededError(
                f"the budget allows child sessions {deep} levels deep, and this one would be at level {level}: do the "
                "work here, or raise session.budget.depth",
                "depth",
            )
        if wide is not None and self.running_children + 1 > wide:
            raise BudgetExceededError(
                f"the budget allows {wide} child sessions at the same time, and {self.running_children} are running: "
                "wait for one to end, or raise session.budget.fan_out",
                "fan_out",
            )

    # -- events --

    def due_events(self) -> Iterable[tuple[str, dict[str, Any]]]:
        """Yield the events that are due, once each in the whole tree: a limit is near, a limit is reached."""
        for budget in self._all:
            if not budget._limits:
                continue
            if budget._own_reason is not None:
                if not budget._is_announced:
                    budget._is_announced = True
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

    # -- limits that are used up --

    def _on_spent(self) -> None:
        if self._limits:
            self._reached = [name for name in ("usd", "tokens") if name in self._limits and self._is_reached(name)]

    def _is_reached(self, name: str) -> bool:
        account, limit = self.account, self._limits[name]
        if name == "tokens":
            return account.total.total_tokens >= limit
        return account.usd >= limit or account.unpriced > 0

    def _used_up_now(self) -> str | None:
        """Return why no more dollars, tokens or seconds may be used, None when they may."""
        if self._reached:
            return self._exhaust(self._reached[0])
        if self._ends_at is not None and self._clock() >= self._ends_at:
            return self._exhaust("seconds")
        return None

    def _exhaust(self, name: str) -> str:
        limit = self._limits[name]
        unpriced, estimated = self.account.unpriced, self.account.estimate.usd
        if name == "usd" and unpriced:
            answers = "1 answer" if unpriced == 1 else f"{unpriced} answers"
            reason = f"the budget of {limit} usd cannot be kept: the price of {answers} is unknown"
        else:
            part = f", {estimated} of it estimated" if estimated and name == "usd" else ""
            reason = f"the budget of {limit} {name} is used up ({self.used()[name]} used{part})"
        if self._own_reason is None:
            self._own_limit, self._own_reason = name, reason
        return reason


class _BudgetHooks:
    """Check the calls of a session against its budget."""

    def __init__(self, budget: SessionBudget, coordinator: Any) -> None:
        self._budget = budget
        self._coordinator = coordinator
        self._hooks = coordinator.hooks
        #: The pending requests of the loop, by their span.
        self._requests: dict[Any, _Request] = {}

    def register(self) -> None:
        """Register the hooks; without limits, calls are counted and nothing is checked."""
        self._listen(LLM_REQUEST, self._on_llm_request)
        self._listen(LLM_RESPONSE, self._on_llm_response)
        if self._budget.is_limited:
            self._listen(PROVIDER_RESPONSE, self._on_request_ended)
            self._listen(PROVIDER_ERROR, self._on_request_ended)
            # These fail closed: a call that cannot be counted is denied.
            self._listen(PROVIDER_REQUEST, self._before_request, on_error="deny")
            self._listen(TOOL_PRE, self._before_tool, on_error="deny")

    def is_granted(self) -> bool:
        """Return whether the current request has its turn: the provider sends it in the span of the loop's request."""
        scope = scope_of(self._coordinator)
        request = self._requests.get(scope.span_id) if scope is not None and scope.span_id is not None else None
        return request is not None and request.is_granted

    def _listen(self, event: str, handler: Any, **options: Any) -> None:
        self._hooks.register(event, handler, priority=_FIRST, name="app-budget", **options)

    async def _before_request(self, event: str, data: dict[str, Any]) -> HookResult:
        reason = self._budget.reserve("turns")
        if reason is None:
            self._requests[data.get("span_id")] = _Request()
        return await self._verdict(reason)

    async def _before_tool(self, event: str, data: dict[str, Any]) -> HookResult:
        # With an input that the user has edited, it is the same call again.
        reason = self._budget.check() if data.get("edits") else self._budget.reserve("tool_calls")
        return await self._verdict(reason)

    async def _on_llm_request(self, event: str, data: dict[str, Any]) -> None:
        """Count a request that the loop has not reserved: of a hook or a tool, or a further one for the same turn.

        One too many is refused by the provider, which checks the budget before every attempt.
        """
        request = self._requests.get(data.get("span_id"))
        if request is None:
            self._budget.reserve("turns")
        elif request.is_sent:
            request.is_granted = self._budget.reserve("turns") is None
        else:
            request.is_sent = True

    async def _on_llm_response(self, event: str, data: dict[str, Any]) -> None:
        """Emit the warnings that are due after the answer, which the account has counted."""
        request = self._requests.get(data.get("span_id"))
        if request is not None:
            request.is_answered = True
        await self._emit_due()

    def _on_request_ended(self, event: str, data: dict[str, Any]) -> None:
        """Count the answer of a provider that emits no events."""
        request = self._requests.pop(data.get("span_id"), None)
        if request is not None and not request.is_answered and event == PROVIDER_RESPONSE:
            self._budget.add_usage(data.get("usage"))

    async def _verdict(self, reason: str | None) -> HookResult:
        await self._emit_due()
        return HookResult(action="continue") if reason is None else HookResult(action="deny", reason=reason)

    async def _emit_due(self) -> None:
        for event, payload in self._budget.due_events():
            await self._hooks.emit(event, payload)


class _Request:
    """A pending request."""

    __slots__ = ("is_answered", "is_granted", "is_sent")

    def __init__(self) -> None:
        #: Whether its last call was counted: one too many is not.
        self.is_granted = True
        self.is_sent = False
        self.is_answered = False

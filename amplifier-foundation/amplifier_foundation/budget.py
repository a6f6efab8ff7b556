"""Stop a session before it uses more than it may: dollars, tokens, model calls, tool calls, seconds.

The plan's `session.budget` says how much; what is not named has no limit. Everything is checked before the next call,
so that a limit is passed by no more than the call in flight. An answer without a known price cannot be counted in
dollars: with a limit of dollars, the session stops at it rather than going on for nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from amplifier_core.events import LLM_RESPONSE, PROVIDER_REQUEST, TOOL_PRE
from amplifier_core.models import HookResult
from amplifier_foundation.errors import FoundationError, did_you_mean

BUDGET_EXHAUSTED: Final = "budget:exhausted"
BUDGET_WARNING: Final = "budget:warning"
#: Names of limits in a plan. Depth and fan-out are the business of whoever starts child sessions.
LIMITS: Final = ("usd", "tokens", "turns", "seconds", "tool_calls", "depth", "fan_out")
#: The share of a limit at which the session is warned.
_WARN_AT: Final = Decimal("0.8")
#: Before other hooks have their say: what may not be done need not be asked for.
_FIRST: Final = -1000
_TOKENS: Final = ("input_tokens", "output_tokens")


class BudgetError(FoundationError):
    """The budget in a plan is not one."""

    code = "budget_invalid"


class SessionBudget:
    """Count what one session uses, and refuse the next call when a limit is reached."""

    def __init__(self, limits: Mapping[str, Any], clock: Callable[[], float] = time.monotonic) -> None:
        """Take the limits of a plan; raises BudgetError for a name there is not and for what is no amount."""
        self._limits = {name: _amount(name, value) for name, value in limits.items() if value is not None}
        self._clock = clock
        self._started = clock()
        self._used: dict[str, Decimal] = dict.fromkeys(("usd", "tokens", "turns", "tool_calls"), Decimal(0))
        self._unpriced = 0
        self._warned: set[str] = set()
        #: The limit that was reached, in words; None while the session may go on.
        self.exhausted: str | None = None

    def connect(self, coordinator: Any) -> None:
        """Check before every model and tool call, and count what comes back; without limits there is nothing to do."""
        if not self._limits:
            return
        hooks = coordinator.hooks

        async def before(event: str, data: dict[str, Any]) -> HookResult:
            if event == TOOL_PRE and data.get("edits"):
                self._count("tool_calls", -1)  # the same call again, with an input that a person has changed
            reason = self.check()
            await self._tell(hooks)
            if reason is not None:
                return HookResult(action="deny", reason=reason)
            self._count("turns" if event == PROVIDER_REQUEST else "tool_calls", 1)
            return HookResult(action="continue")

        def after(event: str, data: dict[str, Any]) -> None:
            self.add_usage(data.get("usage"))

        for event in (PROVIDER_REQUEST, TOOL_PRE):
            hooks.register(event, before, priority=_FIRST, name="app-budget")
        hooks.register(LLM_RESPONSE, after, priority=_FIRST, name="app-budget-usage")
        coordinator.register_contributor(
            "observability.events", "app-budget", lambda: [BUDGET_WARNING, BUDGET_EXHAUSTED]
        )

    def add_usage(self, usage: Any) -> None:
        """Count the tokens and the price of one answer."""
        usage = usage if isinstance(usage, Mapping) else {}
        for key in _TOKENS:
            if isinstance(usage.get(key), int):
                self._count("tokens", usage[key])
        try:
            self._count("usd", Decimal(str(usage["cost_usd"])))
        except (KeyError, InvalidOperation):
            self._unpriced += 1

    def check(self) -> str | None:
        """Return why nothing more may be done, None when it may; once exhausted, a budget stays so."""
        if self.exhausted is None:
            self.exhausted = next((reason for name in self._limits if (reason := self._reason(name))), None)
        return self.exhausted

    def used(self) -> dict[str, Decimal]:
        """Return what was used so far, by the names of the limits."""
        return {**self._used, "seconds": Decimal(str(round(self._clock() - self._started, 3)))}

    def _reason(self, name: str) -> str | None:
        limit = self._limits[name]
        if name == "usd" and self._unpriced:
            return f"the budget of {limit} usd cannot be kept: the price of {self._unpriced} answers is not known"
        used = self.used().get(name, Decimal(0))
        return f"the budget of {limit} {name} is used up ({used} used)" if used >= limit else None

    def _count(self, name: str, amount: Decimal | int) -> None:
        self._used[name] += amount

    async def _tell(self, hooks: Any) -> None:
        """Say once for each limit that it is near, and once that one is reached."""
        if self.exhausted is not None and "" not in self._warned:
            self._warned.add("")
            await hooks.emit(BUDGET_EXHAUSTED, {"reason": self.exhausted, "used": self._shown()})
        for name, limit in self._limits.items():
            near = self.used().get(name, Decimal(0)) >= limit * _WARN_AT
            if near and name not in self._warned and self.exhausted is None:
                self._warned.add(name)
                await hooks.emit(BUDGET_WARNING, {"limit": name, "amount": str(limit), "used": self._shown()})

    def _shown(self) -> dict[str, str]:
        return {name: str(amount) for name, amount in self.used().items()}


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

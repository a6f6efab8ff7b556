"""The limits that a plan may set, and what is wrong with those that are none."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from amplifier_foundation.errors import FoundationError, did_you_mean

#: What is used up by an answer, or by time passing: known only afterwards.
SPENT: Final = ("usd", "tokens", "seconds")
#: What is counted before it is done, so that it is never done too often.
COUNTED: Final = ("turns", "tool_calls")
#: What child sessions have to keep to: levels below the session, and how many run at the same time.
OF_CHILDREN: Final = ("depth", "fan_out")
#: Names of limits in a plan.
LIMITS: Final = (*SPENT, *COUNTED, *OF_CHILDREN)


class BudgetError(FoundationError):
    """The budget in a plan is not one."""

    code = "budget_invalid"


class BudgetExceededError(FoundationError):
    """Nothing more may be done, or no further child session may be started; `limit` is the one that says so."""

    code = "budget_exhausted"

    def __init__(self, reason: str, limit: str) -> None:
        super().__init__(reason)
        self.limit = limit


def read_limits(limits: Mapping[str, Any]) -> dict[str, Decimal]:
    """Return the limits that are set; raises BudgetError for a name there is not and for what is no amount."""
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


def too_deep(limit: Decimal, level: int) -> BudgetExceededError:
    """Return the refusal of a child session at a level below the session whose limit it is."""
    return BudgetExceededError(
        f"the budget allows child sessions {limit} levels deep, and this one would be at level {level}: do the work "
        "here, or raise session.budget.depth",
        "depth",
    )


def too_many(limit: Decimal, running: int) -> BudgetExceededError:
    """Return the refusal of a child session beside those that are running."""
    return BudgetExceededError(
        f"the budget allows {limit} child sessions at the same time, and {running} are running: wait for one to end, "
        "or raise session.budget.fan_out",
        "fan_out",
    )

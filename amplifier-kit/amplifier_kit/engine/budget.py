"""Ask the session's budget before a model is asked."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from amplifier_core.llm_errors import AbortError
from amplifier_kit.awaitable import plain_result

__all__ = ["BudgetExhaustedError", "require_allowance"]

#: The capability of an app that limits what a session may use: `check()` says why nothing more may be done, or None.
BUDGET: Final = "session.budget"


class BudgetExhaustedError(AbortError):
    """Report that the session may not use any more; nothing was sent, and trying again does not help."""

    code: ClassVar[str] = "budget_exhausted"


def require_allowance(coordinator: Any, provider: str | None = None, model: str | None = None) -> None:
    """Raise BudgetExhaustedError when the session's budget has no room for another call; without one, all is allowed.

    To be called right before every attempt: others may have used the rest meanwhile.
    """
    budget = coordinator.get_capability(BUDGET) if coordinator is not None else None
    reason = plain_result(budget.check()) if budget is not None else None
    if reason is not None:
        raise BudgetExhaustedError(f"not asked: {reason}", provider=provider, model=model)

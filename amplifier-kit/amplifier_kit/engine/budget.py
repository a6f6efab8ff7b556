"""Check the session's budget before a model call."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from amplifier_core.llm_errors import AbortError
from amplifier_kit.awaitable import plain_result

#: The capability of an app that limits spending: `check()` returns why nothing more may be spent, or None.
BUDGET: Final = "session.budget"


class BudgetExhaustedError(AbortError):
    """The session's budget is exhausted; nothing was sent, and a retry does not help."""

    code: ClassVar[str] = "budget_exhausted"


def require_allowance(coordinator: Any, provider: str | None = None, model: str | None = None) -> None:
    """Raise BudgetExhaustedError when the session's budget is exhausted; a session without a budget has no limit.

    To be called right before every attempt: other calls may have spent the rest meanwhile.
    """
    budget = coordinator.get_capability(BUDGET) if coordinator is not None else None
    reason = plain_result(budget.check()) if budget is not None else None
    if reason is not None:
        raise BudgetExhaustedError(f"not asked: {reason}", provider=provider, model=model)

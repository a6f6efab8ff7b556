"""Stop a session before it uses more than it may: dollars, tokens, model calls, tool calls, seconds, child sessions.

The plan's `session.budget` sets the limits; what it does not name is unlimited. Everything is checked before the next
call against the session's `UsageAccount`, so that a limit is passed by no more than the calls in flight. What a child
session uses, its parents use too. An answer without a known price cannot be counted in dollars: with a limit of
dollars, the session stops at it. A call that broke off, by a deadline or a stop for example, has no price: it counts
as the dearest answer of its model so far, else of any model in the tree, and stays unknown only while no answer had a
price. A budget counts what one process does: a resumed session starts at zero.
"""

from amplifier_foundation.budget.home_line import HomeLine
from amplifier_foundation.budget.limits import LIMITS, BudgetError, BudgetExceededError
from amplifier_foundation.budget.session_budget import BUDGET_EXHAUSTED, BUDGET_WARNING, SessionBudget

__all__ = [
    "BUDGET_EXHAUSTED",
    "BUDGET_WARNING",
    "LIMITS",
    "BudgetError",
    "BudgetExceededError",
    "HomeLine",
    "SessionBudget",
]

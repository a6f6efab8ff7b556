"""Count what sessions use and stop them at their limits.

Every session has a `UsageAccount`: it reads one `UsageRecord` from each `llm:response` and adds it to the accounts of
its parents. Budgets, metadata, results of runs and the chat read these sums. What finished sessions used is read from
their logs with the same records (`history`).

The plan's `session.budget` sets the limits; a limit that is not set is unlimited. `SessionBudget` checks the account
before every call, so a limit is exceeded by no more than the calls in flight. What a child session uses counts for its
parents too. An answer without a known price stops a session that has a limit in dollars. A call that broke off (a
deadline, a cancellation) has no price: it counts as the most expensive answer of its model so far, else of any model in
the tree. A budget counts what one process does: a resumed session starts at zero.
"""

"""Count what sessions use, once for everything that limits, stores or shows it.

Every session has a `UsageAccount`: it hears `llm:response`, reads one `UsageRecord` from each, and adds it to the
accounts of the sessions above. Budgets, metadata, results of runs and the chat read these sums. What finished sessions
used is read from their logs with the same records (`history`).
"""

from amplifier_foundation.usage.account import Spender, UsageAccount

__all__ = ["Spender", "UsageAccount"]

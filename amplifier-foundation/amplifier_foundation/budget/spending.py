"""Who has used how much: which session, which agent, and there the loop, a tool or a hook."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, NamedTuple

from amplifier_kit.engine.usage import as_cost, as_count, usage_fault

logger = logging.getLogger(__name__)

#: How many rows are kept apart. Those of the sessions that came first are then put together by agent and source: a
#: session may start children without end.
MOST_ROWS: Final = 200


class Spender(NamedTuple):
    """Say who uses something; the session is None in rows that stand for several."""

    session: str | None
    #: None for the session that was started first.
    agent: str | None
    #: `loop`, `tool:<name>` or `hook:<name>`.
    source: str


#: Failures of a question that cost nothing: no answer was begun. Whatever else breaks one off may have cost something.
_FREE: Final = frozenset(
    {
        "AccessDeniedError",
        "AuthenticationError",
        "BudgetExhaustedError",
        "ConfigurationError",
        "ContextLengthError",
        "InvalidRequestError",
        "NetworkError",
        "NotFoundError",
        "ProviderUnavailableError",
        "QuotaExceededError",
        "RateLimitError",
    }
)


class Spent(NamedTuple):
    """Say how much was used by questions to models: `unpriced` of them may have cost what nobody knows."""

    calls: int = 0
    tokens: int = 0
    usd: Decimal = Decimal(0)
    unpriced: int = 0
    #: The part of `usd` that nobody has told: for questions that were broken off.
    estimated_usd: Decimal = Decimal(0)

    def __add__(self, other: object) -> Spent:
        """Return both together."""
        if not isinstance(other, Spent):
            return NotImplemented
        return Spent(
            self.calls + other.calls,
            self.tokens + other.tokens,
            self.usd + other.usd,
            self.unpriced + other.unpriced,
            self.estimated_usd + other.estimated_usd,
        )

    def __sub__(self, other: Spent) -> Spent:
        """Return what is more here than there."""
        return self + Spent(-other.calls, -other.tokens, -other.usd, -other.unpriced, -other.estimated_usd)

    def estimated(self, questions: int, price: Decimal) -> Spent:
        """Return the same, with a price for so many of those without one."""
        return self + Spent(usd=questions * price, unpriced=-questions, estimated_usd=questions * price)

    @classmethod
    def of_usage(cls, usage: Any) -> Spent:
        """Return what one answer took; without a price that is known, it is one of unknown price.

        So is one of which something is said that cannot be counted, which is a fault of its provider.
        """
        if (fault := usage_fault(usage)) is not None:
            logger.warning("usage that cannot be counted: %s; the answer counts as one of unknown price", fault)
            return cls(1, unpriced=1)
        usage = usage if isinstance(usage, Mapping) else {}
        # Tokens that are written to a cache are in the total alone; a service without a total has the other two.
        tokens = max(_count(usage, "total_tokens"), _count(usage, "input_tokens") + _count(usage, "output_tokens"))
        price = price_of(usage)
        return cls(1, tokens, price) if price is not None else cls(1, tokens, unpriced=1)

    @classmethod
    def of_response(cls, data: Mapping[str, Any]) -> Spent:
        """Return what a question took that an event `llm:response` tells of, with attempts that were broken off."""
        usage = data.get("usage")
        spent = cls.of_usage(usage) if data.get("status") != "error" or usage is not None else cls(calls=1)
        return spent + cls(unpriced=broken_off(data))


def price_of(usage: Any) -> Decimal | None:
    """Return what an answer has cost, None when that is not known."""
    return as_cost(usage.get("cost_usd")) if isinstance(usage, Mapping) and usage_fault(usage) is None else None


def broken_off(data: Mapping[str, Any]) -> int:
    """Return how many attempts an event `llm:response` tells of that brought no answer, and may have cost something."""
    broken = data.get("unpriced_attempts")
    if isinstance(broken, int):
        return max(0, broken)
    if data.get("status") != "error" or data.get("usage") is not None:
        return 0
    error = data.get("error")
    return 0 if isinstance(error, Mapping) and error.get("type") in _FREE else 1


def _count(usage: Mapping[str, Any], key: str) -> int:
    return as_count(usage.get(key)) or 0


class Spending:
    """Keep what was used, by who used it."""

    def __init__(self) -> None:
        self._rows: dict[Spender, Spent] = {}

    def add(self, who: Spender, spent: Spent, own: str | None = None) -> None:
        """Count something for somebody; rows of the session `own` are always kept apart."""
        known = self._rows.get(who)
        self._rows[who] = spent if known is None else known + spent
        while known is None and len(self._rows) > MOST_ROWS and self._put_together(own):
            pass

    def items(self) -> list[tuple[Spender, Spent]]:
        """Return what everybody has used, in the order in which they began."""
        return list(self._rows.items())

    def _put_together(self, own: str | None) -> bool:
        """Put the oldest row of another session to those of its agent; return False when there is none."""
        oldest = next((who for who in self._rows if who.session is not None and who.session != own), None)
        if oldest is None:
            return False
        together = oldest._replace(session=None)
        self._rows[together] = self._rows.get(together, Spent()) + self._rows.pop(oldest)
        return True


def shown(who: Spender, spent: Spent) -> dict[str, Any]:
    """Return a row as events and programs have it: plain data, money as exact text."""
    return {**who._asdict(), **spent._asdict(), "usd": str(spent.usd), "estimated_usd": str(spent.estimated_usd)}


def read_row(row: Mapping[str, Any]) -> tuple[Spender, Spent]:
    """Return what a row says; raises KeyError, TypeError or ArithmeticError for what is none."""
    who = Spender(row["session"], row["agent"], str(row["source"]))
    usd, estimated = Decimal(str(row["usd"])), Decimal(str(row["estimated_usd"]))
    return who, Spent(int(row["calls"]), int(row["tokens"]), usd, int(row["unpriced"]), estimated)

"""Count what answers use, for the line behind each of them and for the whole session."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from amplifier_kit.engine.usage import as_cost, as_count, usage_fault

_TOKENS: Final = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")


class UsageCount:
    """A sum of tokens and prices. Answers without a price are counted as such, not as free."""

    def __init__(self, known: Any = None) -> None:
        """Go on from `known`, as a session's metadata has it."""
        self.tokens: dict[str, int] = dict.fromkeys(_TOKENS, 0)
        self.cost: Decimal | None = None
        self.calls = 0
        self.calls_without_price = 0
        if isinstance(known, Mapping) and known:
            self._add_tokens(known)
            self.cost = as_cost(known.get("cost_usd"))
            self.calls_without_price = as_count(known.get("calls_without_price")) or 0

    def add(self, usage: Any, broken: Any = 0) -> None:
        """Add what one answer used, and attempts at it that broke off and have no price."""
        self.calls_without_price += as_count(broken) or 0
        if not isinstance(usage, Mapping):
            return
        self.calls += 1
        self._add_tokens(usage)
        amount = as_cost(usage.get("cost_usd")) if usage_fault(usage) is None else None
        if amount is None:
            self.calls_without_price += 1
        else:
            self.cost = (self.cost or Decimal(0)) + amount

    def include(self, other: UsageCount) -> None:
        """Add another sum to this one."""
        for key, number in other.tokens.items():
            self.tokens[key] += number
        if other.cost is not None:
            self.cost = (self.cost or Decimal(0)) + other.cost
        self.calls += other.calls
        self.calls_without_price += other.calls_without_price

    def line(self) -> str:
        """Return tokens and cost in one line."""
        parts = [f"{self.tokens['input_tokens']:,} in", f"{self.tokens['output_tokens']:,} out"]
        if self.tokens["cache_read_tokens"]:
            parts.append(f"{self.tokens['cache_read_tokens']:,} cached")
        return " · ".join([*parts, self.price()])

    def price(self) -> str:
        """Return the cost; what is not known is said."""
        if self.cost is None:
            return "price unknown"
        text = f"${self.cost:.4f}" if self.cost else "$0"
        return f"{text} and {self.calls_without_price} without price" if self.calls_without_price else text

    def _add_tokens(self, usage: Mapping[str, Any]) -> None:
        for key in _TOKENS:
            self.tokens[key] += as_count(usage.get(key)) or 0


class UsageMeter:
    """Follow the answers of one session; those of the sessions that it starts are added."""

    def __init__(self, known: Any = None) -> None:
        self.session = UsageCount(known)
        self.turn = UsageCount()

    def connect(self, hooks: Any) -> None:
        """Listen to a session."""
        hooks.register("llm:response", self._on_response, priority=950, name="app-usage-line")

    def start_turn(self) -> None:
        """Count a new turn."""
        self.turn = UsageCount()

    def add(self, usage: Any, broken: Any = 0) -> None:
        """Count what one answer used, and attempts at it that broke off."""
        self.turn.add(usage, broken)
        self.session.add(usage, broken)

    def _on_response(self, event: str, data: dict[str, Any]) -> None:
        self.add(data.get("usage"), data.get("unpriced_attempts"))

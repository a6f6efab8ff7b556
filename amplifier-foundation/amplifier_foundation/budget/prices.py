"""What answers have cost in a tree of sessions, to estimate what one has cost of which nobody tells."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from amplifier_foundation.budget.spending import Spent


class Prices:
    """The dearest answer of each model so far: what broke off has hardly cost more."""

    def __init__(self) -> None:
        self._dearest: dict[str, Decimal] = {}

    def note(self, model: str, usd: Decimal) -> None:
        """Take that an answer of a model had a price."""
        self._dearest[model] = max(usd, self._dearest.get(model, Decimal(0)))

    def estimate(self, model: str) -> Decimal | None:
        """Return what a question to a model has cost at most, None when no answer tells.

        For a model that has not answered yet it is the dearest answer of any, unless all were free: that says nothing
        of one that may not be.
        """
        if (known := self._dearest.get(model)) is not None:
            return known
        return max(self._dearest.values(), default=None) or None

    def estimated(self, spent: Spent, broken: int, model: str) -> Spent:
        """Return what was spent with an estimate for those questions to a model that were broken off, if there is one.

        Where nothing has had a price yet they stay without one.
        """
        price = self.estimate(model) if broken else None
        return spent if price is None else spent.estimated(broken, price)

    def plain(self) -> dict[str, str]:
        """Return what is known as plain data, for `take()` in another process."""
        return {model: str(usd) for model, usd in self._dearest.items()}

    def take(self, plain: Mapping[str, Any]) -> None:
        """Take what is known elsewhere; raises ArithmeticError or AttributeError for what is none, taking nothing."""
        for model, usd in [(str(model), Decimal(str(usd))) for model, usd in plain.items()]:
            self.note(model, usd)

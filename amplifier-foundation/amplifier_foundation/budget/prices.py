"""What answers have cost in a tree of sessions, to estimate what one has cost of which nobody tells."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from amplifier_foundation.budget.spending import Spent

#: So many questions to a model may be estimated by what others cost: it may be dearer, and then a limit would not hold.
BY_OTHERS: Final = 3


class Prices:
    """The dearest answer of each model so far: what broke off has hardly cost more."""

    def __init__(self) -> None:
        self._dearest: dict[str, Decimal] = {}
        #: How many questions to each model were estimated by what others cost.
        self._by_others: dict[str, int] = {}

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

        Where nothing has had a price yet they stay without one, and so do more than `BY_OTHERS` of a model that has
        not answered.
        """
        price = self.estimate(model) if broken else None
        if price is None or not self._may_be_estimated(model, broken):
            return spent
        return spent.estimated(broken, price)

    def _may_be_estimated(self, model: str, broken: int) -> bool:
        if model in self._dearest:
            return True
        self._by_others[model] = self._by_others.get(model, 0) + broken
        return self._by_others[model] <= BY_OTHERS

    def plain(self) -> dict[str, str]:
        """Return what is known as plain data, for `take()` in another process."""
        return {model: str(usd) for model, usd in self._dearest.items()}

    def take(self, plain: Mapping[str, Any]) -> None:
        """Take what is known elsewhere; raises ArithmeticError or AttributeError for what is none, taking nothing."""
        for model, usd in [(str(model), Decimal(str(usd))) for model, usd in plain.items()]:
            self.note(model, usd)

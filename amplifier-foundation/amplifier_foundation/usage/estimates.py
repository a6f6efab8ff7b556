"""What a call is charged that broke off: its price is not known, and it is not free."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, NamedTuple

from amplifier_kit.engine.usage import UsageRecord

#: How many calls of a model may be estimated by the prices of others: it may cost more, and limits would not hold.
BY_OTHERS: Final = 3


class Estimate(NamedTuple):
    """What is charged for calls without a price."""

    calls: int = 0
    usd: Decimal = Decimal(0)

    def __add__(self, other: object) -> Estimate:
        """Return both together."""
        if not isinstance(other, Estimate):
            return NotImplemented
        return Estimate(self.calls + other.calls, self.usd + other.usd)

    def __sub__(self, other: Estimate) -> Estimate:
        """Return what was charged since an earlier sum."""
        return Estimate(self.calls - other.calls, self.usd - other.usd)

    def plain(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {"calls": self.calls, "usd": str(self.usd)}

    @classmethod
    def of_plain(cls, plain: Mapping[str, Any]) -> Estimate:
        """Return what `plain()` wrote; raises KeyError, TypeError or ArithmeticError for anything else."""
        return cls(int(plain["calls"]), Decimal(str(plain["usd"])))


class Prices:
    """The dearest answer of each model in a tree of sessions: a call that broke off has hardly cost more."""

    def __init__(self) -> None:
        self._dearest: dict[str, Decimal] = {}
        #: How many calls of each model were estimated by the prices of others.
        self._by_others: dict[str, int] = {}

    def take_record(self, used: UsageRecord) -> Estimate:
        """Learn the price of a call; return the estimate for its attempts that broke off.

        Where no answer had a price there is no estimate, nor for more than `BY_OTHERS` calls of a model that has not
        answered.
        """
        model = next(iter(used.models), "")
        if used.priced:  # before the attempts on the way to this answer are estimated
            self._note(model, used.known_cost)
        price = self._estimate(model) if used.broken else None
        if price is None or not self._may_be_estimated(model, used.broken):
            return Estimate()
        return Estimate(used.broken, used.broken * price)

    def plain(self) -> dict[str, str]:
        """Return what is known as plain data, for `take()` in another process."""
        return {model: str(usd) for model, usd in self._dearest.items()}

    def take(self, plain: Mapping[str, Any]) -> None:
        """Learn prices from another process; raises ArithmeticError or AttributeError for anything else."""
        for model, usd in [(str(model), Decimal(str(usd))) for model, usd in plain.items()]:
            self._note(model, usd)

    def _note(self, model: str, usd: Decimal) -> None:
        self._dearest[model] = max(usd, self._dearest.get(model, Decimal(0)))

    def _estimate(self, model: str) -> Decimal | None:
        """Return what a call of a model has cost at most; None when it is not known.

        For a model that has not answered yet it is the dearest answer of any, unless all were free: the model may not
        be.
        """
        if (known := self._dearest.get(model)) is not None:
            return known
        return max(self._dearest.values(), default=None) or None

    def _may_be_estimated(self, model: str, broken: int) -> bool:
        if model in self._dearest:
            return True
        self._by_others[model] = self._by_others.get(model, 0) + broken
        return self._by_others[model] <= BY_OTHERS

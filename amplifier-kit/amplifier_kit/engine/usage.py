"""What a provider says that an answer took, checked: a count of tokens is a number, and so is a price.

Budgets and displays add up these values. One that is no number is an error of the provider that sent it, and nothing
that is counted as zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import ClassVar, Final

from amplifier_core.llm_errors import LLMError

__all__ = ["Counts", "InvalidUsageError", "UsageValueError", "as_cost", "as_count", "check_usage", "usage_fault"]

#: No answer takes that many tokens, or costs that much.
MAX_COUNT: Final = 10**12
MAX_COST: Final = Decimal(10**9)
_REQUIRED: Final = ("input_tokens", "output_tokens", "total_tokens")
_OPTIONAL: Final = ("reasoning_tokens", "cache_read_tokens", "cache_write_tokens")
_COST: Final = "cost_usd"


class UsageValueError(ValueError):
    """A value in the usage of an answer that is no count and no price."""

    def __init__(self, field: str, value: object) -> None:
        super().__init__(f"{field} is {_shown(value)}")
        self.field = field
        self.value = value


class InvalidUsageError(LLMError):
    """Report that a provider said something of what an answer took that cannot be counted."""

    code: ClassVar[str] = "provider.usage"

    def __init__(self, field: str, value: object, *, provider: str | None = None, model: str | None = None) -> None:
        message = f"{provider or 'the provider'}: invalid usage: {field} is {_shown(value)} ({self.code})"
        super().__init__(message, provider=provider, model=model, retryable=False)
        self.field = field
        self.value = value


def as_count(value: object) -> int | None:
    """Return a number of tokens, None for what is none: a text, a truth value, a fraction, less than nothing."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    is_count = 0 <= value <= MAX_COUNT and value == int(value)  # neither NaN nor infinite
    return int(value) if is_count else None


def as_cost(value: object) -> Decimal | None:
    """Return an amount of money, None for what is none."""
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal):
        return None
    try:
        amount = Decimal(str(value))
    except (InvalidOperation, ValueError):
        return None
    return amount if amount.is_finite() and 0 <= amount <= MAX_COST else None


def usage_fault(usage: object) -> UsageValueError | None:
    """Return what is wrong with the usage of an answer, None when it can be counted, or when nothing is said of it."""
    if usage is None:
        return None
    if not isinstance(usage, Mapping):
        return UsageValueError("usage", usage)
    for field in (*_REQUIRED, *_OPTIONAL):
        is_unknown = usage.get(field) is None and (field in _OPTIONAL or field not in usage)
        if not is_unknown and as_count(usage[field]) is None:
            return UsageValueError(field, usage[field])
    cost = usage.get(_COST)
    return UsageValueError(_COST, cost) if cost is not None and as_cost(cost) is None else None


def check_usage(usage: object, provider: str) -> None:
    """Refuse an answer whose usage cannot be counted.

    Raises:
        InvalidUsageError: It names the provider, the field and the value.
    """
    if (fault := usage_fault(usage)) is not None:
        raise InvalidUsageError(fault.field, fault.value, provider=provider)


class Counts:
    """Read the counts that a service sent. Every method raises UsageValueError for what is no count."""

    def __init__(self, given: object, field: str = "usage") -> None:
        if given is not None and not isinstance(given, Mapping):
            raise UsageValueError(field, given)
        self._given = given or {}
        self._field = field

    def get(self, name: str) -> int | None:
        """Return a count, None when it is missing or null."""
        value = self._given.get(name)
        return None if value is None else self._count(name, value)

    def need(self, name: str) -> int:
        """Return a count: 0 when it is missing or null, as services leave out what is zero."""
        return self.get(name) or 0

    def part(self, name: str) -> Counts:
        """Return the counts below a name, empty when it is missing or null."""
        return Counts(self._given.get(name), f"{self._field}.{name}")

    def _count(self, name: str, value: object) -> int:
        count = as_count(value)
        if count is None:
            raise UsageValueError(f"{self._field}.{name}", value)
        return count


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except Exception:  # a module's own class, or a number with more digits than Python prints
        text = type(value).__name__
    return text if len(text) <= 80 else f"{text[:80]}…"

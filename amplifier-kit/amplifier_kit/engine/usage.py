"""Usage of model calls: one checked record for each `llm:response`, their sums, and the budget that limits them.

Everything that limits, stores or shows spending adds up these records. A count that is not a number is an error of the
provider that sent it and is never counted as zero; neither is an unknown price.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Context, Decimal, InvalidOperation
from typing import Any, ClassVar, Final, Self

from amplifier_core.llm_errors import AbortError, LLMError
from amplifier_kit.awaitable import plain_result
from amplifier_kit.named_tuple import NamedTuple

#: No answer takes more tokens, or costs more.
MAX_COUNT: Final = 10**12
MAX_COST: Final = Decimal(10**9)
#: The smallest amount that four decimals show, and from where on two are enough.
_LEAST_SHOWN: Final = Decimal("0.0001")
_WHOLE: Final = Decimal("0.995")
_REQUIRED: Final = ("input_tokens", "output_tokens", "total_tokens")
_OPTIONAL: Final = ("cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
_COUNTS: Final = (*_REQUIRED, *_OPTIONAL)
_COST: Final = "cost_usd"
#: The counts that session metadata and results of runs hold.
_STORED: Final = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
_UNPRICED: Final = "calls_without_price"
#: Money is added exactly, so that the order of answers does not change a sum.
_EXACT: Final = Context(prec=100)
#: Failures of a call before an answer began: they cost nothing. Any other failure may have cost something.
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


class InvalidUsageError(LLMError):
    """A provider sent a usage that cannot be counted: the value of `field` is neither a count nor a price."""

    code: ClassVar[str] = "provider.usage"

    def __init__(self, field: str, value: object, *, provider: str | None = None) -> None:
        super().__init__(f"{field} is {_shown(value)}", provider=provider, retryable=False)
        self.field = field
        self.value = value

    def __str__(self) -> str:
        return f"{self.provider or 'the provider'}: invalid usage: {self.args[0]} ({self.code})"


def as_count(value: object) -> int | None:
    """Return a number of tokens; None for anything else: a text, a boolean, a fraction, a negative number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    is_count = 0 <= value <= MAX_COUNT and value == int(value)  # neither NaN nor infinite
    return int(value) if is_count else None


def as_cost(value: object) -> Decimal | None:
    """Return an amount of money; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal):
        return None
    try:
        amount = Decimal(str(value))
    except (InvalidOperation, ValueError):
        return None
    return amount if amount.is_finite() and 0 <= amount <= MAX_COST else None


def money(amount: Decimal) -> str:
    """Return an amount of US dollars for people: four decimals below a dollar, two from there on, zero as $0.00."""
    if 0 < amount < _LEAST_SHOWN:
        return f"<${_LEAST_SHOWN}"
    return f"${amount:.4f}" if 0 < amount < _WHOLE else f"${amount:,.2f}"


def usage_fault(usage: object, provider: str | None = None) -> InvalidUsageError | None:
    """Return the error for the first invalid value in the usage of an answer; None when it is valid or missing."""
    if usage is None:
        return None
    if not isinstance(usage, Mapping):
        return InvalidUsageError("usage", usage, provider=provider)
    for field in _COUNTS:
        value = usage.get(field)
        is_unknown = value is None and (field in _OPTIONAL or field not in usage)
        if not is_unknown and as_count(value) is None:
            return InvalidUsageError(field, value, provider=provider)
    cost = usage.get(_COST)
    if cost is None or as_cost(cost) is not None:
        return None
    return InvalidUsageError(_COST, cost, provider=provider)


def _sum(mine: int | None, theirs: int | None) -> int | None:
    """Add two counts; None is one that no answer reported."""
    return mine if theirs is None else theirs if mine is None else mine + theirs


class UsageRecord(NamedTuple):
    """The usage of one model call, or of several: records are added with `+`, and `UsageRecord()` is empty.

    Counts have the meaning of the published `Usage`; one that no answer reported is None.
    """

    #: Calls, whether or not an answer came.
    calls: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    #: All tokens: as reported, and at least input and output together.
    total_tokens: int = 0
    #: The sum of the prices that are known.
    known_cost: Decimal = Decimal(0)
    #: How many answers have a known price.
    priced: int = 0
    #: How many answers and attempts have an unknown price.
    unpriced: int = 0
    #: How many of those are attempts that failed before they had an answer.
    broken: int = 0
    duration_ms: int = 0
    #: The models that were called, as `provider/model`.
    models: frozenset[str] = frozenset()

    @property
    def cost(self) -> Decimal | None:
        """Return the whole cost; None when a part of it is unknown, or there was no call."""
        return None if self.unpriced or not (self.calls or self.priced) else self.known_cost

    @property
    def answers(self) -> int:
        return self.priced + self.unpriced - self.broken

    def __add__(self, other: object) -> UsageRecord:
        if not isinstance(other, UsageRecord):
            return NotImplemented
        # Positional, in the order of the fields: every answer is added at each level of a tree of sessions.
        return UsageRecord(
            self.calls + other.calls,
            _sum(self.input_tokens, other.input_tokens),
            _sum(self.output_tokens, other.output_tokens),
            _sum(self.cache_read_tokens, other.cache_read_tokens),
            _sum(self.cache_write_tokens, other.cache_write_tokens),
            _sum(self.reasoning_tokens, other.reasoning_tokens),
            self.total_tokens + other.total_tokens,
            _EXACT.add(self.known_cost, other.known_cost),
            self.priced + other.priced,
            self.unpriced + other.unpriced,
            self.broken + other.broken,
            self.duration_ms + other.duration_ms,
            self.models if other.models <= self.models else self.models | other.models,
        )

    def __sub__(self, before: UsageRecord) -> UsageRecord:
        """Return the usage since an earlier sum of the same calls."""
        counts: dict[str, Any] = {name: -count for name, count in before._asdict().items() if isinstance(count, int)}
        return self + before._replace(**counts, known_cost=before.known_cost.copy_negate())

    # -- from what providers report --

    @classmethod
    def of_usage(cls, usage: object) -> Self:
        """Return the usage of one answer from a `Usage` or its dump.

        Invalid values are unknown, and so is the price then, as without usage. See `usage_fault`.
        """
        dump = None if isinstance(usage, Mapping) else getattr(usage, "model_dump", None)
        given = dump() if callable(dump) else usage
        if not isinstance(given, Mapping):
            return cls(calls=1, unpriced=1)
        asked, answered, whole, cache_read, cache_write, reasoning = (as_count(given.get(name)) for name in _COUNTS)
        # Tokens written to a cache are in the total alone; a service without a total has the other two.
        total = max(whole or 0, (asked or 0) + (answered or 0))
        cost = as_cost(given.get(_COST))
        if cost is None or usage_fault(given) is not None:
            return cls(1, asked, answered, cache_read, cache_write, reasoning, total, unpriced=1)
        return cls(1, asked, answered, cache_read, cache_write, reasoning, total, cost, priced=1)

    @classmethod
    def of_response(cls, data: Mapping[str, Any]) -> Self:
        """Return the usage of a call from the payload of its `llm:response`, with its failed attempts."""
        usage, duration, broken = data.get("usage"), data.get("duration_ms"), _failed_attempts(data)
        is_failure = data.get("status") == "error" and usage is None
        record = cls(calls=1) if is_failure else cls.of_usage(usage)
        model = {f"{data.get('provider')}/{data['model']}"} if data.get("model") else ()
        return record._replace(
            unpriced=record.unpriced + broken,
            broken=broken,
            duration_ms=round(duration) if isinstance(duration, int | float) and as_cost(duration) is not None else 0,
            models=frozenset(model),
        )

    # -- as plain data --

    def usage(self) -> dict[str, Any]:
        """Return the fields of the published `Usage` as an event has them; without `cost_usd` when it is unknown."""
        values = {name: getattr(self, name) for name in _COUNTS}
        values[_COST] = None if self.cost is None else str(self.cost)
        return {name: value for name, value in values.items() if value is not None}

    def tokens(self) -> dict[str, int]:
        """Return the counts that answers reported, by name."""
        return {name: count for name in _STORED if (count := getattr(self, name)) is not None}

    def facts(self) -> dict[str, Any]:
        """Return the fields of session metadata: counts, `cost_usd` as far as it is known, `calls_without_price`."""
        cost = {_COST: str(self.known_cost)} if self.priced else {}
        return {**self.tokens(), **cost, **({_UNPRICED: self.unpriced} if self.unpriced else {})}

    @classmethod
    def of_facts(cls, facts: object) -> Self:
        """Return the sum that session metadata hold; invalid values are left out."""
        known = facts if isinstance(facts, Mapping) else {}
        counts: dict[str, Any] = {name: as_count(known.get(name)) for name in _STORED}
        cost = as_cost(known.get(_COST))
        return cls(
            **counts,
            known_cost=Decimal(0) if cost is None else cost,
            priced=0 if cost is None else 1,
            unpriced=as_count(known.get(_UNPRICED)) or 0,
        )


class Counts:
    """Read the counts that a service sent. Every method raises InvalidUsageError for an invalid count."""

    def __init__(self, given: object, field: str = "usage") -> None:
        if given is not None and not isinstance(given, Mapping):
            raise InvalidUsageError(field, given)
        self._given = given or {}
        self._field = field

    def get(self, name: str) -> int | None:
        """Return a count, None when it is missing or null."""
        value = self._given.get(name)
        count = as_count(value)
        if count is None and value is not None:
            raise InvalidUsageError(f"{self._field}.{name}", value)
        return count

    def need(self, name: str) -> int:
        """Return a count: 0 when it is missing or null, since services omit zeros."""
        return self.get(name) or 0

    def part(self, name: str) -> Counts:
        """Return the counts below a name, empty when it is missing or null."""
        return Counts(self._given.get(name), f"{self._field}.{name}")


def _failed_attempts(data: Mapping[str, Any]) -> int:
    """Return how many attempts of a call had no answer and may have cost something."""
    if (counted := as_count(data.get("unpriced_attempts"))) is not None:
        return counted
    if data.get("status") != "error" or data.get("usage") is not None:
        return 0
    error = data.get("error")
    return 0 if isinstance(error, Mapping) and error.get("type") in _FREE else 1


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


# -- the budget --

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

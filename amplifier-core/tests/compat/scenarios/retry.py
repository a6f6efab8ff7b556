"""Retrying with growing pauses, and telling errors apart."""

from __future__ import annotations

import warnings
from typing import Any

from amplifier_core import RetryConfig, classify_error_message, retry_with_backoff
from amplifier_core.llm_errors import AuthenticationError, LLMError, RateLimitError

from .base import Stage, outcome, scenario

FIELDS = ("max_retries", "initial_delay", "max_delay", "backoff_factor", "jitter", "honor_retry_after")


def made(**options: Any) -> Any:
    """Make a configuration and tell its fields and the warnings it gave."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        config = RetryConfig(**options)
        fields = {name: getattr(config, name) for name in FIELDS}
    return [fields, [f"{warning.category.__name__}: {warning.message}" for warning in caught]]


@scenario
async def configurations(stage: Stage) -> Any:
    """Defaults, new names, and the old ones with their warnings."""
    tries: list[dict[str, Any]] = [
        {}, {"max_retries": 1, "initial_delay": 0.5, "max_delay": 9.0, "backoff_factor": 3.0}, {"jitter": False},
        {"jitter": True}, {"jitter": 0.3}, {"jitter": 0.0}, {"jitter": "yes"}, {"min_delay": 2.0},
        {"min_delay": 2.0, "initial_delay": 3.0}, {"backoff_multiplier": 4.0}, {"honor_retry_after": False},
    ]  # fmt: skip
    return [await outcome(lambda options=options: made(**options)) for options in tries]


@scenario
async def reading_old_names(stage: Stage) -> Any:
    """The old names can be read, with a warning."""
    config = RetryConfig(initial_delay=2.0, backoff_factor=3.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        values = [config.min_delay, config.backoff_multiplier]
    return [values, [f"{warning.category.__name__}: {warning.message}" for warning in caught]]


@scenario
async def read_only(stage: Stage) -> Any:
    """A configuration cannot be changed."""
    return str(await outcome(lambda: setattr(RetryConfig(), "max_retries", 9))).split(":")[0]


def failing(*errors: Exception | None) -> Any:
    """Make an operation that raises these errors one after another, then succeeds."""
    rest = list(errors)

    async def operation() -> str:
        error = rest.pop(0) if rest else None
        if error:
            raise error
        return "done"

    return operation


@scenario
async def attempts(stage: Stage) -> Any:
    """Retryable errors are retried, others not; the last one is raised."""
    quick = RetryConfig(max_retries=2, initial_delay=0.001, jitter=False)
    busy = [RateLimitError(f"busy {n}") for n in range(4)]
    runs = (failing(busy[0]), failing(*busy), failing(AuthenticationError("key")), failing(ValueError("odd")))
    reported: list[Any] = []

    async def on_retry(attempt: int, delay: float, error: Exception) -> None:
        reported.append([attempt, delay, str(error)])

    results = []
    for operation in runs:
        results.append(await outcome(lambda op=operation: retry_with_backoff(op, quick, on_retry=on_retry)))
        reported.append("--")
    return [results, reported]


@scenario
async def hints_of_the_error(stage: Stage) -> Any:
    """The error's own pause and factor."""
    quick = RetryConfig(max_retries=1, initial_delay=0.001, jitter=False)
    reported: list[Any] = []

    async def on_retry(attempt: int, delay: float, error: Exception) -> None:
        reported.append(round(delay, 6))

    for error in (LLMError("a", retryable=True, retry_after=0.02), LLMError("b", retryable=True, delay_multiplier=5.0)):
        await retry_with_backoff(failing(error), quick, on_retry=on_retry)
    return reported


async def pauses(config: RetryConfig, *errors: LLMError) -> list[float]:
    """Return the pauses, in thousandths, that these errors cause."""
    reported: list[float] = []

    async def on_retry(attempt: int, delay: float, error: Exception) -> None:
        reported.append(round(delay * 1000, 6))

    await outcome(lambda: retry_with_backoff(failing(*errors), config, on_retry=on_retry))
    return reported


@scenario
async def delays(stage: Stage) -> Any:
    """The pause before each attempt, without chance."""
    base: dict[str, Any] = {"max_retries": 5, "initial_delay": 0.001, "max_delay": 0.005, "jitter": False}
    busy = [RateLimitError("busy") for _ in range(5)]
    hints: list[dict[str, Any]] = [{"retry_after": 0.007}, {"retry_after": 0.0001}, {"delay_multiplier": 30.0}]
    hints += [{"delay_multiplier": value} for value in (0.0, -1.0, float("nan"), float("inf"), 0.5)]
    hints += [{"retry_after": 0.004, "delay_multiplier": 2.0}]
    config = RetryConfig(**base)
    return [
        await pauses(config, *busy),
        [await pauses(config, LLMError("m", retryable=True, **hint)) for hint in hints],
        await pauses(RetryConfig(**base, honor_retry_after=False), LLMError("m", retryable=True, retry_after=0.007)),
    ]


@scenario
async def chance(stage: Stage) -> Any:
    """With jitter the pause lies between half and one and a half times the plain one."""
    config = RetryConfig(max_retries=1, initial_delay=0.0001)
    found = [(await pauses(config, RateLimitError("busy")))[0] for _ in range(200)]
    return [all(0.05 <= delay < 0.15 for delay in found), len(set(found)) > 50, min(found) < 0.07, max(found) > 0.13]


@scenario
async def no_retries(stage: Stage) -> Any:
    """Nought retries is one attempt."""
    return await outcome(lambda: retry_with_backoff(failing(RateLimitError("busy")), RetryConfig(max_retries=0)))


@scenario
async def classified(stage: Stage) -> Any:
    """Messages and status codes by class."""
    statuses = [400, 401, 403, 404, 408, 409, 413, 418, 422, 429, 500, 503, 529]
    messages = """maximum context length; Too many tokens; context length exceeded; Rate limit reached;
    too many requests; invalid API key; Unauthorized; authentication failed; model not found; content filter;
    blocked for safety; hello; """
    by_status = {str(code): classify_error_message("hello", status_code=code).__name__ for code in statuses}
    by_text = {text.strip(): classify_error_message(text.strip()).__name__ for text in messages.split(";")}
    both = [classify_error_message("rate limit", status_code=code).__name__ for code in (400, 401, 422, 500)]
    return [by_status, by_text, both, classify_error_message("not found in context length", provider="p").__name__]

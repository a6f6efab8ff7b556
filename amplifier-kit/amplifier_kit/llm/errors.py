"""Turn what SDKs raise into the kernel's family of model errors.

Decided by, in this order: the connection, the service's own word for the error, the status, and for a 400 the wording.
A family of services that agree on words is a `Wire`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from amplifier_core.llm_errors import (
    AccessDeniedError,
    AuthenticationError,
    ConfigurationError,
    ContentFilterError,
    ContextLengthError,
    InvalidRequestError,
    LLMError,
    LLMTimeoutError,
    NetworkError,
    NotFoundError,
    ProviderUnavailableError,
    QuotaExceededError,
    RateLimitError,
    StreamError,
)
from amplifier_kit.engine.usage import InvalidUsageError, UsageValueError
from amplifier_kit.llm.failure import Failure, Transport, read_failure, retry_after_of

__all__ = ["ANTHROPIC", "GEMINI", "OLLAMA", "OPENAI", "Endpoint", "Wire", "to_llm_error"]

ErrorType = type[LLMError]

_BY_TRANSPORT: Final[dict[Transport, ErrorType]] = {
    "unreachable": NetworkError,
    "timeout": LLMTimeoutError,
    "cut": StreamError,
    "garbled": StreamError,
}
_TRANSPORT_TEXT: Final[dict[Transport, str]] = {
    "unreachable": "the service could not be reached",
    "timeout": "the service did not answer in time",
    "cut": "the connection broke before the answer was complete",
    "garbled": "the service sent something that cannot be read",
}
_BY_STATUS: Final[dict[int, ErrorType]] = {
    400: InvalidRequestError,
    401: AuthenticationError,
    402: QuotaExceededError,
    403: AccessDeniedError,
    404: NotFoundError,
    408: LLMTimeoutError,
    409: ProviderUnavailableError,
    413: ContextLengthError,
    422: InvalidRequestError,
    425: ProviderUnavailableError,
    429: RateLimitError,
}
#: Words of a refused request that say more than its status, in small letters.
_BY_PHRASE: Final[tuple[tuple[tuple[str, ...], ErrorType], ...]] = (
    (
        (
            "prompt is too long",
            "context length",
            "context window",
            "maximum context",
            "context size",
            "too many tokens",
            "input length and `max_tokens` exceed",
            "input token count exceeds",
            "exceeds the maximum number of tokens",
            "request too large",
        ),
        ContextLengthError,
    ),
    (("credit balance", "insufficient_quota", "exceeded your current quota", "billing"), QuotaExceededError),
    (("api key not valid", "invalid api key", "incorrect api key", "invalid x-api-key"), AuthenticationError),
    (
        ("content filter", "content_filter", "content management policy", "safety system", "blocked by"),
        ContentFilterError,
    ),
)


@dataclass(frozen=True)
class Wire:
    """Say what a family of services means by its error words, and which statuses mean something of their own."""

    name: str
    kinds: Mapping[str, ErrorType]
    statuses: Mapping[int, ErrorType] = field(default_factory=dict)
    #: Words and statuses that say the service is up but has too much to do: wait longer than usual.
    overloaded: frozenset[str | int] = frozenset()


ANTHROPIC: Final = Wire(
    "anthropic",
    {
        "authentication_error": AuthenticationError,
        "permission_error": AccessDeniedError,
        "not_found_error": NotFoundError,
        "request_too_large": ContextLengthError,
        "rate_limit_error": RateLimitError,
        "billing_error": QuotaExceededError,
        "timeout_error": LLMTimeoutError,
        "overloaded_error": ProviderUnavailableError,
        "api_error": ProviderUnavailableError,
        "exceed_context_size_error": ContextLengthError,
    },
    {529: ProviderUnavailableError},
    frozenset({"overloaded_error", 529}),
)
OPENAI: Final = Wire(
    "openai",
    {
        "context_length_exceeded": ContextLengthError,
        "exceed_context_size_error": ContextLengthError,
        "string_above_max_length": ContextLengthError,
        "insufficient_quota": QuotaExceededError,
        "billing_hard_limit_reached": QuotaExceededError,
        "invalid_api_key": AuthenticationError,
        "authentication_error": AuthenticationError,
        "rate_limit_exceeded": RateLimitError,
        "content_filter": ContentFilterError,
        "content_policy_violation": ContentFilterError,
        "responsibleaipolicyviolation": ContentFilterError,
        "model_not_found": NotFoundError,
        "deploymentnotfound": NotFoundError,
        "server_error": ProviderUnavailableError,
        "internal_error": ProviderUnavailableError,
        "unavailable_error": ProviderUnavailableError,
        "server_is_overloaded": ProviderUnavailableError,
        "slow_down": ProviderUnavailableError,
    },
    overloaded=frozenset({"server_is_overloaded", "slow_down"}),
)
GEMINI: Final = Wire(
    "gemini",
    {
        "resource_exhausted": RateLimitError,
        "unauthenticated": AuthenticationError,
        "permission_denied": AccessDeniedError,
        "not_found": NotFoundError,
        "deadline_exceeded": LLMTimeoutError,
        "unavailable": ProviderUnavailableError,
        "internal": ProviderUnavailableError,
    },
    overloaded=frozenset({"unavailable"}),
)
OLLAMA: Final = Wire("ollama", {"exceed_context_size_error": ContextLengthError})


@dataclass(frozen=True)
class Endpoint:
    """Say who was asked, so that an error names it and tells what to do; `scrub` takes secrets out of its text."""

    provider: str
    wire: Wire
    base_url: str | None = None
    #: Where the key comes from, as in `ANTHROPIC_API_KEY`.
    key_name: str | None = None
    overloaded_multiplier: float = 1.0
    scrub: Callable[[str], str] = str
    #: The setting that holds the address.
    url_name: str = "base_url"
    #: Tells the name that a session has the provider under, which may be one of several of its kind.
    mounted_as: Callable[[], str] | None = None

    @property
    def called(self) -> str:
        """Return the name that commands know the provider by."""
        return self.mounted_as() if self.mounted_as is not None else self.provider


def to_llm_error(error: BaseException, endpoint: Endpoint, model: str | None) -> LLMError:
    """Return the model error that an exception amounts to; one that is one already is returned as it is.

    The text is one line: what the service said, and what to do about it. An exception that comes neither from a service
    nor from a connection is a fault of the program and is not worth trying again.
    """
    if isinstance(error, LLMError):
        error.provider, error.model = error.provider or endpoint.provider, error.model or model
        return error
    if isinstance(error, UsageValueError):
        return InvalidUsageError(error.field, error.value, provider=endpoint.provider, model=model)
    failure = read_failure(error)
    kind = _class_of(failure, endpoint.wire)
    facts: dict[str, Any] = {"provider": endpoint.provider, "model": model, "status_code": failure.status}
    if kind is LLMError:
        facts["retryable"] = failure.is_known
    if failure.status is not None or failure.headers:
        facts["retry_after"] = retry_after_of(failure.headers)
    if endpoint.wire.overloaded & {failure.status, *failure.kinds}:
        facts["delay_multiplier"] = endpoint.overloaded_multiplier
    return kind(endpoint.scrub(_text(failure, kind, endpoint, model, error)), **facts)


def _class_of(failure: Failure, wire: Wire) -> ErrorType:
    if failure.transport is not None:
        return _BY_TRANSPORT[failure.transport]
    if failure.is_page and failure.status in (403, 429, 503):
        return ProviderUnavailableError  # a gateway's page, not the service's verdict
    said = next((wire.kinds[kind] for kind in failure.kinds if kind in wire.kinds), None)
    if said is RateLimitError or said is None or (failure.status or 400) in (400, 422):
        worded = _by_wording(failure)
        if worded is not None:
            return worded
    if said is not None:
        return said
    status = failure.status
    if status is None:
        return LLMError
    return wire.statuses.get(status) or _BY_STATUS.get(status) or _by_class_of_status(status)


def _by_wording(failure: Failure) -> ErrorType | None:
    """Decide by the words of a 400, a 413 or a 429; others say what they mean by their status."""
    if failure.status not in (400, 422, 429, None):
        return None
    text = failure.message.lower()
    worded = next((kind for phrases, kind in _BY_PHRASE if any(phrase in text for phrase in phrases)), None)
    if failure.status == 429:
        return worded if worded is QuotaExceededError else None
    return worded


def _by_class_of_status(status: int) -> ErrorType:
    if status >= 500:
        return ProviderUnavailableError
    return InvalidRequestError if status >= 400 else ConfigurationError


def _text(failure: Failure, kind: ErrorType, endpoint: Endpoint, model: str | None, error: BaseException) -> str:
    said = failure.message
    if failure.transport is not None:
        said = f"{_TRANSPORT_TEXT[failure.transport]} ({type(error).__name__}: {said})"
    elif not failure.is_known:
        said = f"{type(error).__name__}: {said}"
    status = f"{failure.status} " if failure.status is not None else ""
    remedy = _remedy(kind, endpoint, model)
    return f"{endpoint.provider}: {status}{said.rstrip('.')}" + (f". {remedy}" if remedy else "")


def _remedy(kind: ErrorType, endpoint: Endpoint, model: str | None) -> str:
    test = f"`amplifier provider test {endpoint.called}`"
    where = f"{endpoint.url_name} at {endpoint.base_url}" if endpoint.base_url else endpoint.url_name
    key = endpoint.key_name or "api_key"
    if issubclass(kind, AccessDeniedError):
        return f"The key may not use this: check its permissions, then run {test}"
    if issubclass(kind, AuthenticationError):
        return f"Check the key in {key}, then run {test}"
    if issubclass(kind, NotFoundError):
        if model is None:
            return f"Check {where}, then run {test}"
        return (
            f"Check the model {model!r} and {where}; `amplifier provider models {endpoint.called}` lists what there is"
        )
    if issubclass(kind, NetworkError):
        return f"Check {where} and the network, then run {test}"
    if issubclass(kind, QuotaExceededError):
        return "Add credit or choose another provider"
    return ""

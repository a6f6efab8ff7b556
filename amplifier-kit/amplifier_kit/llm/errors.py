"""The errors of model services: what SDKs raise becomes an LLMError of the kernel.

Where a new kind of error goes:

- a service's word for an error, or a status that means something special there: its `Wire` below
- words in a message that say more than a status does: `_BY_PHRASE`
- a new exception of an SDK or an HTTP library for a broken connection: `_TRANSPORT`
- an error that only one provider knows: the provider raises it from `attempt`, as `WarmingUpError` in `llm/chat`
- what to do about an error: `_remedy`

`to_llm_error` decides by, in this order: the connection, the service's word, the message, the status.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

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

__all__ = [
    "ANTHROPIC",
    "GEMINI",
    "OLLAMA",
    "OPENAI",
    "Endpoint",
    "Failure",
    "Transport",
    "Wire",
    "read_failure",
    "retry_after_of",
    "to_llm_error",
]

# -- errors by word, status and message --


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
    "garbled": "the service sent an unreadable response",
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
#: Phrases in the message of a refused request that say more than its status, in lower case.
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
    """The error words of a family of services, and the statuses that mean something special there."""

    name: str
    kinds: Mapping[str, ErrorType]
    statuses: Mapping[int, ErrorType] = field(default_factory=dict)
    #: Words and statuses of a service that is up but overloaded: wait longer than usual.
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
    """The service that was called, for the texts of errors; `scrub` masks secrets in them."""

    provider: str
    wire: Wire
    base_url: str | None = None
    #: The variable that holds the key, as `ANTHROPIC_API_KEY`.
    key_name: str | None = None
    overloaded_multiplier: float = 1.0
    scrub: Callable[[str], str] = str
    #: The setting that holds the address.
    url_name: str = "base_url"
    #: Returns the name that the provider is mounted under, since a session may have several of its kind.
    mounted_as: Callable[[], str] | None = None

    @property
    def called(self) -> str:
        """Return the name of the provider in commands."""
        return self.mounted_as() if self.mounted_as is not None else self.provider


def to_llm_error(error: BaseException, endpoint: Endpoint, model: str | None) -> LLMError:
    """Return the LLMError for an exception; an LLMError is returned as it is.

    Its text is one line: the message of the service, and what to do about it. An exception that comes neither from a
    service nor from a connection is a bug of the program and not retryable.
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
        return ProviderUnavailableError  # the page of a gateway, not an answer of the service
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
    """Return the error for phrases in the message of a 400, 422 or 429; other statuses are precise enough."""
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


# -- reading what an SDK raised --


#: How a connection failed: never made, too slow, broken off, or with an unreadable response.
Transport = Literal["unreachable", "timeout", "cut", "garbled"]

_TRANSPORT: Final[dict[str, Transport]] = {
    "APITimeoutError": "timeout",
    "TimeoutException": "timeout",
    "TimeoutError": "timeout",
    "RemoteProtocolError": "cut",
    "ReadError": "cut",
    "IncompleteReadError": "cut",
    "ConnectionResetError": "cut",
    "JSONDecodeError": "garbled",
    "UnknownApiResponseError": "garbled",
    "APIResponseValidationError": "garbled",
    "ConnectError": "unreachable",
    "APIConnectionError": "unreachable",
    "NetworkError": "unreachable",
    "ConnectionError": "unreachable",
    "UnsupportedProtocol": "unreachable",
    "InvalidURL": "unreachable",
}
_LONGEST: Final = 600


class Failure(NamedTuple):
    """What is known about a failed call; missing facts are None or empty."""

    message: str
    status: int | None = None
    #: The service's words for the kind of error: `type`, `code` and `status` of its body, in lower case.
    kinds: tuple[str, ...] = ()
    headers: Mapping[str, str] = {}
    transport: Transport | None = None
    #: Whether the response was a web page, as gateways send in place of the service.
    is_page: bool = False
    #: Whether the exception is one of a service or a connection at all.
    is_known: bool = True


def read_failure(error: BaseException) -> Failure:
    """Return the facts in an exception of an SDK or of its HTTP library, without importing either.

    The official SDKs disagree about classes but agree about attributes: a status, a response with headers, a body.
    Errors of the connection are the HTTP library's exceptions, recognised by name.
    """
    body = _body_of(error)
    status = _status_of(error)
    response = getattr(error, "response", None)
    headers: Any = getattr(response, "headers", None) or {}
    known = {str(name).lower(): str(value) for name, value in headers.items()} if hasattr(headers, "items") else {}
    text = body if isinstance(body, str) else ""
    transport = None if status is not None or body is not None else _transport_of(error)
    return Failure(
        message=_one_line(_message_of(error, body)),
        status=status,
        kinds=_kinds_of(error, body),
        headers=known,
        transport=transport,
        is_page=_is_page(text or str(error)) or "text/html" in known.get("content-type", ""),
        is_known=status is not None or body is not None or transport is not None,
    )


def retry_after_of(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Return the seconds of `retry-after-ms`, or of `Retry-After` in seconds or as a date; None without either."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    given = headers.get("retry-after")
    seconds = _number(given)
    if seconds is not None or not given:
        return seconds
    from email.utils import parsedate_to_datetime
    from time import time

    try:
        moment = parsedate_to_datetime(given).timestamp()
    except (TypeError, ValueError):
        return None
    return max(0.0, moment - (time() if now is None else now))


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _status_of(error: BaseException) -> int | None:
    for name in ("status_code", "code"):
        value = getattr(error, name, None)
        if isinstance(value, int) and 300 <= value < 600:
            return value
    return None


def _body_of(error: BaseException) -> Any:
    for name in ("body", "details"):
        body = getattr(error, name, None)
        if isinstance(body, Mapping) and body:
            return body
        if isinstance(body, str) and body:
            return _parsed(body)
    if "ResponseError" in _names_of(error):  # of ollama, which keeps only the text of the service
        return _parsed(str(getattr(error, "error", "") or error))
    return None


def _parsed(text: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, Mapping) else text


def _inner(body: Mapping[str, Any]) -> Mapping[str, Any]:
    inner = body.get("error")
    return inner if isinstance(inner, Mapping) else body


def _message_of(error: BaseException, body: Any) -> str:
    if isinstance(body, Mapping):
        inner = _inner(body)
        for value in (inner.get("message"), body.get("error"), body.get("message"), body.get("detail")):
            if isinstance(value, str) and value:
                return "an HTML page instead of an answer" if _is_page(value) else value
        return json.dumps(body, default=str, ensure_ascii=False)
    if isinstance(body, str) and body:
        return "an HTML page instead of an answer" if _is_page(body) else body
    text = str(error)
    return "an HTML page instead of an answer" if _is_page(text) else text or type(error).__name__


def _kinds_of(error: BaseException, body: Any) -> tuple[str, ...]:
    found: list[Any] = [getattr(error, "type", None), getattr(error, "code", None), getattr(error, "status", None)]
    if isinstance(body, Mapping):
        inner = _inner(body)
        found += [inner.get("type"), inner.get("code"), inner.get("status")]
        details = inner.get("details")
        if isinstance(details, Mapping):
            found.append(details.get("error_code"))
        deeper = inner.get("innererror")
        if isinstance(deeper, Mapping):
            found.append(deeper.get("code"))
    return tuple(dict.fromkeys(kind.lower() for kind in found if isinstance(kind, str) and kind and kind != "error"))


def _transport_of(error: BaseException) -> Transport | None:
    """Look through an exception and its causes: a specific cause says more than that there is no connection."""
    found: list[Transport] = []
    link: BaseException | None = error
    while link is not None and len(found) < 8:
        transport = next((_TRANSPORT[name] for name in _names_of(link) if name in _TRANSPORT), None)
        if transport is not None:
            found.append(transport)
        link = link.__cause__
    return next((kind for kind in found if kind != "unreachable"), found[0] if found else None)


def _names_of(error: BaseException) -> list[str]:
    return [kind.__name__ for kind in type(error).__mro__]


def _is_page(text: str) -> bool:
    start = text[:200].lstrip().lower()
    return start.startswith(("<!doctype html", "<html"))


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."

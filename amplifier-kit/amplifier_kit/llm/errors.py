"""The errors of model services: what SDKs raise becomes an LLMError of the kernel.

Where a new kind of error goes:

- an error code of a service: its `Wire`
- a status that says enough by itself: `_BY_STATUS`
- a phrase in a message that says more than the status: `_BY_PHRASE`; of self-hosted servers: `_STARTING`, `_HOPELESS`
- an exception of an SDK or an HTTP library for a broken connection: `_CONNECTION_ERRORS`
- what the user should do about an error: `_remedy`
- an error that only one provider can recognise: raise it from that provider's `attempt`

`to_llm_error` decides by, in this order: the connection, the error code, the message, the status.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from types import SimpleNamespace
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
from amplifier_kit.named_tuple import NamedTuple

ErrorType = type[LLMError]


class WarmingUpError(ProviderUnavailableError):
    """A self-hosted server, or the gateway in front of it, is still starting: worth more retries than other errors."""


class ServiceError(Exception):
    """An error that a service reported by other means than an exception of its SDK, as inside a stream."""

    def __init__(self, body: Any, status: int | None = None, headers: Mapping[str, str] = {}) -> None:
        super().__init__(str(body))
        self.body = body
        self.status_code = status
        self.response = SimpleNamespace(headers=dict(headers))


# -- errors by code, status and message --


class Wire(NamedTuple):
    """The wire protocol of a family of services, and the error codes that they use in it."""

    #: Names the origin of signed reasoning, which no other protocol can read.
    name: str
    error_codes: Mapping[str, ErrorType]
    #: Error codes and statuses of a service that is up but overloaded: wait longer than usual.
    overloaded: frozenset[str | int] = frozenset()
    #: Whether users run such servers themselves: these may still be starting, and report invalid requests as 500.
    is_self_hosted: bool = False


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
    frozenset({"overloaded_error", 529}),
)
OPENAI: Final = Wire(
    "openai",
    {
        **dict.fromkeys(
            ("context_length_exceeded", "exceed_context_size_error", "string_above_max_length"), ContextLengthError
        ),
        **dict.fromkeys(("insufficient_quota", "billing_hard_limit_reached"), QuotaExceededError),
        **dict.fromkeys(("invalid_api_key", "authentication_error"), AuthenticationError),
        "rate_limit_exceeded": RateLimitError,
        **dict.fromkeys(("model_not_found", "deploymentnotfound"), NotFoundError),
        **dict.fromkeys(
            ("server_error", "internal_error", "unavailable_error", "server_is_overloaded", "slow_down"),
            ProviderUnavailableError,
        ),
        **dict.fromkeys(
            (
                *("content_filter", "content_policy_violation", "responsibleaipolicyviolation"),
                # Inside of responses, which have no status.
                *("bio_policy", "misalignment_policy_violation", "image_content_policy_violation"),
            ),
            ContentFilterError,
        ),
        **dict.fromkeys(  # inside of responses, too
            (
                *("invalid_prompt", "data_residency_mismatch", "invalid_image", "invalid_image_format"),
                *("invalid_base64_image", "invalid_image_url", "image_too_large", "image_too_small"),
                *("image_parse_error", "invalid_image_mode", "image_file_too_large", "unsupported_image_media_type"),
                *("empty_image_file", "failed_to_download_image", "image_file_not_found"),
            ),
            InvalidRequestError,
        ),
    },
    frozenset({"server_is_overloaded", "slow_down"}),
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
    frozenset({"unavailable"}),
)
OLLAMA: Final = Wire("ollama", {"exceed_context_size_error": ContextLengthError})

#: Other statuses below 500 are invalid requests, and from 500 on the service is unavailable.
_BY_STATUS: Final[dict[int, ErrorType]] = {
    401: AuthenticationError,
    402: QuotaExceededError,
    403: AccessDeniedError,
    404: NotFoundError,
    408: LLMTimeoutError,
    409: ProviderUnavailableError,
    413: ContextLengthError,
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
_STARTING_STATUSES: Final = frozenset({404, 425, 502, 503, 504})
_STARTING: Final = (
    "starting up",
    "warming up",
    "warm up",
    "warmup",
    "loading model",
    "model is loading",
    "currently loading",
    "still loading",
    "is starting",
    "not ready yet",
    "scaling up",
    "waking up",
)
#: Invalid requests that llama.cpp reports with status 500.
_HOPELESS: Final = ("input is not supported", "jinja exception", "unsupported param", "failed to parse messages")


def _error_type(failure: Failure, wire: Wire) -> ErrorType:
    status, message, page = failure.status, failure.message.lower(), failure.page.lower()
    if failure.connection is not None:
        return failure.connection.error
    if wire.is_self_hosted:
        if status in _STARTING_STATUSES and any(phrase in message or phrase in page for phrase in _STARTING):
            return WarmingUpError
        if status == 500 and any(phrase in message for phrase in _HOPELESS):
            return InvalidRequestError
    if failure.is_page and status in (403, 429, 503):
        return ProviderUnavailableError  # the page of a gateway, not an answer of the service
    by_code = next((wire.error_codes[code] for code in failure.codes if code in wire.error_codes), None)
    if status in (400, 422, None) or (status == 429 and by_code in (RateLimitError, None)):
        by_phrase = next((kind for phrases, kind in _BY_PHRASE if any(phrase in message for phrase in phrases)), None)
        # A rate limit may mention anything; only a quota that is used up is another error.
        if by_phrase is not None and (status != 429 or by_phrase is QuotaExceededError):
            return by_phrase
    if by_code is not None:
        return by_code
    if status is None:
        return LLMError
    if status >= 500:
        return ProviderUnavailableError
    return _BY_STATUS.get(status) or (InvalidRequestError if status >= 400 else ConfigurationError)


# -- the error and its text --


class Endpoint(NamedTuple):
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
    def name_in_commands(self) -> str:
        """The name by which commands such as `amplifier provider test` know the provider."""
        return self.mounted_as() if self.mounted_as is not None else self.provider


def to_llm_error(error: BaseException, endpoint: Endpoint, model: str | None) -> LLMError:
    """Return the LLMError for an exception; an LLMError is returned as it is.

    Its text is one line: the message of the service, and what to do about it. An exception that comes neither from a
    service nor from a connection is a bug of the program and not retryable.
    """
    if isinstance(error, LLMError):
        error.provider, error.model = error.provider or endpoint.provider, error.model or model
        return error
    failure = read_failure(error)
    kind = _error_type(failure, endpoint.wire)
    facts: dict[str, Any] = {"provider": endpoint.provider, "model": model, "status_code": failure.status}
    if kind is LLMError:
        facts["retryable"] = failure.is_known
    if failure.status is not None or failure.headers:
        facts["retry_after"] = read_retry_after(failure.headers)
    if endpoint.wire.overloaded & {failure.status, *failure.codes}:
        facts["delay_multiplier"] = endpoint.overloaded_multiplier
    said = failure.message
    if failure.connection is not None:
        said = f"{failure.connection.text} ({type(error).__name__}: {said})"
    elif kind is WarmingUpError:
        said = "the server is still starting" if failure.is_page else f"the server is still starting: {said}"
    elif not failure.is_known:
        said = f"{type(error).__name__}: {said}"
    status = f"{failure.status} " if failure.status is not None else ""
    remedy = _remedy(kind, endpoint, model)
    text = f"{endpoint.provider}: {status}{said.rstrip('.')}" + (f". {remedy}" if remedy else "")
    return kind(endpoint.scrub(text), **facts)


def _remedy(kind: ErrorType, endpoint: Endpoint, model: str | None) -> str:
    name = endpoint.name_in_commands
    test = f"`amplifier provider test {name}`"
    where = f"{endpoint.url_name} at {endpoint.base_url}" if endpoint.base_url else endpoint.url_name
    if issubclass(kind, AccessDeniedError):
        return f"The key may not use this: check its permissions, then run {test}"
    if issubclass(kind, AuthenticationError):
        return f"Check the key in {endpoint.key_name or 'api_key'}, then run {test}"
    if issubclass(kind, NotFoundError) and model is not None:
        return f"Check the model {model!r} and {where}; `amplifier provider models {name}` lists the models"
    if issubclass(kind, NotFoundError):
        return f"Check {where}, then run {test}"
    if issubclass(kind, NetworkError):
        return f"Check {where} and the network, then run {test}"
    if issubclass(kind, QuotaExceededError):
        return "Add credit or choose another provider"
    return ""


# -- reading what an SDK raised --


class ConnectionFailure(NamedTuple):
    error: ErrorType
    text: str


_UNREACHABLE: Final = ConnectionFailure(NetworkError, "the service could not be reached")
_TIMEOUT: Final = ConnectionFailure(LLMTimeoutError, "the service did not answer in time")
_BROKEN: Final = ConnectionFailure(StreamError, "the connection broke before the answer was complete")
_UNREADABLE: Final = ConnectionFailure(StreamError, "the service sent an unreadable response")
#: By the names of exception classes, so that no SDK has to be imported.
_CONNECTION_ERRORS: Final = {
    "APITimeoutError": _TIMEOUT,
    "TimeoutException": _TIMEOUT,
    "TimeoutError": _TIMEOUT,
    "RemoteProtocolError": _BROKEN,
    "ReadError": _BROKEN,
    "IncompleteReadError": _BROKEN,
    "ConnectionResetError": _BROKEN,
    "JSONDecodeError": _UNREADABLE,
    "UnknownApiResponseError": _UNREADABLE,
    "APIResponseValidationError": _UNREADABLE,
    "ConnectError": _UNREACHABLE,
    "APIConnectionError": _UNREACHABLE,
    "NetworkError": _UNREACHABLE,
    "ConnectionError": _UNREACHABLE,
    "UnsupportedProtocol": _UNREACHABLE,
    "InvalidURL": _UNREACHABLE,
}
_LONGEST_MESSAGE: Final = 600
_LONGEST_PAGE: Final = 2000


class Failure(NamedTuple):
    """The known facts about a failed call; missing ones are None or empty."""

    message: str
    status: int | None = None
    #: The error codes of the service: `type`, `code` and `status` of its body, in lower case.
    codes: tuple[str, ...] = ()
    headers: Mapping[str, str] = {}
    connection: ConnectionFailure | None = None
    #: Whether the response was a web page, as gateways send in place of the service; and its text.
    is_page: bool = False
    page: str = ""
    #: Whether the exception is one of a service or a connection at all.
    is_known: bool = True


def read_failure(error: BaseException) -> Failure:
    """Return the facts in an exception of an SDK or of its HTTP library, without importing either.

    The official SDKs disagree about classes but agree about attributes: a status, a response with headers, a body.
    """
    body = _body_of(error)
    inner = _inner(body) if isinstance(body, Mapping) else {}
    numbers = (getattr(error, "status_code", None), getattr(error, "code", None), inner.get("code"))
    status = next((number for number in numbers if isinstance(number, int) and 300 <= number < 600), None)
    response = getattr(error, "response", None)
    given: Any = getattr(response, "headers", None) or {}
    headers = {str(name).lower(): str(value) for name, value in given.items()} if hasattr(given, "items") else {}
    connection = None if status is not None or body is not None else _connection_failure(error)
    is_page = _is_page(body if isinstance(body, str) else str(error)) or "text/html" in headers.get("content-type", "")
    return Failure(
        message=_message_of(error, body),
        status=status,
        codes=_codes_of(error, inner),
        headers=headers,
        connection=connection,
        is_page=is_page,
        page=_page_text(response) if is_page else "",
        is_known=status is not None or body is not None or connection is not None,
    )


def read_retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Return the seconds of `retry-after-ms`, or of `Retry-After` in seconds or as a date; None without either."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * unit
        except ValueError:
            continue
        return seconds if math.isfinite(seconds) and seconds >= 0 else None
    try:
        moment = parsedate_to_datetime(headers.get("retry-after", "")).timestamp()
    except (TypeError, ValueError):
        return None
    return max(0.0, moment - (time.time() if now is None else now))


def _body_of(error: BaseException) -> Any:
    for name in ("body", "details", "error"):  # of openai and anthropic; google-genai; ollama
        body = getattr(error, name, None)
        if isinstance(body, Mapping) and body:
            return body
        if isinstance(body, str) and body:
            try:
                parsed = json.loads(body)
            except ValueError:
                return body
            return parsed if isinstance(parsed, Mapping) else body
    return None


def _inner(body: Mapping[str, Any]) -> Mapping[str, Any]:
    inner = body.get("error")
    return inner if isinstance(inner, Mapping) else body


def _message_of(error: BaseException, body: Any) -> str:
    texts = [body]
    if isinstance(body, Mapping):
        texts = [_inner(body).get("message"), body.get("error"), body.get("message"), body.get("detail")]
        texts.append(json.dumps(body, default=str, ensure_ascii=False))
    text = next((text for text in (*texts, str(error)) if isinstance(text, str) and text), type(error).__name__)
    if _is_page(text):
        return "an HTML page instead of an answer"
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_MESSAGE else f"{line[:_LONGEST_MESSAGE]}..."


def _codes_of(error: BaseException, inner: Mapping[str, Any]) -> tuple[str, ...]:
    found: list[Any] = [getattr(error, name, None) for name in ("type", "code", "status")]
    found += [inner.get(name) for name in ("type", "code", "status")]
    for name, key in (("details", "error_code"), ("innererror", "code")):
        deeper = inner.get(name)
        found.append(deeper.get(key) if isinstance(deeper, Mapping) else None)
    return tuple(dict.fromkeys(code.lower() for code in found if isinstance(code, str) and code and code != "error"))


def _connection_failure(error: BaseException) -> ConnectionFailure | None:
    """Look through an exception and its causes: a broken connection says more than a missing one."""
    found: list[ConnectionFailure] = []
    link: BaseException | None = error
    while link is not None and len(found) < 8:
        names = (kind.__name__ for kind in type(link).__mro__)
        found += [_CONNECTION_ERRORS[name] for name in names if name in _CONNECTION_ERRORS][:1]
        link = link.__cause__
    return next((failure for failure in found if failure != _UNREACHABLE), found[0] if found else None)


def _is_page(text: str) -> bool:
    return text[:200].lstrip().lower().startswith(("<!doctype html", "<html"))


def _page_text(response: Any) -> str:
    """Return the text of the response, which SDKs drop when it is a web page."""
    try:
        text = getattr(response, "text", "")
    except RuntimeError:  # an unread stream
        return ""
    return text[:_LONGEST_PAGE] if isinstance(text, str) else ""

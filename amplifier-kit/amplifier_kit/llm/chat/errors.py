"""Errors of servers whose status says something else than they mean."""

from __future__ import annotations

from typing import Final

from amplifier_core.llm_errors import InvalidRequestError, LLMError, ProviderUnavailableError
from amplifier_kit.llm.errors import Endpoint, read_failure, retry_after_of

__all__ = ["WarmingUpError", "clearer_error", "refuses_format"]

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
#: Invalid requests that llama.cpp reports as failures of the server.
_HOPELESS: Final = ("input is not supported", "jinja exception", "unsupported param", "failed to parse messages")
_FORMAT: Final = (
    "response_format",
    "json_schema",
    "json_object",
    "json schema",
    "grammar",
    "guided",
    "structured output",
)


class WarmingUpError(ProviderUnavailableError):
    """A server, or the gateway in front of it, is still starting: worth more retries than other errors."""


def clearer_error(error: Exception, endpoint: Endpoint) -> LLMError | None:
    """Return a more precise error for an exception of the SDK, None when its status is precise enough."""
    failure = read_failure(error)
    who = f"{endpoint.provider}: {failure.status}"
    words = f"{failure.message} {_page(error)}".lower()
    if failure.status in _STARTING_STATUSES and any(phrase in words for phrase in _STARTING):
        said = "" if failure.is_page else f": {failure.message}"
        return WarmingUpError(
            endpoint.scrub(f"{who} the server is still starting{said}"),
            status_code=failure.status,
            retry_after=retry_after_of(failure.headers),
        )
    if failure.status == 500 and any(phrase in words for phrase in _HOPELESS):
        return InvalidRequestError(endpoint.scrub(f"{who} {failure.message}"), status_code=failure.status)
    return None


def refuses_format(error: LLMError) -> bool:
    """Whether a server refused the response format of a request, not the request."""
    return any(phrase in str(error).lower() for phrase in _FORMAT)


def _page(error: Exception) -> str:
    """Return the text of the response, which the SDK drops when it is a web page."""
    try:
        text = getattr(getattr(error, "response", None), "text", "")
    except RuntimeError:  # an unread stream
        return ""
    return text[:2000] if isinstance(text, str) else ""

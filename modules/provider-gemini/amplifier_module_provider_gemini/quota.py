"""Tell a limit that passes from a quota that is used up: Gemini has one text for both, and its own word for when."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from amplifier_core.llm_errors import LLMError, RateLimitError
from amplifier_kit.llm import Endpoint, to_llm_error

__all__ = ["refused"]

_RETRY_INFO: Final = "google.rpc.RetryInfo"
_QUOTA_FAILURE: Final = "google.rpc.QuotaFailure"
_TOO_MANY: Final = 429


def refused(error: Exception, endpoint: Endpoint, model: str) -> LLMError:
    """Return the error that a refusal amounts to, with the wait that its details ask for.

    A limit per minute is worth waiting for; one per day is not, though the service names a wait for that as well.
    """
    failed = to_llm_error(error, endpoint, model)
    if not isinstance(failed, RateLimitError) or failed.status_code != _TOO_MANY:
        return failed
    details = list(_details(error))
    delay = next((found for found in map(_delay, details) if found is not None), None)
    if delay is None or any(map(_is_daily, details)):
        return failed
    message = endpoint.scrub(f"{endpoint.provider}: {_TOO_MANY} {getattr(error, 'message', None) or failed}")
    return RateLimitError(
        " ".join(message.split()),
        provider=endpoint.provider,
        model=model,
        status_code=_TOO_MANY,
        retry_after=failed.retry_after if failed.retry_after is not None else delay,
    )


def _details(error: Exception) -> Iterator[Mapping[str, Any]]:
    body = getattr(error, "details", None)
    inner = body.get("error") if isinstance(body, Mapping) else None
    found = inner.get("details") if isinstance(inner, Mapping) else None
    for detail in found if isinstance(found, list) else ():
        if isinstance(detail, Mapping):
            yield detail


def _delay(detail: Mapping[str, Any]) -> float | None:
    """Return the seconds of a text such as `34.07s`."""
    if not str(detail.get("@type", "")).endswith(_RETRY_INFO):
        return None
    try:
        return max(0.0, float(str(detail.get("retryDelay", "")).removesuffix("s")))
    except ValueError:
        return None


def _is_daily(detail: Mapping[str, Any]) -> bool:
    if not str(detail.get("@type", "")).endswith(_QUOTA_FAILURE):
        return False
    return any("PerDay" in str(one.get("quotaId", "")) for one in detail.get("violations") or ())

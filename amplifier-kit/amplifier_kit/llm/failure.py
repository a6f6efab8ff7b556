"""Read what went wrong from whatever an SDK raised, without importing any SDK.

The official SDKs disagree about classes but agree about attributes: a status, a response with headers, a body. Errors
of the connection come as the HTTP library's own exceptions, known here by name.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

__all__ = ["Failure", "Transport", "read_failure", "retry_after_of"]

#: How a connection failed: never made, too slow, broken on the way, or speaking nonsense.
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
    """Hold what is known about a failed call; what was not said is None or empty."""

    message: str
    status: int | None = None
    #: The service's own words for the kind of error: `type`, `code` and `status` of its body, in small letters.
    kinds: tuple[str, ...] = ()
    headers: Mapping[str, str] = {}
    transport: Transport | None = None
    #: Whether the answer was a web page instead of the service's own words: a gateway stands in between.
    is_page: bool = False
    #: Whether anything of a service or a connection was recognised at all.
    is_known: bool = True


def read_failure(error: BaseException) -> Failure:
    """Return what an exception of an SDK or of its HTTP library says."""
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
    """Return the seconds that a response asks to wait: `retry-after-ms`, or `Retry-After` in seconds or as a date."""
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
    if "ResponseError" in _names_of(error):  # ollama's, which keeps the service's text only
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
    """Look through an exception and its causes; what broke a connection says more than that one broke."""
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

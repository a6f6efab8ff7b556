"""What exceptions of SDKs say."""

from __future__ import annotations

import json
from typing import Any

import pytest

from amplifier_kit.llm.errors import ConnectionFailure, read_failure, read_retry_after


class _Response:
    def __init__(self, **headers: str) -> None:
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


class APIStatusError(Exception):
    """Look like the error of an SDK."""

    def __init__(self, message: str, status: int, body: Any, **headers: str) -> None:
        super().__init__(message)
        self.status_code = status
        self.body = body
        self.response = _Response(**headers)


def test_words_of_the_body() -> None:
    """The message and every word for the kind of error are found in the body, wherever a service puts them."""
    body = {"error": {"type": "A", "code": "B", "status": "C", "message": "no\n  way", "innererror": {"code": "D"}}}
    failure = read_failure(APIStatusError("outer", 400, body, Retry_After="3"))
    assert failure.message == "no way"
    assert failure.codes == ("a", "b", "c", "d")
    assert (failure.status, failure.connection, failure.is_known) == (400, None, True)
    assert failure.headers == {"retry-after": "3"}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"error": "plain"}, "plain"),
        ({"message": "top"}, "top"),
        ({"detail": "there"}, "there"),
        ({"x": 1}, '{"x": 1}'),
        ("just text", "just text"),
        ('{"error": {"message": "inner"}}', "inner"),
        ("<!DOCTYPE html><html>", "an HTML page instead of an answer"),
        (None, "outer"),
    ],
)
def test_messages(body: Any, message: str) -> None:
    """Whatever the body looks like, there is one line to show."""
    assert read_failure(APIStatusError("outer", 500, body)).message == message


def test_pages() -> None:
    """A page is recognised by its first words or by its type."""
    assert read_failure(APIStatusError(" <html>", 403, None)).is_page
    assert read_failure(APIStatusError("x", 403, None, content_type="text/html; charset=utf-8")).is_page
    assert not read_failure(APIStatusError("x", 403, {"error": "<html>"})).is_page


def test_status_inside_a_stream_is_none() -> None:
    """An error event of a stream that began with 200 has no status to go by."""
    failure = read_failure(APIStatusError("x", 200, {"error": {"type": "overloaded_error"}}))
    assert (failure.status, failure.codes) == (None, ("overloaded_error",))


class RemoteProtocolError(Exception):
    """Look like the HTTP library's error for a broken connection."""


class APIConnectionError(Exception):
    """Look like an SDK's error for any connection."""


def _text(failure: ConnectionFailure | None) -> str | None:
    return failure.text if failure is not None else None


def test_the_cause_says_more() -> None:
    """That a connection broke says more than that there was trouble with one."""
    error = APIConnectionError("Connection error.")
    error.__cause__ = RemoteProtocolError("peer closed")
    assert _text(read_failure(error).connection) == "the connection broke before the answer was complete"
    assert _text(read_failure(APIConnectionError("Connection error.")).connection) == "the service could not be reached"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (json.JSONDecodeError("bad", "{", 1), "the service sent an unreadable response"),
        (TimeoutError(), "the service did not answer in time"),
        (ConnectionRefusedError("no"), "the service could not be reached"),
        (ConnectionResetError("no"), "the connection broke before the answer was complete"),
        (TypeError("ours"), None),
    ],
)
def test_connections(error: Exception, text: str | None) -> None:
    """Exceptions of connections are known by name; a fault of the program is none."""
    failure = read_failure(error)
    assert _text(failure.connection) == text
    assert failure.is_known is (text is not None)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "2.5"}, 2.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "Thu, 01 Jan 1970 00:01:40 GMT"}, 90.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({}, None),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    """Waits are read in seconds, in milliseconds and as dates; nonsense is none."""
    assert read_retry_after(headers, now=10.0) == seconds

"""Streams of SDKs: their HTTP responses, their events as they were sent, and timeouts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any, Final, TypeVar

from amplifier_core.llm_errors import LLMTimeoutError

__all__ = [
    "CapturedResponses",
    "capture_responses",
    "plain_stream",
    "record_response",
    "time_limit",
    "with_idle_timeout",
]


class CapturedResponses:
    """The HTTP responses of one call."""

    def __init__(self) -> None:
        self.responses: list[Any] = []

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers of the last response; empty without a response."""
        return dict(self.responses[-1].headers) if self.responses else {}


_current: ContextVar[CapturedResponses | None] = ContextVar("exchange", default=None)


@asynccontextmanager
async def capture_responses() -> AsyncIterator[CapturedResponses]:
    """Capture the HTTP responses of calls inside the block, and close them at its end.

    Leaving the iteration of a stream early closes the outermost of an SDK's generators only; the connection would stay
    open until the others are collected. The client must have `record_response` among its hooks.
    """
    captured = CapturedResponses()
    token = _current.set(captured)
    try:
        yield captured
    finally:
        _current.reset(token)
        for response in captured.responses:
            await response.aclose()


async def record_response(response: Any) -> None:
    """Record a response: a hook for `event_hooks={"response": [record_response]}` of `httpx` and `httpx2`."""
    captured = _current.get()
    if captured is not None:
        captured.responses.append(response)


async def plain_stream(resource: Any, **arguments: Any) -> Any:
    """Return the SDK's stream of `resource.create()` with events as plain JSON; close it after use.

    For resources of the `openai` SDK: validating its types costs several times as much as the rest of reading a
    stream. Raises what the SDK raises.
    """
    from openai import AsyncStream

    raw = await resource.with_raw_response.create(**arguments, stream=True)
    return raw.parse(to=AsyncStream[object])


# -- timeouts --


T = TypeVar("T")

#: The share of the idle time after which the alarm is reset: not for every event, since there may be thousands.
_SLACK: Final = 0.1


async def with_idle_timeout(stream: AsyncIterable[T], seconds: float) -> AsyncIterator[T]:
    """Yield the events of a stream; raise LLMTimeoutError after `seconds` without an event.

    For SDKs whose HTTP client has no idle timeout. Fires up to a tenth early.
    """
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(seconds) as alarm:
            set_at = loop.time()
            async for event in stream:
                now = loop.time()
                if now - set_at > seconds * _SLACK:
                    alarm.reschedule(now + seconds)
                    set_at = now
                yield event
    except TimeoutError as error:
        raise LLMTimeoutError(f"the stream was silent for {seconds:g} s") from error


@asynccontextmanager
async def time_limit(seconds: float | None) -> AsyncIterator[None]:
    """Limit the time of a whole answer; raise LLMTimeoutError, which is not retried. None is no limit."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        if seconds is None:
            raise
        raise LLMTimeoutError(f"the answer took longer than the {seconds:g} s it was given", retryable=False) from error

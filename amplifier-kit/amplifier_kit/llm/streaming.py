"""Streams of SDKs: their HTTP responses, their events as they were sent, and timeouts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any, Final, TypeVar

from amplifier_core.llm_errors import LLMTimeoutError

__all__ = ["Exchange", "alive", "hear_response", "overhear", "plain_stream", "within"]


class Exchange:
    """Hold the responses of one call."""

    def __init__(self) -> None:
        self.responses: list[Any] = []

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers of the last response, none when there was no response."""
        return dict(self.responses[-1].headers) if self.responses else {}


_current: ContextVar[Exchange | None] = ContextVar("exchange", default=None)


@asynccontextmanager
async def overhear() -> AsyncIterator[Exchange]:
    """Hear the responses of what is called inside, and close them on every way out.

    Leaving the iteration of a stream early closes the outermost of an SDK's generators only; the connection would stay
    open until the others are collected. The client must have `hear_response` among its hooks.
    """
    heard = Exchange()
    token = _current.set(heard)
    try:
        yield heard
    finally:
        _current.reset(token)
        for response in heard.responses:
            await response.aclose()


async def hear_response(response: Any) -> None:
    """Take note of a response: a hook, as in `event_hooks={"response": [hear_response]}` of `httpx` and `httpx2`."""
    heard = _current.get()
    if heard is not None:
        heard.responses.append(response)


async def plain_stream(resource: Any, **arguments: Any) -> Any:
    """Return the SDK's stream of `resource.create()`, with events as the JSON that was sent; close it after use.

    For resources of the `openai` SDK, whose types cost several times as much as all the rest of reading a stream.
    Raises what the SDK raises.
    """
    from openai import AsyncStream

    raw = await resource.with_raw_response.create(**arguments, stream=True)
    return raw.parse(to=AsyncStream[object])


# -- timeouts --


T = TypeVar("T")

#: The share of the idle time after which the alarm is set anew: not for every event, which may come in thousands.
_SLACK: Final = 0.1


async def alive(stream: AsyncIterable[T], seconds: float) -> AsyncIterator[T]:
    """Yield the events of a stream; raise LLMTimeoutError when none comes for `seconds`.

    For SDKs whose HTTP client has no idle timeout of its own. Fires up to a tenth early.
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
async def within(seconds: float | None) -> AsyncIterator[None]:
    """Bound a whole answer when the request says so; raise LLMTimeoutError, which is not worth trying again."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        if seconds is None:
            raise
        raise LLMTimeoutError(f"the answer took longer than the {seconds:g} s it was given", retryable=False) from error

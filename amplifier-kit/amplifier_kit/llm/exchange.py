"""Get at what an SDK keeps to itself: the HTTP response of a call, and the events of a stream as they were sent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

__all__ = ["Exchange", "hear_response", "overhear", "plain_stream"]


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

"""Hear the HTTP response of a call whose SDK keeps it to itself: for its headers, and to be sure that it is closed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

__all__ = ["Exchange", "hear_response", "overhear"]


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

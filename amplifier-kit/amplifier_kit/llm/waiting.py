"""Bound waits: for the next event of a stream, and for a whole answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from amplifier_core.llm_errors import LLMTimeoutError

__all__ = ["alive", "within"]

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

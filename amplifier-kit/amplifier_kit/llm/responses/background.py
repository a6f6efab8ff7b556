"""Wait for a response that takes minutes: it is made at the service's, and asked for until it is there."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from amplifier_core.llm_errors import LLMError, LLMTimeoutError

__all__ = ["wait_for_response"]

logger = logging.getLogger(__name__)

_UNDER_WAY: Final = ("queued", "in_progress")


async def wait_for_response(
    client: Any,
    response: Any,
    *,
    interval: float,
    timeout: float,
    tell: Callable[[str, float], Awaitable[None]],
    read_error: Callable[[Exception], LLMError],
    tolerance: int,
) -> Any:
    """Return the response once it has ended, whichever way; `tell` hears of every change of its status.

    A failed question for it is asked again, up to `tolerance` times in a row, since what runs is not lost. Whatever
    ends the wait before the response does calls it off, and is not worth trying again: that would begin anew.
    """
    started = time.monotonic()
    status, failures = None, 0
    try:
        while True:
            elapsed = time.monotonic() - started
            if response.status != status:
                status = response.status
                await tell(str(status), elapsed)
            if status not in _UNDER_WAY:
                return response
            if elapsed + interval > timeout:
                raise LLMTimeoutError(
                    f"the response {response.id} was not there after {timeout:.0f} s; raise background_timeout",
                    retryable=False,
                )
            await asyncio.sleep(interval)
            try:
                response = await client.responses.retrieve(response.id)
                failures = 0
            except Exception as error:
                failures += 1
                failed = read_error(error)
                if not failed.retryable or failures > tolerance:
                    failed.retryable = False
                    raise failed from error
                logger.info("the response %s could not be asked for: %s", response.id, failed)
    except BaseException:
        await _call_off(client, response.id)
        raise


async def _call_off(client: Any, response_id: str) -> None:
    try:
        await asyncio.wait_for(client.responses.cancel(response_id), 10)
    except Exception as error:
        logger.warning("the response %s could not be called off and goes on at the service's: %r", response_id, error)

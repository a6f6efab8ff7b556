"""Wait for a response that runs in the background at the service for minutes, by polling."""

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
    on_status: Callable[[str, float], Awaitable[None]],
    read_error: Callable[[Exception], LLMError],
    tolerance: int,
) -> Any:
    """Return the response once it has ended; `on_status` is called with each new status and the elapsed seconds.

    A failed poll is repeated, up to `tolerance` times in a row, since the response still runs. Any exception cancels
    the response, and is not retryable: that would start from the beginning.
    """
    started = time.monotonic()
    status, failures = None, 0
    try:
        while True:
            elapsed = time.monotonic() - started
            if response.status != status:
                status = response.status
                await on_status(str(status), elapsed)
            if status not in _UNDER_WAY:
                return response
            if elapsed + interval > timeout:
                raise LLMTimeoutError(
                    f"the response {response.id} was not ready after {timeout:.0f} s; raise background_timeout",
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
                logger.info("polling the response %s failed: %s", response.id, failed)
    except BaseException:
        await _cancel(client, response.id)
        raise


async def _cancel(client: Any, response_id: str) -> None:
    try:
        await asyncio.wait_for(client.responses.cancel(response_id), 10)
    except Exception as error:
        logger.warning(
            "the response %s could not be cancelled and continues to run at the service: %r", response_id, error
        )

"""Handlers that raise CancelledError themselves: that is their failure alone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from amplifier_core.hooks import HookRegistry

Handler = Callable[[str, Any], Any]


@pytest.fixture(params=[None, 30.0], ids=["no deadline", "deadline"])
def hooks(request: pytest.FixtureRequest) -> HookRegistry:
    """Give a registry without and with a deadline: cancellation must work the same."""
    registry = HookRegistry()
    registry._timeout = request.param
    return registry


def own_task() -> asyncio.Task[Any]:
    """Return the task that runs this."""
    task = asyncio.current_task()
    assert task is not None
    return task


def sync_raises(event: str, data: Any) -> None:
    raise asyncio.CancelledError("own")


async def async_raises(event: str, data: Any) -> None:
    raise asyncio.CancelledError("own")


async def waits_and_raises(event: str, data: Any) -> None:
    await asyncio.sleep(0)
    raise asyncio.CancelledError("own")


async def awaits_a_cancelled_future(event: str, data: Any) -> None:
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


async def awaits_a_cancelled_task(event: str, data: Any) -> None:
    task = asyncio.create_task(asyncio.sleep(10))
    asyncio.get_running_loop().call_soon(task.cancel)
    await task


FAILING = [sync_raises, async_raises, waits_and_raises, awaits_a_cancelled_future, awaits_a_cancelled_task]


@pytest.mark.parametrize("handler", FAILING)
async def test_own_cancellation_is_a_failure(hooks: HookRegistry, reports: Any, handler: Handler) -> None:
    """A CancelledError that a handler raises is logged as its failure; the next handler runs and the emit ends."""
    ran: list[str] = []
    hooks.register("x:y", handler, name="own")
    hooks.register("x:y", lambda event, data: ran.append("next"))

    async def waits(event: str, data: Any) -> None:
        await asyncio.sleep(0.001)
        ran.append("last")

    hooks.register("x:y", waits)

    async def emitter() -> str:
        result = await hooks.emit("x:y", {})
        await asyncio.sleep(0)  # a cancellation that was only put off would arrive here
        assert own_task().cancelling() == 0
        return result.action

    assert await asyncio.create_task(emitter()) == "continue"
    assert ran == ["next", "last"]
    errors = reports.of(logging.ERROR)
    assert len(errors) == 1
    assert errors[0].startswith("Hook handler error for event 'x:y' (handler 'own'): ")

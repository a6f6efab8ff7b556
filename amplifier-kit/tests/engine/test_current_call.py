"""A call is known to the tasks that work for it, in its own session and while it runs."""

import asyncio
from types import SimpleNamespace
from typing import Any

from amplifier_kit.engine.current_call import call_in_progress, dispatched
from amplifier_kit.engine.delegation.request import Dispatch

_IDS = {"tool_call_id": "call-1", "parallel_group_id": "group-1"}


async def _seen_by(coordinator: Any) -> Any:
    return call_in_progress(coordinator)


async def test_tasks_that_a_call_starts_are_known_by_it_until_it_is_over() -> None:
    """Tasks that a tool starts find its call; one that outlives the call finds none."""
    coordinator, is_over = SimpleNamespace(), asyncio.Event()

    async def late() -> Any:
        await is_over.wait()
        return call_in_progress(coordinator)

    async def work() -> asyncio.Task[Any]:
        with dispatched(coordinator, _IDS):
            assert await asyncio.create_task(_seen_by(coordinator)) == _IDS
            return asyncio.create_task(late())

    left = await asyncio.create_task(work())
    is_over.set()
    assert await left is None
    assert coordinator._tool_dispatch_contexts == {}


async def test_a_call_is_that_of_its_own_session_alone() -> None:
    """A session that runs within another's call has no call by that, and its own ones count for it."""
    above, below = SimpleNamespace(), SimpleNamespace(_tool_dispatch_contexts={})

    async def inner() -> None:
        with dispatched(below, {**_IDS, "tool_call_id": "call-2"}):
            assert Dispatch.current(below).tool_call_id == "call-2"
            assert await asyncio.create_task(_seen_by(above)) is None

    async def outer() -> None:
        with dispatched(above, _IDS):
            assert await asyncio.create_task(_seen_by(below)) is None
            await asyncio.create_task(inner())
            assert Dispatch.current(above) == Dispatch(**_IDS)

    await asyncio.create_task(outer())

"""Cancellation: of the task that emits, which always propagates, and by a handler, which is its failure."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable
from typing import Any

import pytest

from amplifier_core.hooks import HookRegistry
from amplifier_core.models import HookResult

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


class Waiting:
    """Emit in a separate task, to a handler that signals when it waits."""

    def __init__(self, hooks: HookRegistry, handler: Handler) -> None:
        self.started = asyncio.Event()
        self.after: list[str] = []
        hooks.register("x:y", handler)
        hooks.register("x:y", lambda event, data: self.after.append("next"))
        self.task = asyncio.create_task(hooks.emit("x:y", {}))

    async def cancelled(self) -> None:
        """Cancel the task once the handler waits, and expect it to end so, without asking the next handler."""
        await self.started.wait()
        self.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await self.task
        assert self.task.cancelled()
        assert self.after == []


async def test_cancelling_the_emitter_cancels_the_handler(hooks: HookRegistry) -> None:
    """The running handler hears of it where it waits, its cleanup runs, and the emit ends."""
    fate: list[str] = []

    async def handler(event: str, data: Any) -> None:
        waiting.started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            fate.append("cancelled")
            await asyncio.sleep(0)
            fate.append("cleaned up")
            raise

    waiting = Waiting(hooks, handler)
    await waiting.cancelled()
    assert fate == ["cancelled", "cleaned up"]


@pytest.mark.parametrize(
    "outcome",
    [None, HookResult(action="deny"), "nonsense", ValueError("x"), BaseException("x"), asyncio.CancelledError("own")],
)
@pytest.mark.parametrize("lingering", [False, True])
async def test_swallowed_cancellation_propagates(
    hooks: HookRegistry, reports: Any, outcome: Any, lingering: bool
) -> None:
    """A handler may swallow the cancellation, answer or raise something else: the emitter is cancelled all the same."""

    async def handler(event: str, data: Any) -> Any:
        waiting.started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if lingering:
                await asyncio.sleep(0.001)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    waiting = Waiting(hooks, handler)
    await waiting.cancelled()
    assert reports.texts == []


async def test_swallowing_in_a_nested_emit(hooks: HookRegistry) -> None:
    """Also through an emit that a handler makes, and a gate there does not turn it into a verdict."""
    verdicts: list[HookResult] = []

    async def swallowing(event: str, data: Any) -> None:
        waiting.started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass

    async def handler(event: str, data: Any) -> None:
        verdicts.append(await hooks.emit("inner:event", {}))

    hooks.register("inner:event", swallowing, on_error="deny")
    waiting = Waiting(hooks, handler)
    await waiting.cancelled()
    assert verdicts == []


async def test_structured_concurrency_inside_a_handler(hooks: HookRegistry) -> None:
    """Timeouts, task groups, shields and gathers behave inside a handler as they do anywhere."""
    seen: list[str] = []

    async def failing() -> None:
        await asyncio.sleep(0)
        raise ValueError("child")

    async def tidy() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.001)
            seen.append("child cleaned up")

    async def handler(event: str, data: Any) -> None:
        try:
            async with asyncio.timeout(0.001):
                await asyncio.Event().wait()
        except TimeoutError:
            seen.append("timeout")
        try:
            async with asyncio.timeout(0.001):
                await asyncio.create_task(tidy())
        except TimeoutError:
            seen.append("timeout after the child")
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(failing())
                await asyncio.Event().wait()
        except* ValueError:
            seen.append("group")
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(0.001))
        assert await asyncio.shield(asyncio.sleep(0.001, "shielded")) == "shielded"
        gathered: Any = await asyncio.gather(asyncio.sleep(0, 1), asyncio.sleep(0.001, 2))
        assert gathered == [1, 2]
        assert await asyncio.wait_for(asyncio.sleep(0.001, "in time"), 10) == "in time"
        assert await asyncio.to_thread(lambda: "thread") == "thread"
        seen.append("end")
        assert own_task().cancelling() == 0

    hooks.register("x:y", handler, on_error="deny")
    assert (await hooks.emit("x:y", {})).reason is None
    assert seen == ["timeout", "child cleaned up", "timeout after the child", "group", "end"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("later", [False, True])
def test_interrupts_propagate(hooks: HookRegistry, error: type[BaseException], later: bool) -> None:
    """KeyboardInterrupt and SystemExit get out of emit, out of collecting, and past every gate."""

    async def async_handler(event: str, data: Any) -> None:
        await asyncio.sleep(0)
        raise error

    def sync_handler(event: str, data: Any) -> None:
        raise error

    hooks.register("x:y", async_handler if later else sync_handler, on_error="deny")
    with pytest.raises(error):
        asyncio.run(hooks.emit("x:y", {}))
    with pytest.raises(error):
        asyncio.run(hooks.emit_and_collect("x:y", {}))


async def test_closing_a_suspended_emit(hooks: HookRegistry) -> None:
    """An emit that is thrown away while a handler waits closes that handler."""
    fate: list[str] = []

    async def handler(event: str, data: Any) -> None:
        try:
            await asyncio.sleep(10)
        finally:
            fate.append("closed")

    hooks.register("x:y", handler)
    emitting = hooks.emit("x:y", {})
    emitting.send(None)
    emitting.close()
    assert fate == ["closed"]
    gc.collect()


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

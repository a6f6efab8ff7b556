"""Modules that misbehave in on_session_ready(): the session starts, the failure is told, everyone else gets ready."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from amplifier_core.testing import wait_for

KINDS = ["tool", "provider", "hooks", "context", "loop"]

FAILING = {
    "an exception": "raise RuntimeError('boom')",
    "an exception that cannot be printed": """
        class Unprintable(Exception):
            def __str__(self):
                raise ValueError("no text")
            __repr__ = __str__
        raise Unprintable
    """,
    "a base exception": "raise type('Base', (BaseException,), {})('boom')",
    "a cancellation of its own making": "raise asyncio.CancelledError",
    "a cancelled inner task": "inner = asyncio.ensure_future(asyncio.sleep(60))\ninner.cancel()\nawait inner",
    "endless recursion": "def deeper(): return deeper()\ndeeper()",
    "a hang": "await asyncio.Event().wait()",
    "a hang that swallows its end": """
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                break
        await asyncio.sleep(0)
    """,
    "a hang in an inner task": "await asyncio.gather(asyncio.Event().wait(), asyncio.sleep(0))",
}


def told(session: Any) -> list[str]:
    """Note which modules are reported as not ready."""
    failed: list[str] = []
    session.coordinator.hooks.register(
        "module:on_session_ready_failed", lambda event, data: failed.append(data["module_id"])
    )
    return failed


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fault", FAILING.values(), ids=FAILING)
async def test_failing_in_ready(world: Any, make_module: Any, kind: str, fault: str) -> None:
    """Whatever a callback does within its deadline, the session is up, the event is there, the next callback ran."""
    make_module(
        "hooks-after",
        """
        async def mount(coordinator, config=None): ...

        async def on_session_ready(coordinator):
            coordinator.session_state["after"] = True
        """,
    )
    session = world.session(world.faulty(kind, ready=fault), "hooks-after", ready_timeout=0.05)
    failed = told(session)
    await session.initialize()
    assert failed == [f"{kind}-faulty"]
    assert session.coordinator.session_state["after"] is True
    await world.check(session)


@pytest.mark.parametrize("kind", KINDS)
async def test_exit_in_ready_propagates(world: Any, kind: str) -> None:
    """sys.exit() in a callback goes through, nothing stays mounted, and the session can be started later."""
    session = world.session(world.faulty(kind, ready="coordinator.config.get('calm') or sys.exit(4)"))
    with pytest.raises(SystemExit) as leaving:
        await session.initialize()
    assert leaving.value.code == 4
    assert not session.initialized
    assert session.coordinator.get("tools") == session.coordinator.get("providers") == {}
    assert session.coordinator.get_capability("steady.lines") is None
    await world.check()
    session.config["calm"] = True
    await session.initialize()
    await world.check(session)


async def test_cancelling_the_session_token(world: Any) -> None:
    """A callback that asks its session to stop stops that session alone; after a reset it works."""
    fault = "await coordinator.request_cancel(immediate=True)"
    session = await world.started(world.faulty("hooks", ready=fault))
    completed: list[bool] = []
    session.coordinator.hooks.register("cancel:completed", lambda event, data: completed.append(data["was_immediate"]))
    assert await session.execute("hello") == "steady: hello"
    assert session.status.status == "cancelled"
    assert completed == [True]
    session.coordinator.cancellation.reset()
    await world.check(session)


@pytest.mark.parametrize("kind", KINDS)
async def test_failing_background_task(world: Any, kind: str) -> None:
    """A task started in a callback that fails later is the loop's news and nobody's end."""
    reported: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(str(context["exception"])))
    fault = """
        async def later():
            await asyncio.sleep(0)
            raise RuntimeError("in the background")
        coordinator.session_state["task"] = asyncio.create_task(later())
    """
    session = await world.started(world.faulty(kind, ready=fault))
    assert await wait_for(session.coordinator.session_state["task"].done, timeout=30)
    await world.check(session)
    session.coordinator.session_state.clear()
    gc.collect()
    assert reported == ["in the background"]


async def test_background_task_that_registers_late(world: Any) -> None:
    """What a module's background task registers after the start belongs to its session alone."""
    fault = """
        async def later():
            await coordinator.session_state["go"].wait()
            coordinator.hooks.register("prompt:submit", lambda event, data: None, name="late")
            await coordinator.hooks.emit("late:here", {})
            coordinator.session_state["went"] = True
        coordinator.session_state["go"] = asyncio.Event()
        coordinator.session_state["task"] = asyncio.create_task(later())
    """
    session = await world.started(world.faulty("hooks", ready=fault))
    session.coordinator.session_state["go"].set()
    await session.coordinator.session_state["task"]
    assert session.coordinator.session_state["went"]
    await world.check(session)


@pytest.mark.parametrize(
    "fault",
    [
        "await coordinator.session.initialize()",
        "await coordinator.session.execute('hello')",
        "coordinator.loader.clear_on_session_ready_queue()",
        "coordinator.loader.enqueue_on_session_ready('hooks-faulty', on_session_ready)",
        "await coordinator.hooks.emit('session:start', {'session_id': 'somebody else'})",
        "coordinator.hooks.register('module:on_session_ready_failed', lambda e, d: 1 / 0)\nraise RuntimeError('boom')",
    ],
)
async def test_reaching_into_the_start(world: Any, make_module: Any, fault: str) -> None:
    """A callback that uses the session or the loader in the midst of the start neither hangs nor repeats it."""
    make_module(
        "hooks-after",
        """
        async def mount(coordinator, config=None): ...

        async def on_session_ready(coordinator):
            coordinator.session_state["after"] = coordinator.session_state.get("after", 0) + 1
        """,
    )
    session = world.session(world.faulty("hooks", ready=fault), "hooks-after", ready_timeout=60)
    await session.initialize()
    assert session.coordinator.session_state["after"] == 1
    await world.check(session)


async def test_unmounting_everybody(world: Any) -> None:
    """A callback may ruin its own session by the means it has; it says so in plain text, and no other is touched."""
    fault = """
        for point in ("tools", "providers"):
            for name in list(coordinator.get(point)):
                await coordinator.unmount(point, name)
    """
    session = await world.started(world.faulty("hooks", ready=fault))
    with pytest.raises(RuntimeError, match=r"^No providers mounted$"):
        await session.execute("hello")
    await world.check()


async def test_ignoring_every_cancellation(world: Any) -> None:
    """A callback that will not end is abandoned some time after its deadline."""
    fault = """
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                pass
    """
    session = world.session(world.faulty("hooks", ready=fault), ready_timeout=0.01)
    failed = told(session)
    await session.initialize()
    assert failed == ["hooks-faulty"]
    await world.check(session)

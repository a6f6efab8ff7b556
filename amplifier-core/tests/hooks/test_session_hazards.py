"""Hazards of a session's life: its start, its end, and what outlives a module."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import AmplifierSession, HookResult
from amplifier_core.coordinator import unmount
from amplifier_core.session import fork_session, get_session

MakePlan = Callable[..., dict[str, Any]]
MakeModule = Callable[[str, str], Path]
ToolSession = Callable[..., Awaitable[AmplifierSession]]


async def test_blocking_stop_hook_is_bounded(tool_session: ToolSession, reports: Any) -> None:
    """A hook that blocks the end, by denying, asking, hanging or emitting it again, does not keep a session alive."""
    heard: list[str] = []
    session = await tool_session(session={"hook_timeout": 0.02})
    hooks = session.coordinator.hooks

    async def again(event: str, data: Any) -> None:
        if len(heard) < 1_000:
            heard.append(event)
            await hooks.emit(event, data)
            await session.cleanup()

    async def hanging(event: str, data: Any) -> None:
        await asyncio.Event().wait()

    for event in ("prompt:complete", "orchestrator:complete", "session:end"):
        hooks.register(event, again, name="again")
        hooks.register(event, hanging, name="hanging")
        hooks.register(event, lambda event, data: HookResult(action="ask_user", approval_prompt="Really stop?"))
        hooks.register(event, lambda event, data: HookResult(action="deny", reason="Do not stop"))
    async with asyncio.timeout(60):
        await session.execute("ls")
        await session.cleanup()
    assert not session.initialized
    assert 0 < len(heard) < 1_000
    await session.cleanup()


class Loop:
    """An orchestrator that does what it is told."""

    def __init__(self, act: Callable[[Any], Any]) -> None:
        self.act = act

    async def execute(self, coordinator: Any, **_: Any) -> Any:
        return await self.act(coordinator)


async def fails(coordinator: Any) -> None:
    await asyncio.sleep(0)
    raise ValueError("the turn failed")


async def stops(coordinator: Any) -> str:
    await coordinator.request_cancel(immediate=True)
    return "stopped"


@pytest.mark.parametrize(("resumed", "event"), [(False, "session:start"), (True, "session:resume")])
async def test_session_start_once_per_session(make_plan: MakePlan, resumed: bool, event: str) -> None:
    """Start, or resume, is said once per session: not per turn, not by concurrent turns, not again after a failure."""
    heard: list[str] = []
    session = AmplifierSession(make_plan(), is_resumed=resumed)
    session.coordinator.hooks.register("*", lambda name, data: heard.append(name))
    await asyncio.gather(*(session.initialize() for _ in range(3)))
    assert heard == []
    await session.coordinator.mount("orchestrator", Loop(fails))
    outcomes = await asyncio.gather(*(session.execute("hi") for _ in range(3)), return_exceptions=True)
    assert [str(outcome) for outcome in outcomes] == ["the turn failed"] * 3
    with pytest.raises(ValueError, match="the turn failed"):
        await session.execute("hi")
    await session.cleanup()
    assert heard == [event, "session:end"]


async def by_itself(session: AmplifierSession) -> None:
    async with session:
        pass


async def after_a_turn(session: AmplifierSession) -> None:
    async with session:
        await session.execute("hi")


async def by_an_error(session: AmplifierSession) -> None:
    async with session:
        raise ZeroDivisionError


async def by_an_interrupt(session: AmplifierSession) -> None:
    async with session:
        raise KeyboardInterrupt


async def after_a_failed_turn(session: AmplifierSession) -> None:
    async with session:
        await session.coordinator.mount("orchestrator", Loop(fails))
        await session.execute("hi")


async def after_a_stopped_turn(session: AmplifierSession) -> None:
    async with session:
        await session.coordinator.mount("orchestrator", Loop(stops))
        await session.execute("hi")


async def by_cancellation(session: AmplifierSession) -> None:
    waiting = asyncio.Event()

    async def waits(coordinator: Any) -> None:
        waiting.set()
        await asyncio.Event().wait()

    async def turn() -> None:
        async with session:
            await session.coordinator.mount("orchestrator", Loop(waits))
            await session.execute("hi")

    task = asyncio.create_task(turn())
    await waiting.wait()
    task.cancel()
    await task


async def with_a_broken_cleanup(session: AmplifierSession) -> None:
    async with session:
        session.coordinator.register_cleanup(lambda: 1 / 0)


async def with_a_fatal_cleanup(session: AmplifierSession) -> None:
    def fatal() -> None:
        raise SystemExit

    async with session:
        session.coordinator.register_cleanup(fatal)


async def with_broken_end_hooks(session: AmplifierSession) -> None:
    hooks = session.coordinator.hooks
    hooks.register("session:end", lambda event, data: HookResult(action="ask_user"), priority=-1)
    hooks.register("session:end", lambda event, data: 1 / 0, priority=-1)
    async with session:
        await session.execute("hi")


async def twice(session: AmplifierSession) -> None:
    await session.initialize()
    await asyncio.gather(session.cleanup(), session.cleanup())
    await session.cleanup()


async def as_a_child(session: AmplifierSession) -> None:
    async with session:
        child = get_session(await fork_session(session.session_id))
        heard: list[str] = []
        child.coordinator.hooks.register("session:end", lambda event, data: heard.append(data["session_id"]))
        await child.cleanup()
        assert heard == [child.session_id]


@pytest.mark.parametrize(
    ("leave", "status", "error"),
    [
        (by_itself, "completed", None),
        (after_a_turn, "completed", None),
        (by_an_error, "completed", ZeroDivisionError),
        (by_an_interrupt, "completed", KeyboardInterrupt),
        (after_a_failed_turn, "failed", ValueError),
        (after_a_stopped_turn, "cancelled", None),
        (by_cancellation, "failed", asyncio.CancelledError),
        (with_a_broken_cleanup, "completed", None),
        (with_a_fatal_cleanup, "completed", SystemExit),
        (with_broken_end_hooks, "completed", None),
        (twice, "completed", None),
        (as_a_child, "completed", None),
    ],
)
async def test_session_end_fires_on_every_exit_path(
    make_plan: MakePlan, leave: Callable[[AmplifierSession], Any], status: str, error: type[BaseException] | None
) -> None:
    """However a session is left, its end is said once, with the status it ended in."""
    ends: list[str] = []
    session = AmplifierSession(make_plan())
    session.coordinator.hooks.register("session:end", lambda event, data: ends.append(data["status"]))
    if error is None:
        await leave(session)
    else:
        with pytest.raises(error):
            await leave(session)
    assert ends == [status]
    assert not session.initialized


async def test_session_end_reaches_everybody(make_plan: MakePlan) -> None:
    """The hook that hangs at the end, or is cancelled there, is the only one that misses it."""
    ends: list[str] = []

    async def slow(event: str, data: Any) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ends.append("slow")

    session = AmplifierSession(make_plan(session={"hook_timeout": 0.02}))
    session.coordinator.hooks.register("session:end", slow)
    session.coordinator.hooks.register("session:end", lambda event, data: ends.append("next"))
    session.coordinator.register_cleanup(lambda: ends.append("cleanup"))
    async with session:
        pass
    assert ends == ["slow", "next", "cleanup"]


async def test_unmount_removes_handlers(make_plan: MakePlan, make_module: MakeModule) -> None:
    """Unmounting a module takes its handlers away, those of mount() and of on_session_ready(), and nobody else's."""
    source = """
        heard = []

        async def mount(coordinator, config=None):
            coordinator.hooks.register("x:y", lambda event, data: heard.append("NAME mount"), name="NAME")
            coordinator.hooks.register("*", lambda event, data: heard.append("NAME all"))

        async def on_session_ready(coordinator):
            coordinator.hooks.register("x:y", lambda event, data: heard.append("NAME ready"))
    """
    for name in ("leaving", "staying"):
        make_module(f"hooks-{name}", source.replace("NAME", name))
    plan = make_plan(hooks=[{"module": "hooks-leaving"}, {"module": "hooks-staying"}])
    async with AmplifierSession(plan) as session:
        from amplifier_module_hooks_leaving import heard as leaving  # type: ignore[import-not-found]  # made above
        from amplifier_module_hooks_staying import heard as staying  # type: ignore[import-not-found]  # made above

        hooks = session.coordinator.hooks
        await hooks.emit("x:y", {})
        assert sorted(leaving) == ["leaving all", "leaving mount", "leaving ready"]
        leaving.clear()
        staying.clear()
        await unmount("hooks", "hooks-leaving", session_id=session.session_id)
        await hooks.emit("x:y", {})
        assert leaving == []
        assert sorted(staying) == ["staying all", "staying mount", "staying ready"]

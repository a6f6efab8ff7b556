"""Hazards of a session's life: its start, its end, and what outlives a module."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from amplifier_core import AmplifierSession, HookResult

MakePlan = Callable[..., dict[str, Any]]
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

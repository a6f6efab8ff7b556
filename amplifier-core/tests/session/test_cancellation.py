"""Cancelling the task a session lives in, at every single point of that life."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from amplifier_core import AmplifierSession

LOOP = """
import asyncio
class Loop:
    async def execute(self, prompt, context, providers, tools, hooks, coordinator=None):
        await hooks.emit("prompt:submit", {"prompt": prompt})
        await asyncio.sleep(0)
        await coordinator.collect_contributions("channel")
        return prompt
async def mount(coordinator, config):
    await asyncio.sleep(0)
    await coordinator.mount("orchestrator", Loop())
"""
HOOK = """
import asyncio
LOG = []
async def mount(coordinator, config):
    LOG.append("mount")
    async def hear(event, data):
        LOG.append(event)
        await asyncio.sleep(0)
    async def contribute():
        await asyncio.sleep(0)
    async def clean_up():
        LOG.append("cleanup")
        await asyncio.sleep(0)
    coordinator.register_cleanup(clean_up)
    for event in ("session:start", "prompt:submit", "session:end"):
        coordinator.hooks.register(event, hear)
    coordinator.register_contributor("channel", "hook", contribute)
    await asyncio.sleep(0)
async def on_session_ready(coordinator):
    LOG.append("ready")
    await asyncio.sleep(0)
"""


@pytest.fixture
def plan(make_plan: Any, make_module: Any) -> dict[str, Any]:
    """Return a plan whose modules wait wherever they may."""
    make_module("loop-waiting", LOOP)
    make_module("hooks-waiting", HOOK)
    plan: dict[str, Any] = make_plan(session={"orchestrator": "loop-waiting"}, hooks=[{"module": "hooks-waiting"}])
    return plan


async def live(session: AmplifierSession) -> Any:
    """Live a whole life."""
    async with session:
        return await session.execute("hello")


async def cancel_after(session: AmplifierSession, steps: int) -> tuple[bool, Any]:
    """Let the session live for some turns of the event loop, then cancel; return whether it was over and its result."""
    task = asyncio.ensure_future(live(session))
    for _ in range(steps):
        await asyncio.sleep(0)
    over = task.done()
    task.cancel()
    outcome = (await asyncio.gather(task, return_exceptions=True))[0]
    return over, outcome


async def test_cancellation_at_every_step(plan: dict[str, Any]) -> None:
    """CancelledError always reaches the caller, cleanups run exactly once, and an initialised session says its end."""
    steps = 0
    while True:
        steps += 1
        session = AmplifierSession(plan)
        import amplifier_module_hooks_waiting as module  # type: ignore[import-not-found]

        module.LOG.clear()
        over, outcome = await cancel_after(session, steps)
        if over:
            break

        assert isinstance(outcome, asyncio.CancelledError), steps
        assert session.initialized is False
        assert module.LOG.count("cleanup") == module.LOG.count("mount") <= 1
        assert module.LOG.count("session:end") <= 1
        if "session:start" in module.LOG:
            assert "session:end" in module.LOG
        assert session.coordinator._cleanup_fns == []

    assert outcome == "hello"
    assert steps > 8


async def test_two_cancellations(plan: dict[str, Any]) -> None:
    """A second cancellation, while the first is being cleaned up after, cuts nothing short that others rely on."""
    for first in range(1, 12):
        for second in range(1, 4):
            session = AmplifierSession(plan)
            ran: list[str] = []
            session.coordinator.register_cleanup(lambda ran=ran: ran.append("oldest"))
            task = asyncio.ensure_future(live(session))
            for steps in (first, second):
                for _ in range(steps):
                    await asyncio.sleep(0)
                task.cancel()
            outcome = (await asyncio.gather(task, return_exceptions=True))[0]

            assert isinstance(outcome, asyncio.CancelledError) or outcome == "hello"
            assert ran == ["oldest"], (first, second)
            assert session.initialized is False

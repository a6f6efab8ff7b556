"""Every event and every log record is attributed to the module that caused it, to the kernel or to the app."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_core import AmplifierSession
from amplifier_core.hooks import Outcome

LOOP = """
import asyncio

class Loop:
    async def execute(self, prompt, context, providers, tools, hooks, coordinator=None):
        await hooks.emit("execution:start", {})
        with coordinator.acting("tools", "look"):
            await tools["look"].execute({})
        await asyncio.create_task(hooks.emit("execution:end", {}))
        return ""

async def mount(coordinator, config):
    await coordinator.mount("orchestrator", Loop())
"""
TOOL = """
import asyncio

class Look:
    name = "look"
    description = "Look"
    input_schema = {"type": "object"}
    def __init__(self, coordinator):
        self.coordinator = coordinator
    async def execute(self, input):
        await self.coordinator.hooks.emit("tool:progress", {})
        await asyncio.create_task(self.coordinator.hooks.emit("tool:looked", {}))
        self.coordinator.log("INFO", "looked")
        await self.coordinator.authorize("filesystem.read", {})

async def mount(coordinator, config):
    await coordinator.hooks.emit("look:mounted", {})
    await coordinator.mount("tools", Look(coordinator))

    async def clean_up():
        await coordinator.hooks.emit("look:closed", {})
    coordinator.register_cleanup(clean_up)
"""
HOOK = """
async def mount(coordinator, config):
    async def echo(event, data):
        await coordinator.hooks.emit("echo:heard", {})
    coordinator.hooks.register("execution:start", echo)

async def on_session_ready(coordinator):
    await coordinator.hooks.emit("echo:ready", {})
"""


@pytest.fixture
def plan(make_plan: Any, make_module: Any) -> dict[str, Any]:
    """Give a plan whose loop, tool and hook emit on every occasion."""
    make_module("loop-acting", LOOP)
    make_module("tool-look", TOOL)
    make_module("hooks-echo", HOOK)
    made: dict[str, Any] = make_plan(
        session={"orchestrator": "loop-acting"}, tools=[{"module": "tool-look"}], hooks=[{"module": "hooks-echo"}]
    )
    return made


async def test_who_emits(plan: dict[str, Any]) -> None:
    """Whatever the occasion, the component and the module are those whose code was called."""
    session = AmplifierSession(plan)
    who: dict[str, tuple[str, str | None]] = {}
    hooks = session.coordinator.hooks

    def note(event: str, data: Any, outcome: Outcome) -> None:
        who[event] = (outcome.component, outcome.module)

    async def count(event: str, data: Any) -> None:
        await hooks.emit("app:counted", {})

    hooks.observe(note)
    hooks.register("tool:progress", count)
    records: list[dict[str, Any]] = []
    session.coordinator.add_log_sink(records.append)
    async with session:
        await hooks.emit("app:started", {})
        await session.execute("hello")

    kernel, app = ("kernel", None), ("app", None)
    loop, tool, hook = ("orchestrator", "loop-acting"), ("tool", "tool-look"), ("hook", "hooks-echo")
    assert who == {
        "look:mounted": tool,
        "echo:ready": hook,
        "app:started": app,
        "session:start": kernel,
        "execution:start": loop,
        "echo:heard": hook,
        "tool:progress": tool,
        "app:counted": app,
        "tool:looked": tool,
        "approval:denied": kernel,
        "execution:end": loop,
        "session:end": kernel,
        "look:closed": tool,
    }
    assert [(record["component"], record["module"]) for record in records] == [tool]

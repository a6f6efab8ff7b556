"""Parts that several areas play with: plans, recording hooks and modules that say when they were mounted."""

from __future__ import annotations

from typing import Any

from amplifier_core import HookResult
from amplifier_core.events import ALL_EVENTS
from amplifier_core.session import AmplifierSession

from .base import Stage
from .module_factory import write_module, write_session_modules

TRACED_TOOL = """
class Tool:
    name = "{name}"
    description = "A tool"
    input_schema = {{}}
    async def execute(self, input):
        return None


async def mount(coordinator, config=None):
    trace = coordinator.session_state.setdefault("trace", [])
    trace.append(["mount", "{id}", dict(config)])
    await coordinator.mount("tools", Tool(), name="{name}")
    return lambda: trace.append(["cleanup", "{id}"])


async def on_session_ready(coordinator):
    coordinator.session_state["trace"].append(["ready", "{id}", sorted(coordinator.get("tools"))])
"""

RAISING = """
async def mount(coordinator, config=None):
    raise RuntimeError("cannot start {id}")
"""


def base_plan(stage: Stage, tools: int = 0) -> dict[str, Any]:
    """Write the modules of a whole session and return its plan."""
    return write_session_modules(stage.folder, tools)


def write_traced(stage: Stage, module_id: str) -> dict[str, Any]:
    """Write a tool that records its mount, its ready callback and its cleanup; return its entry in a plan."""
    write_module(stage.folder, module_id, TRACED_TOOL.format(id=module_id, name=module_id.removeprefix("tool-")))
    return {"module": module_id, "config": {"for": module_id}}


def write_raising(stage: Stage, module_id: str) -> dict[str, Any]:
    """Write a module whose mount raises; return its entry in a plan."""
    write_module(stage.folder, module_id, RAISING.format(id=module_id))
    return {"module": module_id}


def watch(coordinator: Any, into: list[Any], events: list[str] | None = None) -> None:
    """Record every event, or the ones named, with the data its handlers see."""

    async def record(event: str, data: Any) -> HookResult:
        into.append([event, data])
        return HookResult(action="continue")

    for event in events or [*ALL_EVENTS, "session:config"]:
        coordinator.hooks.register(event, record, priority=-1000, name="watch")


async def started(stage: Stage, plan: dict[str, Any] | None = None, **options: Any) -> AmplifierSession:
    """Return an initialised session whose events go to the stage's notes."""
    session = AmplifierSession(plan or base_plan(stage), **options)
    watch(session.coordinator, stage.notes)
    await session.initialize()
    return session


def is_up(session: Any) -> bool:
    """Say whether a session is initialised; one of the two published classes keeps that to itself."""
    return bool(getattr(session, "initialized", None) or getattr(session, "_initialized", False))


class Loop:
    """An orchestrator made of one function."""

    def __init__(self, body: Any) -> None:
        self.body = body

    async def execute(self, **arguments: Any) -> Any:
        """Hand the arguments to the function."""
        return await self.body(**arguments)

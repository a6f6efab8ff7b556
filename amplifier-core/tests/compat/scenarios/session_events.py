"""The events of a session's life and what they carry."""

from __future__ import annotations

from typing import Any

from .base import Stage, scenario
from .parts import base_plan, started


@scenario
async def one_turn(stage: Stage) -> Any:
    """The events of one whole life."""
    session = await started(stage, session_id="me")
    await session.execute("hi")
    await session.cleanup()
    return stage.notes


@scenario
async def start_only_once(stage: Stage) -> Any:
    """The second turn does not start the session again."""
    session = await started(stage)
    await session.execute("one")
    await session.execute("two")
    return [event for event, _ in stage.notes]


@scenario
async def resumed(stage: Stage) -> Any:
    """A resumed session says so, with its metadata."""
    plan = base_plan(stage)
    plan["session"]["metadata"] = {"agent": "a", "n": [1]}
    session = await started(stage, plan, session_id="me", is_resumed=True)
    await session.execute("hi")
    return stage.notes


@scenario
async def empty_metadata(stage: Stage) -> Any:
    """Empty metadata is left out."""
    plan = base_plan(stage)
    plan["session"]["metadata"] = {}
    session = await started(stage, plan, session_id="me", parent_id="mother")
    await session.execute("hi")
    return stage.notes


@scenario
async def raw_plan(stage: Stage) -> Any:
    """The whole plan, without its secrets, is emitted once when the plan asks for it."""
    plan = base_plan(stage)
    plan["session"]["raw"] = True
    plan["providers"][0]["config"] = {"api_key": "sk-123", "model": "m"}
    session = await started(stage, plan, session_id="me", parent_id="mother")
    await session.execute("hi")
    await session.execute("again")
    return stage.notes


@scenario
async def end_after_failure(stage: Stage) -> Any:
    """The end says how the last turn went."""
    session = await started(stage, session_id="me")

    class Broken:
        async def execute(self, **arguments: Any) -> str:
            raise ValueError("broken")

    await session.coordinator.mount("orchestrator", Broken())
    try:
        await session.execute("hi")
    except ValueError:
        stage.notes.append("raised")
    await session.cleanup()
    return stage.notes


@scenario
async def end_without_a_turn(stage: Stage) -> Any:
    """A session that never ran."""
    session = await started(stage, session_id="me")
    await session.cleanup()
    return stage.notes


@scenario
async def caller_ids_win(stage: Stage) -> Any:
    """Fields the emitter sets win over the defaults; the timestamp does not."""
    session = await started(stage, session_id="me", parent_id="mother")
    stage.notes.clear()
    await session.coordinator.hooks.emit("tool:pre", {"session_id": "other", "timestamp": "never", "x": 1})
    return stage.notes


@scenario
async def denied_start(stage: Stage) -> Any:
    """A handler that denies session:start does not stop the turn."""
    from amplifier_core import HookResult

    session = await started(stage)

    async def deny(event: str, data: Any) -> HookResult:
        return HookResult(action="deny", reason="no")

    session.coordinator.hooks.register("session:start", deny, name="deny")
    return await session.execute("hi")

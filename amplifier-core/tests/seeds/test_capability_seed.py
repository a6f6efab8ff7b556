"""The capability registry: apps provide, modules ask, and neither knows the other."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from amplifier_core import AmplifierSession, ModuleCoordinator

TOOL_TASK = """
from amplifier_core import ToolResult


class ToolError(Exception):
    pass


class TaskTool:
    name = "task"
    description = "Hand work to another agent"
    input_schema = {"type": "object", "properties": {"task": {"type": "string"}}}

    def __init__(self, coordinator):
        self.coordinator = coordinator

    async def execute(self, input):
        # Module requests capability
        if "session_id" in input:
            resume_fn = self.coordinator.get_capability("session.resume")
            if not resume_fn:
                raise ToolError("session.resume capability not available")
            result = await resume_fn(session_id=input["session_id"], task=input["task"])
            return ToolResult(success=True, output=result)
        spawn_fn = self.coordinator.get_capability("session.spawn")
        if spawn_fn:
            result = await spawn_fn(
                agent_name="zen-architect", task=input["task"], parent_session=self.coordinator.session
            )
        else:
            # Handle gracefully - capability not available in this app
            raise ToolError("session.spawn capability not available")
        return ToolResult(success=True, output=result)


async def mount(coordinator, config=None):
    await coordinator.mount("tools", TaskTool(coordinator), name="task")
"""


def register_session_spawning(session: AmplifierSession, children: dict[str, AmplifierSession]) -> None:
    """Register session.spawn and session.resume as an app does, at session creation."""

    async def spawn(agent_name: str, task: str, parent_session: AmplifierSession) -> dict[str, Any]:
        plan = {**parent_session.config, "tools": []}
        child = AmplifierSession(plan, loader=parent_session.loader, parent_id=parent_session.session_id)
        await child.initialize()
        children[child.session_id] = child
        return {"agent": agent_name, "session_id": child.session_id, "output": await child.execute(task)}

    async def resume(session_id: str, task: str) -> dict[str, Any]:
        return {"session_id": session_id, "output": await children[session_id].execute(task)}

    session.coordinator.register_capability("session.spawn", spawn)
    session.coordinator.register_capability("session.resume", resume)


async def test_register_and_request() -> None:
    """What the app registers under a name is what the module gets under it; the example runs as it stands."""
    coordinator = ModuleCoordinator()

    async def spawn_fn(agent_name: str, task: str) -> dict[str, str]:
        return {"agent": agent_name, "did": task}

    coordinator.register_capability("session.spawn", spawn_fn)
    requested = coordinator.get_capability("session.spawn")
    assert requested is spawn_fn
    result = await requested(agent_name="zen-architect", task="analyze this")
    assert result == {"agent": "zen-architect", "did": "analyze this"}


def test_missing_capability_is_none() -> None:
    """Asking for what nobody registered is not an error: the module decides."""
    assert ModuleCoordinator().get_capability("session.spawn") is None


async def test_spawn_and_resume_contracts(bench: Any) -> None:
    """tool-task spawns with (agent_name, task, parent_session) and resumes with (session_id, task); both give dicts."""
    bench.install("tool-task-capable", TOOL_TASK)
    children: dict[str, AmplifierSession] = {}
    session = bench.session(bench.plan(tools=["tool-task-capable"]))
    register_session_spawning(session, children)
    async with session:
        spawned = await session.execute('task {"task": "analyze this"}')
        assert spawned["agent"] == "zen-architect"
        assert spawned["output"] == "echo: analyze this"
        child = children[spawned["session_id"]]
        assert (child.parent_id, child.loader) == (session.session_id, session.loader)
        resumed = await session.execute(f'task {{"session_id": "{child.session_id}", "task": "go on"}}')
        assert resumed == {"session_id": child.session_id, "output": "echo: go on"}
        assert [message["content"] for message in await child.coordinator.get("context").get_messages()] == [
            "analyze this",
            "echo: analyze this",
            "go on",
            "echo: go on",
        ]
        await child.cleanup()


@pytest.mark.parametrize(
    ("arguments", "capability"),
    [('{"task": "x"}', "session.spawn"), ('{"session_id": "s", "task": "x"}', "session.resume")],
)
async def test_missing_capability_is_handled_gracefully(
    bench: Any, record: Any, arguments: str, capability: str
) -> None:
    """In an app without it, the tool says clearly what is missing and the session goes on."""
    bench.install("tool-task-capable", TOOL_TASK)
    session = bench.session(bench.plan(tools=["tool-task-capable"]))
    heard = record(session)
    async with session:
        answer = await session.execute(f"task {arguments}")
        assert answer == f"tool failed: {capability} capability not available"
        assert heard.data("tool:error")[0]["error"] == f"{capability} capability not available"
        assert await session.execute("hello") == "echo: hello"


async def test_capabilities_registered_at_creation_are_there_in_mount(bench: Any) -> None:
    """What an app registers before initialize is seen by the first module that mounts."""
    bench.install(
        "tool-early",
        """
        from amplifier_core.testing import MockTool

        async def mount(coordinator, config=None):
            coordinator.session_state["seen"] = coordinator.get_capability("session.spawn")
            await coordinator.mount("tools", MockTool("early"))
        """,
    )
    session = bench.session(bench.plan(tools=["tool-early"]))
    session.coordinator.register_capability("session.spawn", len)
    async with session:
        assert session.coordinator.session_state["seen"] is len


async def test_capabilities_are_session_scoped(bench: Any) -> None:
    """A capability of one session is invisible in every other, children included, until the app registers it there."""
    async with bench.session() as one, bench.session(parent_id=one.session_id) as child:
        one.coordinator.register_capability("session.spawn", len)
        assert child.coordinator.get_capability("session.spawn") is None


async def test_apps_can_be_exchanged(bench: Any) -> None:
    """One module runs under two apps that implement a capability differently, and imports neither."""
    bench.install("tool-task-capable", TOOL_TASK)
    answers = []
    for app in ("terminal", "server"):

        async def spawn(agent_name: str, task: str, parent_session: Any, app: str = app) -> dict[str, str]:
            return {"by": app}

        session = bench.session(bench.plan(tools=["tool-task-capable"]))
        session.coordinator.register_capability("session.spawn", spawn)
        async with session:
            answers.append(await session.execute('task {"task": "x"}'))
    assert answers == [{"by": "terminal"}, {"by": "server"}]
    imported = [node.module for node in ast.walk(ast.parse(TOOL_TASK)) if isinstance(node, ast.ImportFrom)]
    assert imported == ["amplifier_core"]


async def test_a_capability_is_whatever_the_contract_says(bench: Any) -> None:
    """The registry stores any value, replaces it by a later one and hands back the very object."""
    async with bench.session() as session:
        coordinator = session.coordinator
        for value in (len, {"a": 1}, 0, "", [], object()):
            coordinator.register_capability("app.thing", value)
            assert coordinator.get_capability("app.thing") is value

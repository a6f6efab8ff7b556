"""Sessions that run recipes, with real commands and with agents that answer as a test says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import AmplifierSession


class World:
    """One session in a project: its tool, its events, what its policy was asked, and its agents."""

    def __init__(self, session: AmplifierSession, project: Path) -> None:
        self.session = session
        self.project = project
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.verdicts: dict[str, str] = {}
        self.spawned: list[dict[str, Any]] = []
        #: What an agent does: its result, or something it raises.
        self.agent: Callable[[dict[str, Any]], Any] = lambda given: {"output": "done"}
        coordinator = session.coordinator
        coordinator.register_capability("session.working_dir", str(project))
        coordinator.register_capability("session.spawn", self._spawn)
        coordinator.register_policy("test", self._judge)

    def _judge(self, action: str, details: dict[str, Any]) -> Any:
        self.asked.append((action, details))
        return self.verdicts.get(action, "allow")

    async def _spawn(self, **given: Any) -> Any:
        self.spawned.append(given)
        answer = self.agent(given)
        return await answer if asyncio.iscoroutine(answer) else answer

    def note(self, event: str, data: dict[str, Any]) -> None:
        self.events.append((event, data))

    def write(self, text: str, name: str = "work.yaml") -> None:
        """Write a recipe; its name, description and version are added."""
        header = f"name: {Path(name).stem}\ndescription: For a test.\nversion: 1.0.0\n"
        (self.project / name).write_text(header + text, encoding="utf-8")

    async def call(self, operation: str, **given: Any) -> dict[str, Any]:
        """Return the output of an operation, or its error."""
        tool = self.session.coordinator.get("tools")["recipes"]
        result = await tool.execute({"operation": operation, **given})
        assert result.success == (result.error is None)
        answer: dict[str, Any] = result.output if result.success else result.error
        return answer

    async def run(self, text: str, **context: Any) -> dict[str, Any]:
        """Run a recipe and return the output, or the error."""
        self.write(text)
        return await self.call("execute", recipe_path="work.yaml", context=context)

    def state(self, session_id: str) -> dict[str, Any]:
        [path] = self.project.parent.glob(f"sessions/*/recipe-sessions/{session_id}/state.json")
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found


Open = Callable[[], AbstractAsyncContextManager[World]]


@pytest.fixture
def open_world(scripted_session: Callable[..., AmplifierSession], tmp_path: Path) -> Open:
    """Give `open_world()`: a context with a session in the same project, as another process would start it."""
    project = tmp_path / "project"
    project.mkdir()
    tools = [
        {"module": "tool-bash", "config": {"timeout": 60}},
        {"module": "tool-recipes", "config": {"session_dir": str(tmp_path / "sessions")}},
    ]

    @asynccontextmanager
    async def open_one() -> AsyncIterator[World]:
        session = scripted_session("unused", tools=tools)
        world = World(session, project)
        session.config["agents"] = {"team:reviewer": {"description": "Reviews."}}
        async with session:
            session.coordinator.hooks.register("*", world.note, name="note")
            yield world

    return open_one


@pytest.fixture
async def world(open_world: Open) -> AsyncIterator[World]:
    async with open_world() as opened:
        yield opened


Run = Callable[..., Awaitable[dict[str, Any]]]

"""A session whose app starts children that behave as a test says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from amplifier_core import ToolResult
from amplifier_core.testing import MockCoordinator
from amplifier_module_tool_delegate import mount

FIVE = [
    "delegate:agent_spawned",
    "delegate:agent_resumed",
    "delegate:agent_completed",
    "delegate:agent_cancelled",
    "delegate:error",
]
AGENTS = {
    "amplifier:explorer": {"description": "Finds things out."},
    "amplifier:reviewer": {"description": "Finds what is wrong."},
}


class World:
    """Hold a coordinator with the tool, what children were asked for, and every event."""

    def __init__(self) -> None:
        self.coordinator = MockCoordinator()
        self.coordinator.config["agents"] = dict(AGENTS)
        self.spawned: list[dict[str, Any]] = []
        self.resumed: list[tuple[str, str]] = []
        self.events: list[tuple[str, dict[str, Any]]] = []
        #: Has an entry for every child that was started, and for every sign of life.
        self.starts: asyncio.Queue[str] = asyncio.Queue()
        self.beats: asyncio.Queue[str] = asyncio.Queue()
        #: What a child does: its result, or something it raises.
        self.behaviour: Callable[[], Any] = lambda: {"output": "done"}

    async def child(self) -> Any:
        returned = self.behaviour()
        return await returned if asyncio.iscoroutine(returned) else returned

    async def spawn(self, **given: Any) -> Any:
        self.spawned.append(given)
        self.starts.put_nowait(given["sub_session_id"])
        answer = await self.child()
        return {"session_id": given["sub_session_id"], **answer} if isinstance(answer, dict) else answer

    async def resume(self, sub_session_id: str, instruction: str) -> Any:
        self.resumed.append((sub_session_id, instruction))
        answer = await self.child()
        return {"session_id": sub_session_id, **answer} if isinstance(answer, dict) else answer

    async def open(self, config: dict[str, Any] | None = None, *, has_app: bool = True) -> World:
        """Mount the tool and listen to what it announces."""
        if has_app:
            self.coordinator.register_capability("session.spawn", self.spawn)
            self.coordinator.register_capability("session.resume", self.resume)
        await mount(self.coordinator, config)
        [names] = await self.coordinator.collect_contributions("observability.events")
        for name in names:
            self.coordinator.hooks.register(name, self._note, name=f"note-{name}")
        return self

    def _note(self, event: str, data: dict[str, Any]) -> None:
        self.events.append((event, data))
        if event == "delegation:heartbeat":
            self.beats.put_nowait(data["sub_session_id"])

    @property
    def tool(self) -> Any:
        return self.coordinator.get("tools")["delegate"]

    @property
    def names(self) -> list[str]:
        """Return the names of the events, in order."""
        return [name for name, _ in self.events]

    async def call(self, call_id: str | None = "call-1", **given: Any) -> ToolResult:
        """Call the tool as a loop does: known by the ids of the call."""
        contexts: dict[Any, Any] = getattr(self.coordinator, "_tool_dispatch_contexts", None) or {}
        self.coordinator._tool_dispatch_contexts = contexts
        if call_id is not None:
            contexts[asyncio.current_task()] = {"tool_call_id": call_id, "parallel_group_id": "group-1"}
        try:
            result: ToolResult = await self.tool.execute(given)
            return result
        finally:
            contexts.pop(asyncio.current_task(), None)


@pytest.fixture
def world() -> World:
    """Return a session that is not opened yet."""
    return World()

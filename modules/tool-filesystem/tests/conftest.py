"""The tools of the module in a folder of their own, on a real coordinator whose events are kept."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import ToolResult
from amplifier_core.testing import MockCoordinator
from amplifier_module_tool_filesystem import mount


class Desk:
    """The three tools, what they emit, and what the session is asked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.coordinator: Any = MockCoordinator()
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.asked: list[tuple[str, str]] = []
        self.verdict = "allow"
        for event in ("artifact:read", "artifact:write"):
            self.coordinator.hooks.register(event, self._hear, name=f"test-{event}")
        self.coordinator.register_policy("test", self._decide)
        self.coordinator.register_capability("session.working_dir", str(folder))

    async def _hear(self, event: str, data: dict[str, Any]) -> None:
        self.events.append((event, {key: data[key] for key in ("path", "bytes")}))

    def _decide(self, action: str, details: dict[str, Any]) -> str:
        self.asked.append((action, details["path"]))
        return self.verdict

    async def call(self, name: str, **tool_input: Any) -> ToolResult:
        """Execute a tool."""
        result = await self.coordinator.get("tools")[name].execute(tool_input)
        assert isinstance(result, ToolResult)
        assert result.success or set(result.error or {}) == {"message", "code"}
        return result

    async def done(self, name: str, **tool_input: Any) -> dict[str, Any]:
        """Execute a tool that must succeed, and return its output."""
        result = await self.call(name, **tool_input)
        assert result.success, result.output
        assert isinstance(result.output, dict)
        return result.output

    async def refused(self, name: str, **tool_input: Any) -> tuple[str, str]:
        """Execute a tool that must fail, and return code and message."""
        result = await self.call(name, **tool_input)
        assert not result.success, result.output
        assert result.error is not None
        assert result.output == result.error["message"]
        return result.error["code"], result.error["message"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return an empty folder whose path has no links."""
    made = tmp_path.resolve() / "project"
    made.mkdir()
    return made


@pytest.fixture
def make_desk(project: Path) -> Callable[..., Awaitable[Desk]]:
    """Give `await make_desk(**config)`: the tools, mounted with that config."""

    async def make(**config: Any) -> Desk:
        desk = Desk(project)
        await mount(desk.coordinator, config)
        return desk

    return make


@pytest.fixture
async def desk(make_desk: Callable[..., Awaitable[Desk]]) -> Desk:
    """Return the tools with their default config."""
    return await make_desk()

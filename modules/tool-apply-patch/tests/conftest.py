"""The tool in a folder of its own, on a real coordinator whose events are kept."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import ToolResult
from amplifier_core.testing import MockCoordinator
from amplifier_module_tool_apply_patch import mount


class Desk:
    """The tool, what it emits, and what the session is asked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.coordinator: Any = MockCoordinator()
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.asked: list[tuple[str, str]] = []
        self.verdict = "allow"
        for event in ("artifact:write", "apply-patch:applied"):
            self.coordinator.hooks.register(event, self._hear, name=f"test-{event}")
        self.coordinator.register_policy("test", self._decide)
        self.coordinator.register_capability("session.working_dir", str(folder))

    async def _hear(self, event: str, data: dict[str, Any]) -> None:
        self.events.append((event, {key: data[key] for key in ("path", "bytes", "operation") if key in data}))

    def _decide(self, action: str, details: dict[str, Any]) -> str:
        self.asked.append((action, details["path"]))
        return self.verdict

    async def call(self, **tool_input: Any) -> ToolResult:
        """Execute the tool."""
        result = await self.coordinator.get("tools")["apply_patch"].execute(tool_input)
        assert isinstance(result, ToolResult)
        assert result.success or set(result.error or {}) == {"message", "code"}
        return result

    async def done(self, **tool_input: Any) -> str:
        """Execute the tool, which must succeed, and return its output."""
        result = await self.call(**tool_input)
        assert result.success, result.output
        assert isinstance(result.output, str)
        return result.output

    async def refused(self, **tool_input: Any) -> tuple[str, str]:
        """Execute the tool, which must fail, and return code and message."""
        result = await self.call(**tool_input)
        assert not result.success, result.output
        assert result.error is not None
        assert result.output == result.error["message"]
        return result.error["code"], result.error["message"]

    def tree(self) -> dict[str, bytes]:
        """Return all files of the folder."""
        found = (path for path in self.folder.rglob("*") if path.is_file())
        return {str(path.relative_to(self.folder)): path.read_bytes() for path in found}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return an empty folder whose path has no links."""
    made = tmp_path.resolve() / "project"
    made.mkdir()
    return made


@pytest.fixture
def make_desk(project: Path) -> Callable[..., Awaitable[Desk]]:
    """Give `await make_desk(**config)`: the tool, mounted with that config."""

    async def make(**config: Any) -> Desk:
        desk = Desk(project)
        await mount(desk.coordinator, config)
        return desk

    return make


@pytest.fixture
async def desk(make_desk: Callable[..., Awaitable[Desk]]) -> Desk:
    """Return the tool with its default config."""
    return await make_desk()

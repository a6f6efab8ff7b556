"""Tools in a session that allows or refuses, over real files; both engines."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import ToolResult
from amplifier_core.testing import MockCoordinator
from amplifier_module_tool_search import mount
from amplifier_module_tool_search.ripgrep import find_ripgrep

Call = Callable[..., Awaitable[ToolResult]]
Write = Callable[[Mapping[str, str | bytes]], None]
MakeTools = Callable[..., Awaitable[dict[str, Any]]]


def usable_ripgrep() -> str | None:
    """Return the ripgrep that a session elsewhere uses: one in its own project is none that it trusts."""
    elsewhere: MockCoordinator = MockCoordinator()
    elsewhere.register_capability("session.working_dir", tempfile.gettempdir())
    return find_ripgrep(elsewhere)


RIPGREP = usable_ripgrep()


@pytest.fixture
def ripgrep() -> str:
    """Return the path of ripgrep."""
    return RIPGREP or pytest.skip("ripgrep 14 is not installed")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return an empty folder; everything around it is outside."""
    path = tmp_path.resolve() / "project"
    path.mkdir()
    return path


@pytest.fixture
def write(project: Path) -> Write:
    """Give `write({path: content})`: real files below the project, with the folders they need."""

    def make(files: Mapping[str, str | bytes]) -> None:
        for name, content in files.items():
            path = os.path.join(os.fsencode(project), name.encode("utf-8", "surrogateescape"))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(content if isinstance(content, bytes) else content.encode("utf-8"))

    return make


@pytest.fixture
def coordinator(project: Path) -> MockCoordinator:
    """Return a coordinator whose session works in the project and allows everything."""
    made: MockCoordinator = MockCoordinator()
    made.register_capability("session.working_dir", str(project))
    made.register_policy("test", lambda action, details: "allow")
    return made


@pytest.fixture
def make_tools(coordinator: MockCoordinator) -> MakeTools:
    """Give `await make_tools(config)`: both tools by name."""

    async def make(config: dict[str, Any] | None = None) -> dict[str, Any]:
        await mount(coordinator, config)
        return {name: coordinator.get("tools", name) for name in ("grep", "glob")}

    return make


@pytest.fixture(params=["rg", "python"])
def engine(request: pytest.FixtureRequest) -> str:
    """Run the test with ripgrep, where it is installed, and with the engine of our own."""
    name: str = request.param
    if name == "rg" and RIPGREP is None:
        pytest.skip("ripgrep is not installed")
    return name


@pytest.fixture
def grep(make_tools: MakeTools, engine: str) -> Call:
    """Give `await grep(pattern, config=None, **input)`."""

    async def call(pattern: str, config: dict[str, Any] | None = None, **given: Any) -> ToolResult:
        tools = await make_tools({"engine": engine, **(config or {})})
        result: ToolResult = await tools["grep"].execute({"pattern": pattern, **given})
        return result

    return call


@pytest.fixture
def glob(make_tools: MakeTools, engine: str) -> Call:
    """Give `await glob(pattern, config=None, **input)`."""

    async def call(pattern: str, config: dict[str, Any] | None = None, **given: Any) -> ToolResult:
        tools = await make_tools({"engine": engine, **(config or {})})
        result: ToolResult = await tools["glob"].execute({"pattern": pattern, **given})
        return result

    return call

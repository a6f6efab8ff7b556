"""The module passes the tests of its kind, and mounts and ends cleanly whatever it is given."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.testing import MockCoordinator
from amplifier_core.validation.structural import ToolStructuralTests
from amplifier_module_tool_mcp import mount, on_session_ready

Session = Any
Odd = Callable[..., dict[str, Any]]


class TestStructure(ToolStructuralTests):
    """The validator has nothing to say against it."""


async def test_a_wrong_config_is_named() -> None:
    """A value that means nothing keeps the module from mounting, and the key is named."""
    with pytest.raises(ValueError, match="config key 'max_tools' must be a whole number"):
        await mount(MockCoordinator(), {"max_tools": "many"})
    with pytest.raises(ValueError, match="the bundle's config: server 'a': 'command' or 'url' is missing"):
        await mount(MockCoordinator(), {"servers": {"a": {}}})


async def test_the_users_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the word of an app, the user's folder is the one that the environment names."""
    monkeypatch.setenv("AMPLIFIER_HOME", str(tmp_path))
    (tmp_path / "mcp.json").write_text('{"mcpServers": {"mine": {"command": "x"}}}', encoding="utf-8")
    coordinator = MockCoordinator()
    cleanup = await mount(coordinator)
    assert set(coordinator.get_capability("mcp.servers").connections) == {"mine"}
    await cleanup()
    await cleanup()


async def test_ready_without_servers() -> None:
    """A session without servers is ready at once."""
    coordinator = MockCoordinator()
    await on_session_ready(coordinator)
    cleanup = await mount(coordinator, {})
    await on_session_ready(coordinator)
    assert coordinator.get_capability("mcp.servers") is None
    assert not coordinator.get("tools")
    await cleanup()


async def test_another_tool_of_the_same_name_stays(session: Session, odd: Odd) -> None:
    """What another module has mounted is not replaced by what a server calls its own."""
    taken = object()
    await session.coordinator.mount("tools", taken, name="mcp_odd_echo")
    await session.open({"odd": odd()})
    await session.told("connected")
    assert session.tools["mcp_odd_echo"] is taken
    assert "mcp_odd_crash" in session.tools

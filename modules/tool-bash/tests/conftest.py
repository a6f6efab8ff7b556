"""Tools as a session has them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.testing import MockCoordinator
from amplifier_kit.config import read_config
from amplifier_module_tool_bash import BashTool
from amplifier_module_tool_bash.config import BashConfig

MakeTool = Callable[..., BashTool]


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nobody be given up because the machine stood still for some seconds."""
    for name in ("KILL_WAIT", "_SUPERVISOR_SLACK"):
        monkeypatch.setattr(f"amplifier_kit.guard.processes.running_command.{name}", 30.0)
    monkeypatch.setattr("amplifier_kit.guard.sandbox.bubblewrap.TRIAL_SECONDS", 60.0)


@pytest.fixture
def coordinator(tmp_path: Path) -> Any:
    """Return the coordinator of a session that works in `project` and is kept in `session`."""
    made = MockCoordinator()
    (tmp_path / "project").mkdir()
    made.register_capability("session.working_dir", str(tmp_path / "project"))
    made.register_capability("session.dir", tmp_path / "session")
    return made


@pytest.fixture
async def make_tool(coordinator: Any) -> AsyncIterator[MakeTool]:
    """Give `make_tool(**config)`: the tool with that config; its jobs end with the test."""
    made: list[BashTool] = []

    def make(*, progress_every: float = 1000.0, **config: Any) -> BashTool:
        tool = BashTool(coordinator, read_config(BashConfig, config, module="tool-bash"), progress_every=progress_every)
        made.append(tool)
        return tool

    yield make
    for tool in made:
        await tool.close()


@pytest.fixture
def tool(make_tool: MakeTool) -> BashTool:
    """Return the tool as it is without a config, but patient."""
    return make_tool(timeout=60)

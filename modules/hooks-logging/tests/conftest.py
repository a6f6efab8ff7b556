"""Real sessions with small modules, and their logs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

LOOP = """
class Loop:
    async def execute(self, prompt, context, providers, tools, hooks, coordinator=None):
        await hooks.emit("prompt:submit", {"prompt": prompt})
        for event, data in coordinator.session_state.get("events", ()):
            await hooks.emit(event, data)
        await hooks.emit("prompt:complete", {"response_preview": "done", "length": 4})
        return "done"

async def mount(coordinator, config):
    await coordinator.mount("orchestrator", Loop())
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let no test write anywhere else than below its own folder."""
    folder = tmp_path / "home"
    monkeypatch.setenv("AMPLIFIER_HOME", str(folder))
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    return folder


@pytest.fixture
def plan(
    make_module: Callable[[str, str], Path], make_quiet_plan: Callable[..., dict[str, Any]]
) -> Callable[..., dict[str, Any]]:
    """Give `plan(config, **sections)`, a mount plan with this module in it."""
    make_module("loop-small", LOOP)

    def make(config: dict[str, Any] | None = None, **sections: Any) -> dict[str, Any]:
        hooks = [{"module": "hooks-logging", "config": config or {}}]
        return make_quiet_plan({"orchestrator": "loop-small"}, **{"hooks": hooks, **sections})

    return make

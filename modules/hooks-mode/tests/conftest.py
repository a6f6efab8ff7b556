"""Real sessions with modes, whose model follows a script."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import AmplifierSession
from amplifier_testing.loop.fakes import PlainTool

TOOLS = ("read_file", "write_file", "edit_file", "bash", "web_fetch", "todo", "mode", "deploy")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project folder, with the user's home beside it."""
    made = tmp_path / "project"
    made.mkdir()
    return made


@pytest.fixture
def write_mode(project: Path) -> Callable[..., Path]:
    """Give `write_mode(text, name="review", folder=None)`, which writes a mode file of the user."""

    def write(text: str, name: str = "review", folder: Path | None = None) -> Path:
        place = folder or project.parent / "home" / "modes"
        place.mkdir(parents=True, exist_ok=True)
        file = place / f"{name}.md"
        file.write_text(text, encoding="utf-8")
        return file

    return write


class ModeSession:
    """A session with modes, its tools, and the events it emitted."""

    def __init__(self, session: AmplifierSession) -> None:
        self.session = session
        self.coordinator: Any = session.coordinator
        self.tools: dict[str, PlainTool] = {}
        self.events: list[tuple[str, dict[str, Any]]] = []

    @property
    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = self.coordinator.session_state
        return state

    def emitted(self, event: str) -> list[dict[str, Any]]:
        """Return the payloads of an event, without what the kernel adds."""
        added = ("timestamp", "session_id", "parent_id")
        return [{k: v for k, v in data.items() if k not in added} for name, data in self.events if name == event]

    async def activate(self, name: str) -> None:
        from amplifier_kit.modes import activate

        await activate(self.coordinator, self.state["mode_discovery"].find(name))


@pytest.fixture
def make_session(scripted_session: Callable[..., AmplifierSession], project: Path) -> Callable[..., ModeSession]:
    """Give `make_session(*answers, config=None, is_trusted=None)`: a session where everything is allowed."""

    def make(
        *answers: Any,
        config: dict[str, Any] | None = None,
        is_trusted: bool | None = None,
        capabilities: dict[str, Any] | None = None,
        tools: tuple[dict[str, Any], ...] = (),
    ) -> ModeSession:
        mounted = [PlainTool(name) for name in TOOLS if not (tools and name == "mode")]
        session = scripted_session(
            *answers, hooks=[{"module": "hooks-mode", "config": config or {}}], mounted=mounted, tools=tools
        )
        made = ModeSession(session)
        made.tools = {tool.name: tool for tool in mounted}
        coordinator = made.coordinator
        coordinator.register_policy("test", lambda action, details: "allow")
        coordinator.register_capability("session.working_dir", str(project))
        coordinator.register_capability("amplifier.home", str(project.parent / "home"))
        if is_trusted is not None:
            coordinator.register_capability("project.is_trusted", lambda: is_trusted)
        for name, value in (capabilities or {}).items():
            coordinator.register_capability(name, value)
        coordinator.hooks.register("*", lambda event, data: made.events.append((event, data)))
        return made

    return make

"""Skills on disk, and the tool that finds them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.testing import MockCoordinator
from amplifier_module_tool_skills import mount

Write = Callable[..., Path]
Start = Callable[..., Any]


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty project beside a home without skills; nothing of this machine is found."""
    home = tmp_path / "home"
    folder = tmp_path / "a project"
    home.mkdir()
    folder.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in ("AMPLIFIER_SKILLS_DIR", "AMPLIFIER_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(folder)
    return folder


def write_skill(folder: Path, name: str, body: str = "Do it.", /, description: str | None = None, **keys: Any) -> Path:
    """Write `folder/name/SKILL.md` and return it; keys may be written with underscores."""
    file = folder / name / "SKILL.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    front = {"name": name, "description": f"About {name}." if description is None else description}
    front |= {key.replace("_", "-"): value for key, value in keys.items()}
    lines = [f"{key}: {value}" for key, value in front.items()]
    file.write_text("\n".join(["---", *lines, "---", "", body, ""]), encoding="utf-8")
    return file


@pytest.fixture
def skill() -> Write:
    """Give `skill(folder, name, body, **front_matter)`, which writes one."""
    return write_skill


@pytest.fixture
def coordinator() -> MockCoordinator:
    """Return a coordinator that keeps what it heard under the capability `heard`."""
    made: MockCoordinator = MockCoordinator()
    heard: list[tuple[str, dict[str, Any]]] = []
    dropped = ("timestamp", "session_id", "parent_id")

    def hear(event: str, data: dict[str, Any]) -> None:
        if not event.startswith("skill"):
            return
        heard.append((event, {key: value for key, value in data.items() if key not in dropped}))

    made.hooks.register("*", hear)
    made.register_capability("heard", heard)
    return made


@pytest.fixture
def start(coordinator: MockCoordinator) -> Start:
    """Give `await start(config)`, which mounts the module as a session does and returns the tool."""

    async def go(config: dict[str, Any] | None = None) -> Any:
        await mount(coordinator, config)
        await coordinator.hooks.emit("session:start", {})
        return coordinator.get("tools")["load_skill"]

    return go

"""A project with sessions, and a way to give commands of the group quickly."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from amplifier_app_cli.app import App
from amplifier_app_cli.commands.policy import policy
from amplifier_foundation.paths import Home
from amplifier_kit.log.writer import SessionLog


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """Return an empty home of the program."""
    path = tmp_path / "amplifier home"
    path.mkdir()
    monkeypatch.setenv("AMPLIFIER_HOME", str(path))
    return Home(path)


@pytest.fixture
def give(home: Home, project: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Return a function that gives a command of the group in the project; without a terminal."""
    monkeypatch.chdir(project)

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(
            policy, list(arguments), obj=App(), prog_name="amplifier policy", catch_exceptions=False
        )

    return run


@pytest.fixture
def wrote(home: Home, project: Path) -> Callable[..., Path]:
    """Return a function that writes the policy file of a scope and returns its path."""
    places = {
        "user": home.path / "policy.yaml",
        "project": project / ".amplifier/policy.yaml",
        "local": project / ".amplifier/policy.local.yaml",
    }

    def write(scope: str, text: str) -> Path:
        places[scope].parent.mkdir(exist_ok=True)
        places[scope].write_text(text, encoding="utf-8")
        return places[scope]

    return write


@pytest.fixture
def asked(home: Home, project: Path) -> Callable[..., None]:
    """Return a function that makes a session in which commands were asked for: granted, or denied with a `!` before."""

    def make(*commands: str, session_id: str = "one", working_dir: Path = project) -> None:
        folder = home.sessions(working_dir) / session_id
        with SessionLog(folder) as log:
            for command in commands:
                data: dict[str, Any] = {
                    "action": "process.exec",
                    "details": {"tool_name": "bash", "tool_input": {"command": command.lstrip("!")}},
                    "reason": "r",
                }
                log.write({"event": "approval:required", "data": {**data, "source": "project"}})
                answer = "denied" if command.startswith("!") else "granted"
                log.write({"event": f"approval:{answer}", "data": {**data, "source": "approval_system"}})
        metadata = {"session_id": session_id, "working_dir": str(working_dir), "created": "2026-01-01T00:00:00+00:00"}
        (folder / "metadata.json").write_text(json.dumps(metadata), encoding="utf-8")

    return make

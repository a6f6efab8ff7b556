"""`amplifier routing`: matrices are listed, chosen, shown and created."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from amplifier_app_cli.commands.routing import routing

Run = Callable[..., Result]


@pytest.fixture
def home(environment: dict[str, str]) -> Path:
    """Return the user's Amplifier folder."""
    return Path(environment["HOME"]) / ".amplifier"


@pytest.fixture
def run(project: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs `amplifier routing` in the project."""
    monkeypatch.chdir(project)
    monkeypatch.setenv("HOME", environment["HOME"])
    monkeypatch.delenv("AMPLIFIER_HOME", raising=False)
    return lambda *arguments: CliRunner().invoke(routing, list(arguments))


def _settings(home: Path) -> dict[str, object]:
    found: dict[str, object] = yaml.safe_load((home / "settings.yaml").read_text(encoding="utf-8"))
    return found


def test_use_writes_the_setting(run: Run, home: Path) -> None:
    """The chosen matrix is in the settings and marked in the list."""
    assert run("use", "economy").exit_code == 0
    assert _settings(home)["routing"] == {"matrix": "economy"}
    rows = {row["name"]: row["is_chosen"] for row in json.loads(run("list", "--json").stdout)}
    assert [name for name, is_chosen in rows.items() if is_chosen] == ["economy"]
    assert set(rows) >= {"balanced", "quality", "anthropic", "openai", "gemini", "copilot", "ollama"}


def test_an_unknown_matrix_is_refused(run: Run, home: Path) -> None:
    """The message lists what there is, and nothing is written."""
    result = run("use", "gone")
    assert result.exit_code != 0
    assert "Matrix 'gone' not found. Available: anthropic, balanced, copilot" in result.stderr
    assert not (home / "settings.yaml").exists()


def test_show_lists_roles_and_models(run: Run) -> None:
    """Without a name the chosen matrix is shown, else the balanced one."""
    shown = json.loads(run("show", "--json").stdout)
    assert shown["name"] == "balanced"
    assert shown["roles"]["fast"]["candidates"][0] == {"provider": "anthropic", "model": "claude-haiku-*"}
    run("use", "ollama")
    assert "qwen*coder*" in run("show").stdout


def test_create_copies_a_matrix_to_edit(run: Run, home: Path) -> None:
    """The copy is in the home under its own name, is found by it, and is never written over."""
    assert run("create", "team", "--like", "economy").exit_code == 0
    made = yaml.safe_load((home / "routing" / "team.yaml").read_text(encoding="utf-8"))
    assert made["name"] == "team"
    assert run("use", "team").exit_code == 0
    again = run("create", "team")
    assert again.exit_code != 0
    assert "is there already" in again.stderr
    assert run("create", "../x").exit_code == 2


def test_manage_needs_somebody_to_ask(run: Run) -> None:
    """Without a terminal, the command that does it is named."""
    result = run("manage")
    assert result.exit_code == 2
    assert "amplifier routing use NAME" in result.stderr

"""Safe mode: a session with nothing of the user's in it, to tell whose fault a fault is."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Amplifier = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def broken(project: Path, environment: dict[str, str]) -> None:
    """Let everything that can be broken be broken: settings, a module in the project, an agent, a server."""
    home = Path(environment["HOME"]) / ".amplifier"
    home.mkdir(mode=0o700)
    (home / "settings.yaml").write_text("bundle: [no, mapping\n", encoding="utf-8")
    loop = project / ".amplifier" / "modules" / "loop-basic" / "amplifier_module_loop_basic"
    loop.mkdir(parents=True)
    (loop / "__init__.py").write_text("raise RuntimeError('broken on purpose')\n", encoding="utf-8")
    (project / ".amplifier" / "agents").mkdir()
    (project / ".amplifier" / "agents" / "bad.md").write_text("---\n: :\n---\n", encoding="utf-8")
    (project / ".mcp.json").write_text("{", encoding="utf-8")


@pytest.mark.parametrize("arguments", [("--safe-mode", "run", "hi"), ("run", "--safe-mode", "-v", "hi")])
def test_answers_whatever_is_broken(amplifier: Amplifier, broken: None, arguments: tuple[str, ...]) -> None:
    """With broken settings a run fails; in safe mode it answers, and says what it goes without."""
    assert amplifier("run", "hi").returncode == 1
    result = amplifier(*arguments)
    assert (result.returncode, result.stdout) == (
        0,
        "I understand. This is a scripted answer: no model was asked.\n",
    ), result.stderr
    assert "note: safe mode: the minimal bundle, without your settings" in result.stderr


def test_has_no_tools_and_nothing_of_the_project(amplifier: Amplifier, broken: None, tmp_path: Path) -> None:
    """The session has no tools, agents or hooks but those of the log, and its modules are the installed ones."""
    result = amplifier("run", "--safe-mode", "--output-format", "json", "hi")
    session = json.loads(result.stdout)["session_id"]
    [record] = tmp_path.glob(f"home/.amplifier/projects/*/sessions/{session}/record.json")
    plan = json.loads(record.read_text(encoding="utf-8"))["plan"]
    assert not plan.get("tools")
    assert not plan.get("agents")
    assert {entry["module"] for entry in plan["hooks"]} == {"hooks-redaction", "hooks-logging"}


def test_keys_count(amplifier: Amplifier, broken: None) -> None:
    """The provider is chosen as ever, so that a real model can be tried."""
    result = amplifier("run", "--safe-mode", "-p", "anthropic", "hi")
    assert result.returncode == 7
    assert "ANTHROPIC_API_KEY is not set" in result.stderr


@pytest.mark.parametrize("more", [("--bundle", "minimal"), ("--resume", "x")])
def test_has_a_session_of_its_own(amplifier: Amplifier, more: tuple[str, ...]) -> None:
    """Another bundle, or a session that goes on, is a contradiction."""
    result = amplifier("run", "--safe-mode", *more, "hi")
    assert (result.returncode, result.stdout) == (2, "")
    assert "--safe-mode uses its own bundle and a new session" in result.stderr

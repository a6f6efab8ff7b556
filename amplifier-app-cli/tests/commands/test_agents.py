"""`amplifier agents`: the roster of a bundle."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from amplifier_app_cli.commands.agents import agents

Run = Callable[..., Result]

_AGENT = "---\nmeta:\n  name: librarian\n  description: Finds a book.\nmodel_role: fast\n---\n\nYou find books.\n"


@pytest.fixture
def run(project: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs `amplifier agents` in the project."""
    monkeypatch.chdir(project)
    monkeypatch.setenv("HOME", environment["HOME"])
    monkeypatch.delenv("AMPLIFIER_HOME", raising=False)
    return lambda *arguments: CliRunner().invoke(agents, list(arguments))


@pytest.fixture
def desk(project: Path) -> Path:
    """Return a bundle with one agent in a file and one in the bundle itself."""
    (project / "agents").mkdir()
    (project / "agents" / "librarian.md").write_text(_AGENT, encoding="utf-8")
    path = project / "bundle.yaml"
    path.write_text(
        "bundle: {name: desk}\nincludes: [minimal]\nagents:\n  include: [librarian]\n"
        '  runner:\n    description: "Runs \\e[31merrands."\n    instruction: Run.\n'
        "    tools: [{module: tool-x, config: {token: hunter22}}]\n",
        encoding="utf-8",
    )
    return path


def test_roster_of_the_bundle_that_runs(run: Run) -> None:
    """The shipped default has six agents, listed by the names that callers use."""
    rows = json.loads(run("list", "--format", "json").stdout)
    agents = ("explorer", "builder", "reviewer", "researcher", "session-analyst", "zen-architect")
    assert [row["name"] for row in rows] == [f"amplifier:{name}" for name in agents]
    assert all(row["description"] and row["where"] for row in rows)


def test_roster_of_another_bundle(run: Run, desk: Path) -> None:
    """-b names the bundle; agents of files and inline ones are listed with the line that names them."""
    rows = {row["name"]: row for row in json.loads(run("list", "-b", ".", "--format", "json").stdout)}
    assert rows["librarian"]["description"] == "Finds a book."
    assert rows["librarian"]["where"] == f"{desk}:4"
    assert rows["runner"]["where"] == f"{desk}:5"


def test_no_agents_says_what_to_do(run: Run) -> None:
    """A bundle without agents gives an empty list, and a hint."""
    result = run("list", "--bundle", "minimal")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "behaviors/agents" in result.stderr


def test_show_prints_what_it_is_told(run: Run, desk: Path) -> None:
    """The instruction is shown, and the whole definition as JSON."""
    assert run("show", "librarian", "-b", ".").stdout.endswith("You find books.\n")
    shown = json.loads(run("show", "librarian", "-b", ".", "--format", "json").stdout)
    assert shown["definition"]["instruction"] == "You find books."
    assert shown["model_role"] == "fast"


def test_show_hides_secrets_and_escapes(run: Run, desk: Path) -> None:
    """Secrets in an agent's modules are masked, and nothing steers the terminal."""
    for form in ("text", "json"):
        result = run("show", "runner", "-b", ".", "--format", form)
        assert result.exit_code == 0, result.stderr
        assert "hunter22" not in result.output
        assert "\x1b" not in result.output
    assert "\x1b" not in run("list", "-b", ".").output


def test_unknown_agent_gets_a_hint(run: Run) -> None:
    """A slip in the name is an error with the nearest name."""
    result = run("show", "amplifier:explorr")
    assert result.exit_code == 2
    assert "did you mean 'amplifier:explorer'?" in result.stderr


def test_short_name_is_enough(run: Run) -> None:
    """An agent is found by the end of its name, as a model finds it, and a slip in that gets a hint."""
    short, whole = (run("show", name, "--format", "json").stdout for name in ("explorer", "amplifier:explorer"))
    assert json.loads(short) == json.loads(whole)
    result = run("show", "explorr")
    assert result.exit_code == 2
    assert "did you mean 'explorer'?" in result.stderr


def test_names_are_whole_on_a_narrow_terminal(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has to be typed again is not cut: the description gives way."""
    monkeypatch.setattr("amplifier_app_cli.ui.layout.terminal_width", lambda: 60)
    lines = run("list").stdout.splitlines()
    assert all(len(line) <= 60 for line in lines)
    assert any(line.startswith("amplifier:session-analyst ") for line in lines)


def test_dirs_lists_the_places(run: Run, project: Path) -> None:
    """The folders of project, user and namespaces are listed with what is in them."""
    folder = project / ".amplifier" / "agents"
    folder.mkdir(parents=True)
    (folder / "clerk.md").write_text(_AGENT, encoding="utf-8")
    rows = {row["name"]: row for row in json.loads(run("dirs", "--format", "json").stdout)}
    assert rows["project"] == {"name": "project", "folder": str(folder), "exists": True, "agents": ["clerk"]}
    assert rows["user"]["exists"] is False
    assert "explorer" in rows["amplifier"]["agents"]

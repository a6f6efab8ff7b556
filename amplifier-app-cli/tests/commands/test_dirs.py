"""`amplifier allowed-dirs` and `denied-dirs`: lists of folders in settings."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from amplifier_app_cli.app import App
from amplifier_app_cli.commands.dirs import allowed_dirs, denied_dirs
from amplifier_foundation.paths import Home
from amplifier_foundation.settings.plan import apply_settings
from amplifier_foundation.settings.settings import Settings

Run = Callable[..., Result]
Amplifier = Callable[..., subprocess.CompletedProcess[str]]
_GROUPS = {"allowed": allowed_dirs, "denied": denied_dirs}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty home of the program."""
    path = tmp_path / "home"
    monkeypatch.setenv("AMPLIFIER_HOME", str(path))
    monkeypatch.setenv("HOME", str(tmp_path))
    return path


@pytest.fixture
def run(home: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs a command of one of the groups in the project."""
    monkeypatch.chdir(project)

    def invoke(word: str, *arguments: str) -> Result:
        return CliRunner().invoke(_GROUPS[word], list(arguments), obj=App(), catch_exceptions=False)

    return invoke


def _paths(result: Result) -> list[str]:
    return [item["path"] for item in json.loads(result.stdout)]


@pytest.mark.parametrize("word", ["allowed", "denied"])
def test_add_list_remove(run: Run, tmp_path: Path, word: str) -> None:
    """A folder that is added is listed by its full path, once, and gone after it is removed."""
    for given in ("~/notes", str(tmp_path / "notes")):
        assert run(word, "add", given).exit_code == 0
    assert _paths(run(word, "list", "--format", "json")) == [str(tmp_path / "notes")]
    assert str(tmp_path / "notes") in run(word, "list").stdout
    assert run(word, "remove", "../notes").exit_code == 0
    assert json.loads(run(word, "list", "--format", "json").stdout) == []


def test_the_file_tool_gets_the_lists(run: Run, home: Path, project: Path, tmp_path: Path) -> None:
    """Lists of all scopes reach the tool where a bundle has it, and add it to no bundle that has it not."""
    run("allowed", "add", "~/notes")
    run("allowed", "add", "./build", "--project")
    run("denied", "add", "secrets", "--local")
    data = Settings.load(Home(home), project).data
    (tool,) = apply_settings({"tools": [{"module": "tool-filesystem"}]}, data)["tools"]
    assert tool["config"] == {
        "allowed_write_paths": [str(tmp_path / "notes"), "./build", "."],
        "denied_write_paths": [str(project / "secrets")],
    }
    assert apply_settings({}, data).get("tools") in (None, [])


def test_runs_go_on_working(amplifier: Amplifier) -> None:
    """A session without the file tool runs as before after a folder was allowed."""
    assert amplifier("allowed-dirs", "add", "~/notes").returncode == 0
    assert amplifier("run", "hello").returncode == 0


def test_shared_files_name_no_machine(run: Run, project: Path) -> None:
    """In a project's own settings a folder of the project is named relative to it."""
    run("allowed", "add", str(project / "build"), "--project")
    text = (project / ".amplifier/settings.yaml").read_text()
    assert "./build" in text
    assert str(project) not in text
    assert _paths(run("allowed", "list", "--format", "json")) == [str(project / "build")]
    assert run("allowed", "remove", "build", "--project").exit_code == 0


def test_entries_of_older_settings_are_found(run: Run, home: Path, tmp_path: Path) -> None:
    """Folders under `modules.tools`, as other programs write them, are listed and can be removed."""
    home.mkdir()
    (home / "settings.yaml").write_text(
        "modules:\n  tools:\n    - module: tool-filesystem\n"
        f"      config:\n        allowed_write_paths: [{tmp_path / 'old'}, {tmp_path / 'kept'}]\n"
    )
    assert _paths(run("allowed", "list", "--format", "json")) == [str(tmp_path / "old"), str(tmp_path / "kept")]
    assert run("allowed", "remove", str(tmp_path / "old")).exit_code == 0
    assert _paths(run("allowed", "list", "--format", "json")) == [str(tmp_path / "kept")]


def test_remove_says_where_it_is(run: Run) -> None:
    """A folder of another scope is not removed, and the error says which scope has it; an unknown one gets a hint."""
    run("denied", "add", "secrets", "--project")
    other = run("denied", "remove", "secrets")
    assert other.exit_code == 2
    assert "--scope project" in other.stderr
    unknown = run("denied", "remove", "secretz", "--project")
    assert unknown.exit_code == 2
    assert "secrets" in unknown.stderr


def test_folder_of_an_unknown_user(run: Run) -> None:
    """A `~` that leads nowhere is an error, not a folder of that name."""
    result = run("allowed", "add", "~nobody-of-that-name/x")
    assert result.exit_code == 1
    assert "is not a path" in result.stderr


def test_links_are_followed(run: Run, project: Path, tmp_path: Path) -> None:
    """A folder that is reached through a link is the folder it leads to."""
    (tmp_path / "real").mkdir()
    (project / "link").symlink_to(tmp_path / "real")
    run("allowed", "add", "link")
    assert _paths(run("allowed", "list", "--format", "json")) == [str(tmp_path / "real")]

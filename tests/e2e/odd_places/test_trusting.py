"""What a project brings or names runs when its user trusts it, and not a moment earlier."""

import json
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

Write = Callable[[Path, Mapping[str, str]], None]
Tool = Callable[..., dict[str, str]]

ENTRY = "tools:\n  - {module: tool-greet"
GO = ("run", "--bundle", "bundle.yaml", "go")


def _check_refused(project: Any, done: subprocess.CompletedProcess[str], *named: str) -> None:
    """The run ended with code 6 before anything of the module ran, and says what, where and how to allow it."""
    assert (done.returncode, done.stdout) == (6, ""), done.stderr
    for word in (*named, "tool-greet", "amplifier trust", "--trust"):
        assert word in done.stderr
    assert "Traceback" not in done.stderr
    assert not (project.folder / "ran").exists()
    assert not (project.home / "cache").exists()
    assert project.logs() == []


def _check_done(done: subprocess.CompletedProcess[str]) -> None:
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr


@pytest.fixture
def module(project: Any, tool: Tool) -> dict[str, str]:
    """Return the files of a module that leaves a trace when it is imported."""
    files = tool()
    [code] = [name for name in files if name.endswith("__init__.py")]
    files[code] = f"open({str(project.folder / 'ran')!r}, 'w').close()\n{files[code]}"
    project.script([{"text": "Done.", "expect": {"tools": ["greet_hello"]}}])
    return files


@pytest.mark.parametrize("place", ["modules/tool-greet", "mödule ✓/tool greet"])
def test_a_module_in_the_project(project: Any, module: dict[str, str], write_files: Write, place: str) -> None:
    """A bundle given by the user does not vouch for code that lies in the project; --trust does, for one run."""
    write_files(project.folder / place, module)
    bundle = project.folder / "bundle.yaml"
    bundle.write_text(f"{bundle.read_text()}{ENTRY}, source: './{place}'}}\n", encoding="utf-8")
    _check_refused(project, project.run(*GO), str(project.folder / place), f"{bundle}:11")
    _check_done(project.run("run", "--trust", "--bundle", "bundle.yaml", "go"))
    assert (project.folder / "ran").exists()
    assert project.run(*GO).returncode == 6, "once is not for ever"


def test_a_module_put_in_place_by_the_project(project: Any, module: dict[str, str], write_files: Write) -> None:
    """A folder in the project's .amplifier/modules takes the place of a module when the project is trusted."""
    placed = project.folder / ".amplifier" / "modules" / "tool-greet"
    write_files(placed, module)
    bundle = project.folder / "bundle.yaml"
    bundle.write_text(f"{bundle.read_text()}{ENTRY}}}\n", encoding="utf-8")
    _check_refused(project, project.run(*GO), str(placed))
    _check_done(project.run("run", "--trust", "--bundle", "bundle.yaml", "go"))
    assert (project.folder / "ran").exists()


@pytest.mark.parametrize("name", ["settings.yaml", "settings.local.yaml"])
def test_a_source_that_the_projects_settings_name(
    project: Any, repository: Any, write_files: Write, tmp_path: Path, name: str
) -> None:
    """A source that a project's settings name is not fetched before the project is trusted."""
    settings = f"bundle: {{active: mine}}\nsources:\n  modules:\n    tool-greet: {json.dumps(repository.uri)}\n"
    write_files(project.folder / ".amplifier", {name: settings})
    project.script([{"text": "Done.", "expect": {"tools": ["greet_hello"]}}])
    text = (project.folder / "bundle.yaml").read_text(encoding="utf-8")
    write_files(project.home / "bundles", {"mine.yaml": f"{text}{ENTRY}}}\n"})
    (project.folder / "scenario.yaml").rename(project.home / "bundles" / "scenario.yaml")
    done = project.run("run", "go")
    _check_refused(project, done, repository.uri, f"{project.folder / '.amplifier' / name}:4")
    _check_done(project.run("run", "--trust", "go"))
    assert (project.home / "cache").exists(), "now it was fetched"


def test_a_trusted_project_that_changes(project: Any, module: dict[str, str], write_files: Write) -> None:
    """Trust lasts until a file that decides what runs changes; the message names that file."""
    write_files(project.folder / "modules" / "tool-greet", module)
    bundle = project.folder / "bundle.yaml"
    bundle.write_text(f"{bundle.read_text()}{ENTRY}, source: ./modules/tool-greet}}\n", encoding="utf-8")
    assert project.run("trust", "--yes").returncode == 0
    _check_done(project.run(*GO))
    write_files(project.folder / ".amplifier", {"settings.yaml": "\ufeff# nothing\r\n"})
    done = project.run(*GO)
    assert (done.returncode, done.stdout) == (6, ""), done.stderr
    assert "the project was trusted, but .amplifier/settings.yaml changed since" in done.stderr


def test_a_record_of_trust_that_cannot_be_read(project: Any, module: dict[str, str], write_files: Write) -> None:
    """With a damaged record nothing is trusted, and the message says why."""
    write_files(project.folder / "modules" / "tool-greet", module)
    bundle = project.folder / "bundle.yaml"
    bundle.write_text(f"{bundle.read_text()}{ENTRY}, source: ./modules/tool-greet}}\n", encoding="utf-8")
    record = project.home / "trust.json"
    write_files(project.home, {record.name: '{"version": 1,\n"folders": '})
    _check_refused(project, project.run(*GO), f"{record}:2: malformed")
    assert record.read_text(encoding="utf-8") == '{"version": 1,\n"folders": ', "it is left to whoever can mend it"

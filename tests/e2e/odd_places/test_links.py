"""Projects, homes and sessions that are reached through links are the same ones."""

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

Write = Callable[[Path, Mapping[str, str]], None]
Tool = Callable[..., dict[str, str]]

GO = ("run", "--bundle", "bundle.yaml", "go")


def _check_done(done: subprocess.CompletedProcess[str]) -> None:
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    assert "Traceback" not in done.stderr


def _through(project: Any, link: Path) -> Any:
    """Return the same project entered through a link, as a shell would."""
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(project.folder, target_is_directory=True)
    return replace(
        project, folder=link, environment={**project.environment, "AMPLIFIER_HOME": str(project.home), "PWD": str(link)}
    )


def test_sessions_of_a_linked_project(project: Any, tmp_path: Path) -> None:
    """A project has the same sessions through a link, which are found and go on either way."""
    project.script([{"text": "Done."}])
    linked = _through(project, tmp_path / "elsewhere" / "link")
    _check_done(linked.run(*GO))
    [log] = project.logs()
    assert json.loads(log.with_name("metadata.json").read_bytes())["working_dir"] == str(project.folder)
    for one in (project, linked):
        _check_done(one.run("run", "--resume", log.parent.name[:8], "go"))
        assert one.run("logs").returncode == 0
    assert project.logs() == [log]
    _check_done(project.run(*GO))
    assert len({path.parent.parent for path in project.logs()}) == 1


def test_rules_of_a_linked_project(project: Any, tmp_path: Path, write_files: Write) -> None:
    """The rules are those of the folders where the project really lies, not of those where the link does."""
    project.script([{"text": "Done.", "expect": {"system_contains": ["Of the project.", "Of the repository."]}}])
    write_files(project.folder, {"AGENTS.md": "Of the project."})
    write_files(tmp_path, {"AGENTS.md": "Of the repository.", ".git/HEAD": ""})
    linked = _through(project, tmp_path / "other" / "link")
    write_files(tmp_path / "other", {"AGENTS.md": "Of nobody.", ".git/HEAD": ""})
    _check_done(linked.run(*GO))
    assert b"Of nobody." not in b"".join(path.read_bytes() for path in project.home.rglob("*") if path.is_file())


@pytest.mark.parametrize("trusted_through", ["link", "itself"])
def test_trust_of_a_linked_project(
    project: Any, tmp_path: Path, tool: Tool, write_files: Write, trusted_through: str
) -> None:
    """A project is trusted or not, whichever way it was trusted or is entered."""
    project.script([{"text": "Done.", "expect": {"tools": ["greet_hello"]}}])
    write_files(project.folder / "modules" / "tool-greet", tool())
    with (project.folder / "bundle.yaml").open("a", encoding="utf-8") as file:
        file.write("tools:\n  - {module: tool-greet, source: ./modules/tool-greet}\n")
    linked = _through(project, tmp_path / "elsewhere" / "link")
    assert [one.run(*GO).returncode for one in (project, linked)] == [6, 6]
    trusting = linked if trusted_through == "link" else project
    assert trusting.run("trust", "--yes", "--bundle", "bundle.yaml").returncode == 0
    for one in (project, linked):
        _check_done(one.run(*GO))


def test_a_linked_module_needs_trust(project: Any, tmp_path: Path, tool: Tool, write_files: Write) -> None:
    """A link in the project to code outside of it is named by the project, and needs its trust."""
    project.script([{"text": "Done.", "expect": {"tools": ["greet_hello"]}}], modules=("tool-greet",))
    write_files(tmp_path / "outside", tool())
    placed = project.folder / ".amplifier" / "modules" / "tool-greet"
    placed.parent.mkdir(parents=True)
    placed.symlink_to(tmp_path / "outside")
    done = project.run(*GO)
    assert (done.returncode, done.stdout) == (6, ""), done.stderr
    assert str(placed) in done.stderr
    _check_done(project.run("run", "--trust", "--bundle", "bundle.yaml", "go"))


def test_a_linked_bundle(project: Any, tmp_path: Path, write_files: Write) -> None:
    """A bundle reached through a link finds its files where it really lies, or where the link does."""
    project.script([{"text": "Done."}])
    real = tmp_path / "real" / "bundle.yaml"
    real.parent.mkdir()
    (project.folder / "bundle.yaml").rename(real)
    (project.folder / "scenario.yaml").rename(real.with_name("scenario.yaml"))
    (project.folder / "bundle.yaml").symlink_to(real)
    (project.folder / "folder").symlink_to(real.parent, target_is_directory=True)
    _check_done(project.run("run", "--bundle", "folder/bundle.yaml", "go"))
    _check_done(project.run("run", "--bundle", "./folder", "go"))
    assert len(project.logs()) == 2


def test_a_session_folder_that_is_a_link(project: Any, tmp_path: Path) -> None:
    """A session that was moved to another disk and linked goes on there, and is still one session."""
    project.script([{"text": "Done."}])
    _check_done(project.go())
    [log] = project.logs()
    folder, moved = log.parent, tmp_path / "other disk" / "session"
    moved.parent.mkdir()
    folder.rename(moved)
    folder.symlink_to(moved, target_is_directory=True)
    done = project.run("run", "--resume", folder.name, "go")
    _check_done(done)
    assert "annot write" not in done.stderr
    assert folder.is_symlink()
    assert (moved / "transcript.jsonl").read_bytes().count(b"Done.") == 2
    assert project.run("logs").returncode == 0
    assert project.logs() == [log]


@pytest.mark.parametrize("part", ["", "projects", "cache"])
def test_a_home_of_links(project: Any, tmp_path: Path, part: str) -> None:
    """The home and its parts may be links to other disks."""
    project.script([{"text": "Done."}])
    target, link = tmp_path / "other disk", project.home / part
    target.mkdir()
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(target, target_is_directory=True)
    done = project.go()
    _check_done(done)
    assert "annot write" not in done.stderr
    assert len(project.logs()) == 1
    assert link.is_symlink()


def test_a_home_that_is_a_link_to_nothing(project: Any) -> None:
    """A link that leads nowhere is no place to keep anything: it is told once, and the answer is there."""
    project.script([{"text": "Done."}])
    project.home.symlink_to("/nonexistent/disk")
    done = project.go()
    _check_done(done)
    assert done.stderr.count("lines are lost until this is fixed") == 1
    assert done.stderr.count("Cannot write") == 1, done.stderr


@pytest.mark.parametrize("name", ["bundle.yaml", ".amplifier/settings.yaml", "AGENTS.md"])
def test_a_link_to_itself(project: Any, name: str) -> None:
    """A link that leads to itself is named when its file is needed, and costs nothing when it is not."""
    project.script([{"text": "Done."}])
    path = project.folder / name
    path.unlink(missing_ok=True)
    path.parent.mkdir(exist_ok=True)
    os.symlink(path.name, path)
    done = project.go()
    if name == "AGENTS.md":
        _check_done(done)
        return
    assert (done.returncode, done.stdout) == (2 if name == "bundle.yaml" else 1, ""), done.stderr
    assert str(path) in done.stderr
    assert "Traceback" not in done.stderr

"""No module writes a control file of the project, by whatever path its config names it."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplifier_core.testing import MockCoordinator
from amplifier_kit.guard.control_files import IN_GIT, IN_PROJECT, is_control_file, refuse_control_file


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project that looks like a repository."""
    folder = tmp_path / "project"
    for name in (".git/objects", ".git/hooks", ".amplifier", "docs", "bare/objects"):
        (folder / name).mkdir(parents=True)
    for name in (".git/HEAD", ".git/config", "bare/HEAD"):
        (folder / name).touch()
    return folder


def test_every_row_of_the_table_is_refused(project: Path) -> None:
    """The table decides, whatever a row is for."""
    rows = [row.pattern.replace("**/", "a/").replace("**", "x").replace("*", "y") for row in IN_PROJECT]
    rows += [f".git/{row.pattern.replace('**', 'x')}" for row in IN_GIT]
    assert [row for row in rows if not is_control_file(project / row, project)] == []


@pytest.mark.parametrize(
    "path",
    [
        ".GIT/config", ".git/index", "docs/../.git/config", "docs/.git/hooks/x", "docs/.amplifier/settings.yaml",
        ".amplifier/policy.local.yaml", ".Mcp.json", "bare/config", "link", "folder/config",
    ],
)  # fmt: skip
def test_other_ways_to_one_are_refused(project: Path, path: str) -> None:
    """Upper case, links, folders that may be projects themselves and bare repositories change nothing."""
    (project / "link").symlink_to(".amplifier/settings.yaml")
    (project / "folder").symlink_to(".git")
    assert is_control_file(project / path, project)


@pytest.mark.parametrize(
    "path", ["t.jsonl", ".amplifier/log/t.jsonl", "docs/bundle.yaml", ".github/x", "docs/t.git/x", "../elsewhere"]
)
def test_other_files_are_not(project: Path, path: str) -> None:
    """Transcripts and logs have their places in a project."""
    assert not is_control_file(project / path, project)


def test_what_the_session_was_made_of_is_refused(project: Path) -> None:
    """The capability `session.control_files` counts, and the error names the file."""
    coordinator = MockCoordinator()
    coordinator.register_capability("session.working_dir", str(project))
    refuse_control_file(project / "docs" / "x", coordinator)
    coordinator.register_capability("session.control_files", (str(project / "docs"),))
    with pytest.raises(PermissionError, match="docs/x"):
        refuse_control_file(project / "docs" / "x", coordinator)

"""AGENTS.md and CLAUDE.md: which of them hold in a project."""

import os
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.prompt.instructions import find_instructions, repository_root


def test_the_nearest_comes_first_and_the_users_last(places: Any, write: Any) -> None:
    """From the project up to its repository, then the user's own."""
    (places.project / ".git").mkdir()
    top, middle, near = write("AGENTS.md", "top"), write("a/AGENTS.md", "middle"), write("a/b/AGENTS.md", "near")
    own = places.home.path / "AGENTS.md"
    own.write_text("own", encoding="utf-8")
    (places.project.parent / "AGENTS.md").write_text("above the repository", encoding="utf-8")
    assert find_instructions(places.project / "a" / "b", places.home) == [near, middle, top, own]
    assert repository_root(places.project / "a" / "b") == places.project


def test_claude_md_stands_in_folder_by_folder(places: Any, write: Any) -> None:
    """Where there is no AGENTS.md, CLAUDE.md is taken; where both are, only AGENTS.md."""
    (places.project / ".git").write_text("gitdir: elsewhere", encoding="utf-8")  # as in a worktree
    top = write("CLAUDE.md", "top")
    near = write("sub/AGENTS.md", "near")
    write("sub/CLAUDE.md", "not this")
    assert find_instructions(places.project / "sub", places.home) == [near, top]


def test_other_places_are_not_looked_at(places: Any, write: Any) -> None:
    """A folder .agents, a folder of the name, and other names give nothing; the home has no CLAUDE.md."""
    write(".agents/AGENTS.md", "no")
    write("AGENTS.md/x", "a folder")
    write("agents.txt", "no")
    (places.home.path / "CLAUDE.md").write_text("no", encoding="utf-8")
    assert find_instructions(places.project, places.home) == []


def test_without_a_repository_only_the_project_counts(places: Any, write: Any) -> None:
    """What lies above is somebody else's."""
    write("AGENTS.md", "above")
    near = write("sub/AGENTS.md", "near")
    assert find_instructions(places.project / "sub", places.home) == [near]


def test_a_linked_project_is_the_project(places: Any, write: Any, tmp_path: Path) -> None:
    """A link to a folder of a repository has the instructions of that repository, not of where the link lies."""
    (places.project / ".git").mkdir()
    top, near = write("AGENTS.md", "top"), write("sub/AGENTS.md", "near")
    (tmp_path / "AGENTS.md").write_text("beside the link", encoding="utf-8")
    (tmp_path / "link").symlink_to(places.project / "sub")
    assert find_instructions(tmp_path / "link", places.home) == [near, top]


def test_a_project_that_is_the_home_has_its_file_once(places: Any) -> None:
    """The same file is not told twice."""
    own = places.home.path / "AGENTS.md"
    own.write_text("own", encoding="utf-8")
    assert find_instructions(places.home.path, places.home) == [own]


def test_a_project_that_is_gone_is_no_crash(places: Any) -> None:
    """Without the folder there are no instructions of it."""
    assert find_instructions(places.project / "gone", places.home) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others")
def test_the_repository_of_a_stranger_is_not_believed_in(places: Any, write: Any) -> None:
    """Who plants a .git and an AGENTS.md in a folder above, such as a shared one, does not get to instruct."""
    (places.project / ".git").mkdir()
    write("AGENTS.md", "obey")
    near = write("sub/AGENTS.md", "near")
    os.chown(places.project / ".git", 12345, -1)
    assert find_instructions(places.project / "sub", places.home) == [near]
    os.chown(places.project / "sub", 12345, -1)
    assert find_instructions(places.project / "sub", places.home) == [near, places.project / "AGENTS.md"]

"""Where things are."""

import os
from pathlib import Path

import pytest

from amplifier_foundation.paths import (
    NoHomeError,
    amplifier_home,
    find_sessions,
    newest_session,
    project_slug,
    sessions_dir,
)


def test_home_is_moved_as_a_whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """AMPLIFIER_HOME is the home when it is set, ~/.amplifier when it is not."""
    monkeypatch.setenv("AMPLIFIER_HOME", str(tmp_path / "elsewhere"))
    assert amplifier_home() == tmp_path / "elsewhere"
    monkeypatch.delenv("AMPLIFIER_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert amplifier_home() == tmp_path / ".amplifier"


def test_no_home_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any home the error names the two variables that would give one."""

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("AMPLIFIER_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(NoHomeError, match="set HOME or AMPLIFIER_HOME"):
        amplifier_home()


def test_slug_is_the_resolved_path_with_dashes(tmp_path: Path) -> None:
    """A project reached through a link has the slug of the folder itself."""
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "link").symlink_to(real)
    assert project_slug(tmp_path / "link") == str(real.resolve()).replace("/", "-")


def test_newest_session_is_the_one_written_last(tmp_path: Path) -> None:
    """The newest session is found by its log, and there is none in an empty project."""
    project = tmp_path / "project"
    project.mkdir()
    assert newest_session(tmp_path, project) is None
    for index, name in enumerate(("one", "two", "three")):
        folder = sessions_dir(tmp_path, project) / name
        folder.mkdir(parents=True)
        (folder / "events.jsonl").write_text("{}\n")
        os.utime(folder / "events.jsonl", ns=(0, 1_000_000_000 * (10 - index)))
    newest = newest_session(tmp_path, project)
    assert newest is not None
    assert newest.name == "one"


def test_sessions_are_found_by_the_beginning_of_their_id(tmp_path: Path) -> None:
    """The project's own come first, a full id is never ambiguous, and what is no id finds nothing."""
    here, there = tmp_path / "here", tmp_path / "there"
    for project, names in ((here, ("aa1", "aa1-more", "b")), (there, ("aa9", "c1"))):
        project.mkdir()
        for name in names:
            (sessions_dir(tmp_path, project) / name).mkdir(parents=True)

    def found(beginning: str) -> list[str]:
        return [folder.name for folder in find_sessions(tmp_path, here, beginning)]

    assert found("aa") == ["aa1", "aa1-more"]
    assert found("aa1") == ["aa1"]
    assert found("c") == ["c1"]
    assert [found(odd) for odd in ("/etc", "..", "*", "zz")] == [[], [], [], []]

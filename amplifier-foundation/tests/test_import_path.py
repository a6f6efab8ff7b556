"""Folders are on Python's path while a session needs them, and no longer."""

import sys
from pathlib import Path

import pytest

from amplifier_foundation.import_path import hold


@pytest.fixture(autouse=True)
def path(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return an import path that is put back afterwards."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    return sys.path


def test_folders_come_last_and_go_again(tmp_path: Path, path: list[str]) -> None:
    """The program's own packages win, each folder is there once, and letting go twice is letting go once."""
    before = list(path)
    release = hold([tmp_path / "a", tmp_path / "b", tmp_path / "a"])
    assert path == [*before, str(tmp_path / "a"), str(tmp_path / "b")]
    release()
    release()
    assert path == before


def test_the_last_session_takes_them_off(tmp_path: Path, path: list[str]) -> None:
    """A folder that two sessions need stays until both have ended, in whatever order."""
    first, second = hold([tmp_path]), hold([tmp_path])
    first()
    assert str(tmp_path) in path
    second()
    assert str(tmp_path) not in path


def test_what_was_there_before_stays(tmp_path: Path, path: list[str]) -> None:
    """A folder that somebody else put on the path is not taken off, and one that somebody took off is no error."""
    path.append(str(tmp_path))
    hold([tmp_path])()
    assert str(tmp_path) in path
    release = hold([tmp_path / "a"])
    path.remove(str(tmp_path / "a"))
    release()

"""Files that are replaced as a whole."""

from pathlib import Path

import pytest

from amplifier_foundation.files import locked, make_private, replace_file


def test_the_new_file_stands_in_place_of_the_old(tmp_path: Path) -> None:
    """The file holds the new content, its owner alone may read it, and nothing else is left."""
    path = tmp_path / "file"
    path.write_bytes(b"old")
    replace_file(path, b"new")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"new", 0o600)
    assert list(tmp_path.iterdir()) == [path]


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    """When the file cannot be replaced the error is raised and no half of one is left."""
    path = tmp_path / "file"
    path.mkdir()
    with pytest.raises(OSError):
        replace_file(path, b"new")
    assert list(tmp_path.iterdir()) == [path]


def test_folders_are_their_owners_alone(tmp_path: Path) -> None:
    """Every folder that is made for a file or a lock is closed to others, those above it too; others stay."""
    tmp_path.chmod(0o755)
    make_private(tmp_path / "home" / "projects")
    with locked(tmp_path / "other" / "cache" / "x.lock"):
        pass
    made = [tmp_path / name for name in ("home", "home/projects", "other", "other/cache")]
    assert [folder.stat().st_mode & 0o777 for folder in made] == [0o700] * 4
    assert tmp_path.stat().st_mode & 0o777 == 0o755

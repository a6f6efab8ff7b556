"""Files that are replaced as a whole."""

from pathlib import Path

import pytest

from amplifier_foundation.files import replace_file


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

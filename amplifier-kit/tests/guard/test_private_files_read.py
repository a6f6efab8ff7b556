"""Files of a project are read only when they are files, and of a size that is meant."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from amplifier_kit.guard.control_files import git_folders_of, names_driver
from amplifier_kit.guard.private_files import read_regular


def test_a_regular_file(tmp_path: Path) -> None:
    """A file is read as a whole up to the limit, over links too; a larger one is refused by its name."""
    (tmp_path / "a").write_bytes(b"12345")
    (tmp_path / "link").symlink_to("a")
    assert read_regular(tmp_path / "link", 5) == b"12345"
    with pytest.raises(OSError, match=r"larger than 4 bytes: .*/a'"):
        read_regular(tmp_path / "a", 4)
    with pytest.raises(FileNotFoundError):
        read_regular(tmp_path / "missing")
    with pytest.raises(IsADirectoryError):
        read_regular(tmp_path)


def test_pipes_and_devices_are_refused(tmp_path: Path) -> None:
    """Reading never blocks on a pipe without a writer, and /dev/zero does not fill the memory."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name in ("pipe", "zero"):
        with pytest.raises(OSError, match=rf"not a regular file: .*/{name}'"):
            read_regular(tmp_path / name)


@pytest.mark.timeout(20)
def test_pipes_in_the_place_of_what_git_reads(tmp_path: Path) -> None:
    """A pipe in the place of `.git` or `.gitattributes` is passed over."""
    os.mkfifo(tmp_path / ".git")
    os.mkfifo(tmp_path / ".gitattributes")
    assert str(tmp_path) not in "".join(git_folders_of(str(tmp_path)))
    assert not names_driver(str(tmp_path / ".gitattributes"))

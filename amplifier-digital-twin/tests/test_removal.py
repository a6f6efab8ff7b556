"""Removing trees, however deep they are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from amplifier_digital_twin.removal import open_folders, remove_tree


def make_deep(folder: Path, depth: int = 1100) -> None:
    """Nest folders deeper than Python calls itself, and than a path can name."""
    folder.mkdir()
    descriptor = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("deep", dir_fd=descriptor)
        inner = os.open("deep", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(descriptor)


def test_trees_of_any_depth_are_removed(tmp_path: Path) -> None:
    """Folders nested deeper than Python may call itself are removed, and nothing else."""
    make_deep(tmp_path / "deep")
    (tmp_path / "beside").touch()
    remove_tree(tmp_path / "deep")
    assert os.listdir(tmp_path) == ["beside"]


def test_links_are_not_followed(tmp_path: Path) -> None:
    """A link goes; what it leads to stays, at the top and below."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "outside")
    (tmp_path / "-tree").mkdir()
    (tmp_path / "-tree" / "link").symlink_to(tmp_path / "outside")
    remove_tree(tmp_path / "link")
    remove_tree(tmp_path / "-tree")
    remove_tree(tmp_path / "never was")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "outside"]


def test_what_stays_is_told(tmp_path: Path) -> None:
    """A tree that cannot be removed is an error that names it."""
    if os.geteuid() == 0:
        pytest.skip("root can remove everything")
    (tmp_path / "closed" / "inner").mkdir(parents=True)
    (tmp_path / "closed").chmod(0o500)
    with pytest.raises(OSError, match="closed/inner"):
        remove_tree(tmp_path / "closed")
    open_folders(tmp_path / "closed")
    remove_tree(tmp_path / "closed")
    assert not (tmp_path / "closed").exists()


def test_only_folders_are_opened(tmp_path: Path) -> None:
    """Folders that are closed to their owner are opened, nested ones too; files, which others may share, are not."""
    (tmp_path / "tree" / "outer" / "inner").mkdir(parents=True)
    (tmp_path / "tree" / "file").touch(mode=0o000)
    (tmp_path / "other").mkdir(mode=0o500)
    (tmp_path / "tree" / "link").symlink_to(tmp_path / "other")
    for name in ("outer/inner", "outer"):
        (tmp_path / "tree" / name).chmod(0)
    open_folders(tmp_path / "tree")
    assert [(tmp_path / "tree" / name).stat().st_mode & 0o700 for name in ("outer", "outer/inner")] == [0o700] * 2
    assert (tmp_path / "tree" / "file").stat().st_mode & 0o777 == 0
    assert (tmp_path / "other").stat().st_mode & 0o777 == 0o500

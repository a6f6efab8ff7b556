"""Where universes are kept: only in folders that nobody else could have made, or can look into."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.registry import Found, Registry, Wish

OTHER = 1001


def create(home: Path) -> Found:
    """Make a universe's folder in a home."""
    return Registry(home / "digital-twin").create(Wish(None, "profile", home / "profile.yaml", 60.0))


@pytest.mark.parametrize("name", ["digital-twin", "digital-twin/universes"])
def test_a_link_in_place_of_a_folder_is_refused(tmp_path: Path, name: str) -> None:
    """No universe is made where a link leads, whoever made it; what it leads to is not touched."""
    home, outside = tmp_path / "home", tmp_path / "outside"
    outside.mkdir(mode=0o755)
    (home / name).parent.mkdir(parents=True)
    (home / name).symlink_to(outside)
    with pytest.raises(TwinError, match="it is a link") as caught:
        create(home)
    assert caught.value.code == "home_unsafe"
    assert outside.stat().st_mode & 0o777 == 0o755
    assert [path.name for path in outside.rglob("*") if path.name != "universes"] == []


@pytest.mark.parametrize("name", ["digital-twin", "digital-twin/universes"])
def test_a_folder_of_another_user_is_refused(tmp_path: Path, name: str) -> None:
    """No universe is made in a folder whose owner could change it."""
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    (tmp_path / name).mkdir(parents=True)
    os.chown(tmp_path / name, OTHER, OTHER)
    with pytest.raises(TwinError, match=f"it belongs to user {OTHER}") as caught:
        create(tmp_path)
    assert caught.value.code == "home_unsafe"


def test_folders_are_closed_to_others(tmp_path: Path) -> None:
    """Folders that were made open to others are closed when a universe is made in them."""
    (tmp_path / "digital-twin" / "universes").mkdir(parents=True, mode=0o755)
    (tmp_path / "digital-twin").chmod(0o777)
    found = create(tmp_path)
    folders = [found.place.folder, *list(found.place.folder.parents)[:2]]
    assert [folder.stat().st_mode & 0o777 for folder in folders] == [0o700] * 3


def test_a_universe_in_a_folder_of_another_user_is_not_mine(tmp_path: Path) -> None:
    """What lies where another user could have put it is nobody's to enter or to remove."""
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    found = create(tmp_path)
    assert found.is_mine
    os.chown(found.place.folder.parent, OTHER, OTHER)
    assert not bool(found.is_mine)
    assert found.foreign_reason == f"it belongs to user {OTHER}"


def test_a_link_in_place_of_a_universe_is_not_mine(tmp_path: Path) -> None:
    """A universe is a folder, not what a link leads to."""
    found = create(tmp_path)
    moved = tmp_path / "moved"
    found.place.folder.rename(moved)
    found.place.folder.symlink_to(moved)
    assert not found.is_mine

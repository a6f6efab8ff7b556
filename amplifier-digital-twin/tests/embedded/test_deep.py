"""Folders nested deeper than a path can name: what is made of them works, or fails with nothing left behind."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

DEEP = 'import os\nos.chdir("/home/user")\nfor _ in range(1100): os.mkdir("deep"); os.chdir("deep")\nprint("made")'


def files_of(keeper: Any) -> Path:
    """Return the folder in which a universe's files are."""
    return Path(keeper.folder, "universes", keeper.id_of("one"))


@pytest.fixture
def deep(keeper: Any) -> Any:
    """Return a keeper whose universe has such folders."""
    keeper.order("create", limits={"disk": 100 * 1024 * 1024})
    assert keeper.python(DEEP) == "made\n"
    return keeper


def test_deep_folders_are_reset_and_destroyed(deep: Any) -> None:
    """A universe goes back to its start, and goes for good, whatever is nested in it."""
    deep.order("reset")
    assert deep.shell("ls ~") == ""
    assert deep.python(DEEP) == "made\n"
    deep.order("destroy")
    assert os.listdir(files_of(deep)) == []


def test_deep_folders_are_not_taken_for_hiding(deep: Any) -> None:
    """A deep tree is measured like any other: nobody is ended for it."""
    assert deep.shell("sleep 3; echo lives") == "lives\n"
    assert not [note for note in deep.order("state")["notes"] if "disk limit" in note]


def test_deep_folders_of_a_crash_are_removed(deep: Any) -> None:
    """What a killed keeper left goes, deep or not."""
    deep.process.kill()
    deep.process.wait()
    again = deep.again()
    try:
        again.order("remove")
    finally:
        again.close()
    assert os.listdir(files_of(deep)) == []


def test_a_snapshot_of_deep_folders_fails_cleanly(deep: Any) -> None:
    """What cannot be copied is told in few words, nothing of the copy is left, and the universe goes on."""
    with pytest.raises(deep.refusal, match="File name too long") as caught:
        deep.order("snapshot", name="deep")
    assert caught.value.code == "files_failed"
    assert len(caught.value.message) < 2000
    assert os.listdir(files_of(deep) / "embedded" / "snapshots") == []
    assert deep.shell("ls ~") == "deep\n"


def test_deep_folders_can_be_provisioned(deep: Any) -> None:
    """A layer that is taken as it is holds folders of any depth, and is the start of the next universe."""
    deep.order("snapshot", name="layer", cache=True)
    deep.order("create", "two", layer="layer")
    assert deep.shell("ls ~", "two") == "deep\n"


def test_setuid_programs_are_not_kept(keeper: Any) -> None:
    """Neither a layer nor a snapshot holds a program that takes the rights of its owner."""
    keeper.order("create")
    make = "mkdir -m 2770 ~/shared; mkdir ~/closed; for f in a -b closed/c; do cp /bin/true ~/$f; chmod 6755 ~/$f; done"
    assert keeper.order("run", shell=f"{make}; chmod 0 ~/closed")["code"] == 0
    keeper.order("snapshot", name="kept")
    keeper.order("snapshot", name="layer", cache=True)
    found = "chmod 700 ~/closed; find ~ -perm /6000 -type f; stat -c %a ~/a ~/shared"
    assert keeper.shell(found) == "755\n2770\n"
    keeper.order("reset", name="kept")
    assert keeper.shell(found) == "755\n2770\n"
    files = [path for path in Path(keeper.folder).rglob("*") if path.is_file() and not path.is_symlink()]
    assert not [path for path in files if path.stat().st_mode & 0o6000]

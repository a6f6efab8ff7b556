"""Sessions that are deleted."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.paths import Home
from amplifier_foundation.sessions.cleanup import RemovalError, remove
from amplifier_foundation.sessions.log import SessionRunningError, is_running
from amplifier_foundation.sessions.store import SessionNotFoundError, SessionStore
from amplifier_kit.log.writer import SessionLog

CHILD = "0000000000000000-3f2a9d8c7b6a5f4e_helper"


def _make(home: Home, project: Path, session_id: str, **facts: Any) -> Path:
    folder = home.sessions(project) / session_id
    folder.mkdir(parents=True)
    (folder / "metadata.json").write_text(json.dumps({"session_id": session_id, **facts}), encoding="utf-8")
    return folder


def _names(folder: Path) -> set[str]:
    return set(os.listdir(folder))


def test_a_session_goes_with_those_it_started(tmp_path: Path) -> None:
    """Children and their children are deleted with it; forks and others stay; nothing is left over."""
    home = Home(tmp_path / "home")
    _make(home, tmp_path, "root")
    _make(home, tmp_path, CHILD, parent_id="root")
    _make(home, tmp_path, "grandchild", parent_id=CHILD)
    _make(home, tmp_path, "fork", parent_id="root", forked_from_turn=1)
    _make(home, tmp_path, "other")
    store = SessionStore(home)
    removed = store.delete(store.find("root", tmp_path))
    assert removed.ids[0] == "root"
    assert set(removed.ids) == {"root", CHILD, "grandchild"}
    assert removed.bytes > 0
    assert removed.warnings == ()
    assert _names(home.sessions(tmp_path)) == {"fork", "other"}
    with pytest.raises(SessionNotFoundError):
        store.delete("root")


def test_a_session_that_runs_is_not_deleted(tmp_path: Path) -> None:
    """Neither it nor what belongs to it goes, and the error says who runs it."""
    home = Home(tmp_path / "home")
    _make(home, tmp_path, "root")
    child = _make(home, tmp_path, CHILD, parent_id="root")
    store = SessionStore(home)
    log = SessionLog(child)
    assert is_running(child)
    with pytest.raises(SessionRunningError, match=str(os.getpid())) as raised:
        store.delete(store.find("root", tmp_path))
    assert raised.value.code == "session_running"
    assert {"root", CHILD} <= _names(home.sessions(tmp_path))
    log.close()
    assert not is_running(child)
    assert set(store.delete(store.find("root", tmp_path)).ids) == {"root", CHILD}


def test_asking_whether_a_session_runs_leaves_no_trace(tmp_path: Path) -> None:
    """A session of the published program has no lock, and gets none by being looked at."""
    assert not is_running(tmp_path)
    assert _names(tmp_path) == set()


def test_a_link_is_deleted_and_not_what_it_leads_to(tmp_path: Path) -> None:
    """A session that is a link to a folder elsewhere leaves that folder alone."""
    home = Home(tmp_path / "home")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "metadata.json").write_text("{}", encoding="utf-8")
    home.sessions(tmp_path).mkdir(parents=True)
    (home.sessions(tmp_path) / "linked").symlink_to(elsewhere)
    store = SessionStore(home)
    store.delete(store.find("linked", tmp_path))
    assert (elsewhere / "metadata.json").exists()
    assert _names(home.sessions(tmp_path)) == set()


def test_links_in_a_session_are_not_followed(tmp_path: Path) -> None:
    """What a link in the folder leads to is not deleted."""
    (tmp_path / "precious").write_text("x", encoding="utf-8")
    home = Home(tmp_path / "home")
    folder = _make(home, tmp_path, "one")
    (folder / "link").symlink_to(tmp_path)
    remove([folder])
    assert (tmp_path / "precious").exists()
    assert not folder.exists()


def test_all_or_none_are_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When one of the folders cannot be moved aside, those that were are put back."""
    home = Home(tmp_path / "home")
    folders = [_make(home, tmp_path, name) for name in ("root", "child", "grandchild")]
    rename = os.rename

    def refuse_root(source: Any, target: Any) -> None:
        if Path(source).name == "root":
            raise PermissionError(13, "Permission denied", str(source))
        rename(source, target)

    monkeypatch.setattr(os, "rename", refuse_root)
    with pytest.raises(RemovalError, match="Permission denied") as raised:
        remove(folders)
    assert raised.value.code == "session_not_deleted"
    assert _names(home.sessions(tmp_path)) == {"root", "child", "grandchild"}


def test_what_cannot_be_deleted_is_no_session_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once moved aside it is in no list, and what is left of it is said."""
    home = Home(tmp_path / "home")
    folder = _make(home, tmp_path, "one")

    def refuse(path: Any) -> None:
        raise OSError(39, "Directory not empty", str(path))

    monkeypatch.setattr("shutil.rmtree", refuse)
    store = SessionStore(home)
    removed = store.delete(store.find("one", tmp_path))
    assert removed.ids == ("one",)
    assert "could not be deleted: Directory not empty" in removed.warnings[0]
    assert not folder.exists()
    assert store.list(tmp_path) == []

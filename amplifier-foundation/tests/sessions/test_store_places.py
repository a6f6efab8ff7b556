"""The store in odd places, and with what the published program left there."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.paths import Home
from amplifier_foundation.sessions.export import export
from amplifier_foundation.sessions.store import SessionCatalog, SessionNotFoundError, SessionStore

ROOT = "0b0c2a52-39a2-4a1d-9b5e-6f4b7c1f2d3e"
CHILD = "0000000000000000-3f2a9d8c7b6a5f4e_zen-architect"


def _write(folder: Path, metadata: dict[str, Any], messages: list[dict[str, Any]]) -> None:
    folder.mkdir(parents=True)
    text = json.dumps(metadata, ensure_ascii=False, indent=2)
    for name in ("metadata.json", "metadata.json.backup"):
        (folder / name).write_text(text, encoding="utf-8")
    lines = "".join(f"{json.dumps(message, ensure_ascii=False)}\n" for message in messages)
    for name in ("transcript.jsonl", "transcript.jsonl.backup"):
        (folder / name).write_text(lines, encoding="utf-8")


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    """Give a home as the published program leaves it: a session, one that it delegated to, and one saved in a turn."""
    home = Home(tmp_path / "home")
    said: list[dict[str, Any]] = [
        {"role": "user", "content": "hello there", "metadata": {"timestamp": "2026-01-01T10:00:00.123+00:00"}},
        {"role": "assistant", "content": [{"type": "text", "text": "Hi."}]},
    ]
    root = {
        "session_id": ROOT,
        "created": "2026-01-01T10:00:00+00:00",
        "bundle": "bundle:foundation",
        "model": "claude-sonnet-4-5",
        "turn_count": 1,
        "working_dir": str(tmp_path),
        "bundle_overrides": [{"timestamp": "2026-01-01T10:00:00+00:00", "original": "a", "forced": "b"}],
    }
    child = {
        "session_id": CHILD,
        "parent_id": ROOT,
        "trace_id": ROOT.replace("-", ""),
        "agent_name": "zen-architect",
        "child_span": "3f2a9d8c7b6a5f4e",
        "created": "2026-01-01T10:00:01+00:00",
        "config": {"session": {}, "providers": [{"module": "provider-x", "config": {"api_key": "[REDACTED]"}}]},
        "agent_overlay": {},
        "turn_count": 1,
        "self_delegation_depth": 0,
        "working_dir": str(tmp_path),
    }
    _write(home.sessions(tmp_path) / ROOT, root, said)
    _write(home.sessions(tmp_path) / CHILD, child, said)
    _write(home.sessions(tmp_path) / "cut", {**root, "session_id": "cut", "incremental": True}, said)
    (home.project(tmp_path) / "repl_history").write_text("x", encoding="utf-8")
    return SessionStore(home)


def test_sessions_of_the_published_program_are_sessions(store: SessionStore, tmp_path: Path) -> None:
    """They are listed, found, renamed, exported and deleted like ours."""
    assert {session.id for session in store.list(tmp_path)} == {ROOT, "cut"}
    found = store.find(ROOT[:4], tmp_path)
    assert (found.bundle, found.model, found.first_prompt) == ("foundation", "claude-sonnet-4-5", "hello there")
    assert [child.agent_name for child in store.children(found)] == ["zen-architect"]
    renamed = store.rename(found, "greeting")
    metadata = json.loads((renamed.folder / "metadata.json").read_bytes())
    assert metadata["bundle_overrides"] == [{"timestamp": "2026-01-01T10:00:00+00:00", "original": "a", "forced": "b"}]
    assert "Hi." in export(renamed, tmp_path / "greeting.md").path.read_text(encoding="utf-8")
    assert set(store.delete(renamed).ids) == {ROOT, CHILD}
    assert {session.id for session in store.list(tmp_path, include_children=True)} == {"cut"}


def test_names_that_are_no_text_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder may be named with any bytes; it is listed each time, and costs the others nothing."""
    monkeypatch.setattr(SessionCatalog, "settled", 0.0)
    home = Home(tmp_path / "home")
    place = os.fsencode(home.sessions(tmp_path))
    for name in (b"odd-\xff", "ünï code".encode()):
        os.makedirs(place + b"/" + name)
        with open(place + b"/" + name + b"/metadata.json", "wb") as file:
            file.write(b"{" if name.startswith(b"odd") else b"{}")
    store = SessionStore(home)
    for _ in range(2):
        listed = {os.fsencode(session.id) for session in store.list(tmp_path)}
        assert listed == {b"odd-\xff", "ünï code".encode()}
        assert store.warnings == []
    assert store.find(os.fsdecode(b"odd-\xff"), tmp_path).damaged is not None


def test_the_home_may_be_a_link_and_the_folder_gone(tmp_path: Path, store: SessionStore) -> None:
    """A session is found through a link to the home, and when its project was deleted."""
    (tmp_path / "link").symlink_to(tmp_path / "home")
    linked = SessionStore(Home(tmp_path / "link"))
    assert linked.find(ROOT, tmp_path).id == ROOT
    assert linked.find(ROOT, tmp_path / "gone").id == ROOT


def test_a_project_that_cannot_be_read_does_not_hide_a_session(store: SessionStore, tmp_path: Path) -> None:
    """It is warned of, and what is meant is found elsewhere, or said to be nowhere."""
    (store.home.project(tmp_path / "odd")).mkdir()
    (store.home.project(tmp_path / "odd") / "sessions").touch()
    assert store.find(ROOT[:6], tmp_path / "odd").id == ROOT
    assert len(store.warnings) == 1
    with pytest.raises(SessionNotFoundError):
        store.find("nothing like that", tmp_path)


def test_listing_needs_neither_kernel_nor_loop() -> None:
    """What a list does not use is not imported for it: a list is often all that a program does."""
    code = "import sys, amplifier_foundation.sessions.store; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    unwanted = {
        "amplifier_core.session",
        "amplifier_core.models",
        "asyncio",
        "pydantic",
        "yaml",
        "sqlite3",
        "shutil",
        "subprocess",
        "difflib",
    }
    assert unwanted & set(loaded) == set()

"""The store, used by several processes at once: real ones, that start together."""

import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from amplifier_foundation.paths import Home
from amplifier_foundation.sessions.store import SessionCatalog, SessionStore

_COMMON = """\
import os, sys, time
from pathlib import Path
from amplifier_foundation.paths import Home
from amplifier_foundation.sessions.store import SessionCatalog
from amplifier_foundation.sessions.metadata import SessionGoneError, update_metadata
from amplifier_foundation.sessions.store import SessionStore, SessionNameError, SessionNotFoundError
SessionCatalog.settled = 0.0
project = Path(sys.argv[1])
store = SessionStore(Home(project / "home"))
print("ready", flush=True)
sys.stdin.readline()
"""


def _start(project: Path, code: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a process that waits for a line before it does its work."""
    return subprocess.Popen(
        [sys.executable, "-c", _COMMON + code, str(project), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _together(*processes: subprocess.Popen[str]) -> list[str]:
    """Let processes begin at the same time and return what each has printed; all must end well."""
    with ExitStack() as stack:
        for process in processes:
            stack.enter_context(process)
            stack.callback(process.kill)
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        ended = [process.communicate(timeout=90) for process in processes]
        for process, (_, said) in zip(processes, ended, strict=True):
            assert process.returncode == 0, said
        return [out.strip() for out, _ in ended]


def _make(project: Path, session_id: str, **facts: Any) -> Path:
    folder = Home(project / "home").sessions(project) / session_id
    folder.mkdir(parents=True)
    metadata = {"session_id": session_id, "working_dir": str(project), **facts}
    (folder / "metadata.json").write_text(json.dumps(metadata), encoding="utf-8")
    return folder


def _store(project: Path) -> SessionStore:
    return SessionStore(Home(project / "home"))


def test_a_rename_is_not_undone_by_a_session_that_runs(tmp_path: Path) -> None:
    """While a session writes its notes turn after turn, another process renames it: both are there at the end."""
    folder = _make(tmp_path, "s")
    running = """\
for turn in range(300):
    update_metadata(Path(sys.argv[2]), {"turn_count": turn, "working_dir": str(project)}, scrub=dict)
"""
    renaming = """\
for number in range(30):
    store.rename(store.find("s", project), f"name {number}")
"""
    _together(_start(tmp_path, running, str(folder)), _start(tmp_path, renaming))
    metadata = json.loads((folder / "metadata.json").read_bytes())
    assert (metadata["turn_count"], metadata["name"]) == (299, "name 29")
    assert not list(folder.glob("*.tmp"))


def test_two_sessions_do_not_get_one_name(tmp_path: Path) -> None:
    """Of processes that give the same name to different sessions, one succeeds."""
    for number in range(4):
        _make(tmp_path, f"s{number}")
    code = """\
try:
    store.rename(store.find(sys.argv[2], project), "the name")
    print("named")
except SessionNameError:
    print("taken")
"""
    said = _together(*(_start(tmp_path, code, f"s{number}") for number in range(4)))
    assert sorted(said) == ["named", "taken", "taken", "taken"]
    assert _store(tmp_path).find("the name", tmp_path).name == "the name"


def test_lists_that_make_the_index_together_are_whole(tmp_path: Path, monkeypatch: Any) -> None:
    """Processes that find no index, or a damaged one, all see every session, and leave an index that is used."""
    for number in range(300):
        _make(tmp_path, f"s{number:03}", name=f"name {number}")
    code = """\
for _ in range(5):
    listed = store.list(project)
    assert len(listed) == 300, len(listed)
    assert {session.name for session in listed} == {f"name {number}" for number in range(300)}
    if sys.argv[2] == "breaking":
        store.home.index.write_bytes(b"garbage" * 1000)
"""
    _together(*(_start(tmp_path, code, "listing") for _ in range(3)))
    _together(*(_start(tmp_path, code, word) for word in ("listing", "breaking", "listing")))
    monkeypatch.setattr(SessionCatalog, "settled", 0.0)
    store = _store(tmp_path)
    for _ in range(3):
        assert len(store.list(tmp_path)) == 300

    def unread(folder: Any) -> Any:
        raise AssertionError(f"{folder} was read")

    monkeypatch.setattr("amplifier_foundation.sessions.store.read_facts", unread)
    assert len(store.list(tmp_path)) == 300
    assert store.warnings == []


def test_lists_see_whole_sessions_while_others_are_deleted(tmp_path: Path) -> None:
    """A list has a session with all it says, or has it not; what is deleted does not come back."""
    for number in range(100):
        folder = _make(tmp_path, f"s{number:03}", name=f"name {number}")
        for file in range(5):
            (folder / f"file{file}").write_bytes(b"x")
    deleting = """\
for number in range(100):
    store.delete(store.find(f"s{number:03}", project))
"""
    listing = """\
seen = 100
while seen:
    listed = store.list(project)
    for session in listed:
        assert (session.name, session.damaged, session.warning) == (f"name {int(session.id[1:])}", None, None), session
    assert len(listed) <= seen, (len(listed), seen)
    seen = len(listed)
"""
    _together(_start(tmp_path, deleting), _start(tmp_path, listing), _start(tmp_path, listing))
    assert {name for name in os.listdir(Home(tmp_path / "home").sessions(tmp_path)) if name[0] != "."} == set()


def test_a_session_is_deleted_once(tmp_path: Path) -> None:
    """Processes that rename and delete the same sessions leave none of them behind, not even a folder."""
    for number in range(40):
        _make(tmp_path, f"s{number:03}")
    deleting = """\
for number in range(40):
    store.delete(store.find(f"s{number:03}", project))
"""
    renaming = """\
for number in range(40):
    try:
        update_metadata(store.folder(project, f"s{number:03}"), {"name": f"name {number}"}, scrub=dict)
    except SessionGoneError:
        pass
"""
    _together(_start(tmp_path, deleting), _start(tmp_path, renaming), _start(tmp_path, renaming))
    assert [name for name in os.listdir(Home(tmp_path / "home").sessions(tmp_path)) if name[0] != "."] == []


def test_a_process_killed_while_it_deletes_leaves_whole_sessions(tmp_path: Path) -> None:
    """What was not deleted is whole, what was is in no list, and the rest is swept later."""
    for number in range(60):
        folder = _make(tmp_path, f"s{number:03}", name=f"name {number}")
        for file in range(30):
            (folder / f"file{file}").write_bytes(b"x" * 100)
    deleting = """\
for number in range(60):
    store.delete(store.find(f"s{number:03}", project))
    if number == 5:
        print("under way", flush=True)
"""
    with _start(tmp_path, deleting) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("go\n")
        process.stdin.flush()
        while process.stdout.readline() not in ("under way\n", ""):
            pass
        os.kill(process.pid, signal.SIGKILL)
    listed = _store(tmp_path).list(tmp_path)
    assert len(listed) <= 54
    for session in listed:
        assert session.name == f"name {int(session.id[1:])}"
        assert len(list(session.folder.glob("file*"))) == 30

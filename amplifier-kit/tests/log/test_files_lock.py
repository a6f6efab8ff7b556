"""One writer at a time."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from amplifier_kit.log.files import LogLock, SessionLogBusy
from amplifier_kit.log.writer import SessionLog

HOLD = """
import sys
from amplifier_kit.log.writer import SessionLog
log = SessionLog(sys.argv[1])
print("held", flush=True)
sys.stdin.readline()
"""


def test_a_second_process_is_refused_by_name(tmp_path: Path) -> None:
    """Who comes second learns which process writes, where, and what to do; the file is not touched."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(SessionLogBusy) as caught:
            SessionLog(tmp_path)
        holder.kill()
    assert caught.value.pid == holder.pid
    assert caught.value.path == tmp_path / "events.jsonl"
    assert str(caught.value) == (
        f"The session log {tmp_path / 'events.jsonl'} is being written by process {holder.pid} already, and a session "
        "has one writer. Wait until that session ends, stop it, or start (or fork) another one"
    )
    SessionLog(tmp_path).close()  # the lock ended with its process


def test_this_process_is_refused_too(tmp_path: Path) -> None:
    """Two logs of one session in one process would spoil each other's numbers as well."""
    with SessionLog(tmp_path), pytest.raises(SessionLogBusy, match=rf"written by this process \({os.getpid()}\)"):
        SessionLog(tmp_path)


def test_close_lets_the_next_one_in(tmp_path: Path) -> None:
    """A session that was closed can be continued at once."""
    for _ in range(3):
        with SessionLog(tmp_path) as log:
            log.write({"event": "a:b", "data": {}})
    assert len((tmp_path / "events.jsonl").read_bytes().splitlines()) == 3


def test_sessions_do_not_lock_each_other(tmp_path: Path) -> None:
    """The lock is on the session, not on the folder of all sessions."""
    with SessionLog(tmp_path / "a"), SessionLog(tmp_path / "b"), SessionLog(tmp_path, name="c.jsonl"):
        locks = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.lock"))
    assert locks == ["a/events.lock", "b/events.lock", "c.lock"]


def test_a_lock_file_that_says_nothing(tmp_path: Path) -> None:
    """The holder may not have written its number yet; the error does without."""
    path = tmp_path / "events.lock"
    with path.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(SessionLogBusy, match="written by another process already") as caught:
            LogLock(path, tmp_path / "events.jsonl")
    assert caught.value.pid is None


def test_file_systems_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are no locks a session is logged all the same."""

    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with SessionLog(tmp_path) as log:
        log.write({"event": "e"})
    assert (tmp_path / "events.jsonl").read_bytes().count(b"\n") == 1

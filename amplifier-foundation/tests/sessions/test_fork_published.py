"""Sessions that another program wrote are forked too, with their events."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from amplifier_foundation.sessions.fork import fork_session
from amplifier_foundation.sessions.log import EventNotFoundError
from amplifier_foundation.sessions.transcript import load_history
from amplifier_kit.log.reader import read_log
from amplifier_kit.log.verify import verify_log
from amplifier_kit.log.writer import SessionLog


def test_published_sessions_fork_with_their_events(tmp_path: Path, published_session: Callable[[Path], Path]) -> None:
    """Events of sessions that another program wrote are kept and cut at the turn, though nothing numbers them."""
    folder = published_session(tmp_path / "pub")
    fork = fork_session(folder, at_turn=2)
    lines = list(read_log(fork.folder))
    assert [line.event for line in lines].count("prompt:submit") == 2
    assert lines[-1].event == "prompt:complete"
    assert {line.session_id for line in lines} == {fork.session_id}
    assert verify_log(fork.folder).ok
    assert len(load_history(fork.folder).messages) == 4
    assert b'"event": "session:start"' in (fork.folder / "events.jsonl").read_bytes()
    with SessionLog(fork.folder, verify=True) as log:
        log.write({"event": "session:resume", "session_id": fork.session_id, "data": {}})
    assert verify_log(fork.folder).ok
    assert verify_log(fork_session(fork.folder).folder).ok
    assert fork_session(folder).events == 30
    assert [line.event for line in read_log(fork_session(folder, at_turn=3).folder)][-1] == "prompt:complete"


def test_published_sessions_fork_at_a_line(tmp_path: Path, published_session: Callable[[Path], Path]) -> None:
    """Where events have no numbers, their lines are counted."""
    folder = published_session(tmp_path / "pub")
    number = [line.event for line in read_log(folder)].index("provider:response") + 1
    fork = fork_session(folder, at_event=number)
    assert (fork.events, fork.messages) == (number, 2)
    assert fork_session(folder, at_event=number - 1).messages == 1
    with pytest.raises(EventNotFoundError, match="events 1 to 30"):
        fork_session(folder, at_event=31)


def test_a_session_without_a_log_is_forked(tmp_path: Path, published_session: Callable[[Path], Path]) -> None:
    """A conversation alone is enough, wherever it lies, and the ledger of its context is cut like it."""
    folder = published_session(tmp_path / "ein Ordner ü" / "pub")
    (folder / "events.jsonl").unlink()
    shutil.copy(folder / "transcript.jsonl", folder / "context-messages.jsonl")
    link = tmp_path / "link"
    link.symlink_to(folder.parent, target_is_directory=True)
    fork = fork_session(link / "pub", at_turn=1)
    assert (fork.messages, fork.events) == (2, 0)
    written = (fork.folder / "transcript.jsonl").read_bytes()
    assert (fork.folder / "context-messages.jsonl").read_bytes() == written
    assert written == b"".join((folder / "transcript.jsonl").read_bytes().splitlines(keepends=True)[:2])
    assert os.path.samefile(fork.folder.parent, folder.parent)

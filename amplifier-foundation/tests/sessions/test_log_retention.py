"""Rotated files and unreferenced blobs of a log are deleted on request only."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import amplifier_foundation.sessions.cleanup as cleanup_module
from amplifier_foundation.sessions.cleanup import prune_blobs, prune_rotated
from amplifier_kit.log.files import SessionLogBusy
from amplifier_kit.log.reader import read_log
from amplifier_kit.log.verify import verify_log
from amplifier_kit.log.writer import SessionLog

Make = Callable[..., dict[str, Any]]
Messages = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def record() -> Make:
    """Return a function that makes a record as `coordinator.log` would."""
    return lambda event="tool:pre", **data: {"event": event, "session_id": "one", "data": data}


@pytest.fixture
def messages() -> Messages:
    """Return a function that makes a history of `count` messages, about 200 bytes each."""
    return lambda count: [{"role": "user", "content": f"message {index} " + "word " * 30} for index in range(count)]


def blobs(folder: Path) -> list[Path]:
    return [path for path in (folder / "blobs").rglob("*") if path.is_file()]


def rotated(folder: Path, record: Make, count: int = 30) -> None:
    with SessionLog(folder, max_bytes=1500) as log:
        for index in range(count):
            log.write(record(index=index, large=f"{index}" * 5000))


def test_nothing_is_deleted_by_itself(tmp_path: Path, record: Make) -> None:
    """However long a session runs, everything stays."""
    rotated(tmp_path, record)
    assert [line.seq for line in read_log(tmp_path)] == list(range(1, 31))
    assert len(blobs(tmp_path)) == 30


def test_the_newest_rotated_files_are_kept(tmp_path: Path, record: Make) -> None:
    """Only whole files go, the oldest first, never the one being written."""
    rotated(tmp_path, record)
    before = sorted(tmp_path.glob("events.*.jsonl"), key=lambda path: int(path.suffixes[0][1:]))
    deleted = prune_rotated(tmp_path, keep=2)
    assert deleted == before[:-2]
    assert sorted(tmp_path.glob("events.*.jsonl")) == sorted(before[-2:])
    assert prune_rotated(tmp_path, keep=2) == []
    prune_rotated(tmp_path, keep=0)
    assert [path.name for path in tmp_path.glob("*.jsonl")] == ["events.jsonl"]


def test_numbers_go_on_after_the_files_are_gone(tmp_path: Path, record: Make) -> None:
    """A rotated file's number and a line's are never used again while the newer ones are there."""
    rotated(tmp_path, record)
    prune_rotated(tmp_path, keep=1)
    rotated(tmp_path, record)
    assert [line.seq for line in read_log(tmp_path)][-1] == 60
    assert verify_log(tmp_path).ok


def test_a_negative_number_is_refused(tmp_path: Path) -> None:
    """The mistake is named."""
    with pytest.raises(ValueError, match="keep must not be negative, got -1"):
        prune_rotated(tmp_path, keep=-1)


def test_blobs_that_nobody_refers_to_go(tmp_path: Path, record: Make) -> None:
    """After old files were deleted, their blobs can be, and what is left is whole."""
    folder = tmp_path / "s"
    rotated(folder, record)
    prune_rotated(folder, keep=1)
    left = len(list(read_log(folder)))
    pruned = prune_blobs(folder)
    assert (pruned.deleted, pruned.kept) == (30 - left, left)
    assert pruned.freed > pruned.deleted * 5000
    assert len(blobs(folder)) == left
    assert verify_log(folder).ok
    assert prune_blobs(folder).deleted == 0


def test_blobs_inside_blobs_stay(tmp_path: Path, record: Make, messages: Messages) -> None:
    """What a blob refers to is needed as long as the blob is."""
    folder = tmp_path / "s"
    history = [*messages(40), {"role": "tool", "content": "z" * 6000}]
    with SessionLog(folder) as log:
        log.write(record(messages=history))
    assert len(blobs(folder)) == 2
    assert prune_blobs(folder).deleted == 0
    [line] = read_log(folder)
    assert line.resolved()["messages"] == history


def test_sessions_that_share_keep_each_others(tmp_path: Path, record: Make) -> None:
    """A child's blobs lie with its root and are kept for it, asked from either side."""
    with SessionLog(tmp_path / "root") as log:
        log.write(record(large="r" * 5000))
    with SessionLog(tmp_path / "child", blobs=tmp_path / "root" / "blobs") as log:
        log.write(record(large="c" * 5000))
    with SessionLog(tmp_path / "other") as log:
        log.write(record(large="o" * 5000))
    for session in ("root", "child"):
        assert prune_blobs(tmp_path / session).deleted == 0
    (tmp_path / "root" / "events.jsonl").unlink()
    assert prune_blobs(tmp_path / "child").deleted == 1
    assert verify_log(tmp_path / "child").ok
    assert len(blobs(tmp_path / "other")) == 1


def test_not_while_somebody_writes(tmp_path: Path, record: Make) -> None:
    """The next line of a live session might refer to what looks unused; nothing is deleted."""
    with SessionLog(tmp_path / "root") as log:
        log.write(record(large="r" * 5000))
    (tmp_path / "root" / "events.jsonl").write_bytes(b"")
    with (
        SessionLog(tmp_path / "child", blobs=tmp_path / "root" / "blobs"),
        pytest.raises(SessionLogBusy, match="child"),
    ):
        prune_blobs(tmp_path / "root")
    assert len(blobs(tmp_path / "root")) == 1
    assert prune_blobs(tmp_path / "root").deleted == 1


def test_half_written_blobs(tmp_path: Path, record: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Incomplete blobs of a crash are removed once no process can still be writing them."""
    folder = tmp_path / "s"
    with SessionLog(folder) as log:
        log.write(record(large="x" * 5000))
    half = blobs(folder)[0].with_name(".abc.1.2.tmp")
    half.write_bytes(b"half")
    assert prune_blobs(folder).deleted == 0
    monkeypatch.setattr(cleanup_module, "_ABANDONED", -1)
    assert prune_blobs(folder).deleted == 1
    assert not half.exists()


def test_logs_side_by_side(tmp_path: Path, record: Make) -> None:
    """Several logs in one folder share their blobs; all of them count, rotated files too."""
    for name in ("a.jsonl", "b.jsonl"):
        with SessionLog(tmp_path / "logs", name=name, max_bytes=500) as log:
            for index in range(3):
                log.write(record(large=name * 1000 + str(index)))
    (tmp_path / "logs" / "b.jsonl").unlink()
    remaining = len(list(read_log(tmp_path / "logs" / "b.jsonl")))
    assert prune_blobs(tmp_path / "logs" / "a.jsonl").kept == 3 + remaining

"""What one run tells the next about the lists it wrote."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_kit.log.reader import read_log
from amplifier_kit.log.verify import verify_log
from amplifier_kit.log.writer import SessionLog

Make = Callable[..., dict[str, Any]]
Messages = Callable[..., list[dict[str, Any]]]


def one_run(folder: Path, record: Make, history: list[dict[str, Any]], **options: Any) -> dict[str, Any]:
    """Log one request in a separate run and return its list as the line has it."""
    with SessionLog(folder, **options) as log:
        log.write(record("llm:request", messages=history))
    last = list(read_log(folder))[-1]
    assert last.resolved()["messages"] == history
    short: dict[str, Any] = last.data["messages"]
    return short


def test_the_next_run_goes_on(tmp_path: Path, record: Make, messages: Messages) -> None:
    """A session that is resumed for every prompt writes its history once."""
    history = messages(40)
    first = one_run(tmp_path, record, history)
    second = one_run(tmp_path, record, [*history, *messages(2, start=40)])
    assert "base" not in first
    assert second["base"] == first["$list"]
    assert len(second["append"]) == 2


def test_a_session_without_lists_leaves_no_trace(tmp_path: Path, record: Make) -> None:
    """There is no file when there is nothing to remember."""
    with SessionLog(tmp_path) as log:
        log.write(record())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["events.jsonl", "events.lock"]


def test_after_a_crash_the_older_memory_still_counts(tmp_path: Path, record: Make, messages: Messages) -> None:
    """Lines that were added since do not matter: what is remembered still stands in the log."""
    history = messages(40)
    first = one_run(tmp_path, record, history)
    with (tmp_path / "events.jsonl").open("ab") as file:
        file.write(b'{"event": "e", "seq": 2}\n{"torn')
    third = one_run(tmp_path, record, [*history, *messages(2, start=40)])
    assert third["base"] == first["$list"]


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"version": 1}', b'{"version": 2, "lists": []}', b"\0" * 50])
def test_a_damaged_memory_is_ignored(tmp_path: Path, record: Make, messages: Messages, damage: bytes) -> None:
    """The next list is written whole, that is all."""
    history = messages(40)
    one_run(tmp_path, record, history)
    (tmp_path / "events.lists").write_bytes(damage)
    assert "base" not in one_run(tmp_path, record, history)
    assert verify_log(tmp_path).ok


def test_the_memory_of_another_log_is_ignored(tmp_path: Path, record: Make, messages: Messages) -> None:
    """A log that was replaced, emptied or rotated since is not referred to."""
    history = messages(40)
    one_run(tmp_path, record, history)
    kept = (tmp_path / "events.lists").read_bytes()
    for replacement in (b"", b'{"event": "e", "seq": 1}\n' * 100):
        (tmp_path / "events.jsonl").write_bytes(replacement)
        (tmp_path / "events.lists").write_bytes(kept)
        assert "base" not in one_run(tmp_path, record, history)


def test_a_memory_that_cannot_be_kept(
    tmp_path: Path, record: Make, messages: Messages, capfd: pytest.CaptureFixture[str]
) -> None:
    """A full disk at the very end costs a message, not the log."""
    (tmp_path / "events.lists").mkdir()
    one_run(tmp_path, record, messages(40))
    assert "cannot finish it" in capfd.readouterr().err


def test_it_is_private_and_small(tmp_path: Path, record: Make, messages: Messages) -> None:
    """It holds hashes only, for the owner only."""
    one_run(tmp_path, record, messages(500))
    content = (tmp_path / "events.lists").read_bytes()
    assert b"message" not in content
    assert len(content) < 500 * 50
    assert (tmp_path / "events.lists").stat().st_mode & 0o777 == 0o600

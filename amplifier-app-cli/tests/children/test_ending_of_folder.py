"""How a session ended, by the last lines of its log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from amplifier_app_cli.children.endings import EndingReader
from amplifier_foundation.children.results import save_result
from amplifier_kit.log.writer import SessionLog


def _log(folder: Path, *events: tuple[str, dict[str, Any]]) -> Path:
    folder.mkdir(exist_ok=True)
    log = SessionLog(folder)
    for event, data in events:
        status = {"status": data["status"]} if "status" in data else {}
        log.write({"ts": "2026-01-01T00:00:00.000+00:00", "event": event, **status, "data": data})
    log.close()
    return folder


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
def test_its_own_word(tmp_path: Path, status: str) -> None:
    """The last event tells, whatever came before it."""
    folder = _log(tmp_path / "s", ("session:start", {}), ("session:end", {"status": status}))
    ending = EndingReader().ending(folder)
    assert ending is not None
    assert ending.word == status


def test_long_lines(tmp_path: Path) -> None:
    """The last word is found behind lines of any length, and a start far back is no end."""
    long = ("tool:post", {str(number): "x" * 3_000 for number in range(40)})
    ended = _log(tmp_path / "ended", ("session:start", {}), long, ("session:end", {"status": "completed"}))
    open_one = _log(tmp_path / "open", ("session:end", {"status": "completed"}), ("session:resume", {}), long, long)
    words = [EndingReader().ending(folder) for folder in (ended, open_one)]
    assert [word and word.word for word in words] == ["completed", "crashed"]


def test_a_torn_line_hides_nothing(tmp_path: Path) -> None:
    """A line that a crash cut short is no last word; the one before it counts."""
    folder = _log(tmp_path / "s", ("session:start", {}))
    with open(folder / "events.jsonl", "ab") as file:
        file.write(b'{"event": "session:end", "sta')
    ending = EndingReader().ending(folder)
    assert ending == ("crashed", "")


def test_a_session_that_runs(tmp_path: Path) -> None:
    """A session whose log is held by a process runs."""
    folder = _log(tmp_path / "s", ("session:start", {}))
    log = SessionLog(folder)
    try:
        assert EndingReader().ending(folder) == ("running", "")
    finally:
        log.close()


def test_the_parent_tells_of_deadlines(tmp_path: Path) -> None:
    """A child that was stopped because it took too long has timed out; its parent's log says so."""
    told = {"sub_session_id": "late", "status": "timeout"}
    parent = _log(tmp_path / "parent", ("session:start", {}), ("delegate:error", told))
    words = EndingReader()
    for name in ("late", "stopped"):
        _log(tmp_path / name, ("session:start", {}), ("session:end", {"status": "cancelled"}))
    endings = [words.ending(tmp_path / name, parent) for name in ("late", "stopped")]
    assert [ending and ending.word for ending in endings] == ["timed out", "cancelled"]


def test_a_child_that_never_began(tmp_path: Path) -> None:
    """Its log is closed in order, but it did nothing: its parent says why; one that did its work is not asked about."""
    told = [
        ("delegate:error", {"sub_session_id": name, "error": {"msg": "a module is missing"}})
        for name in ("refused", "done")
    ]
    parent = _log(tmp_path / "parent", ("session:start", {}), *told)
    _log(tmp_path / "refused", ("session:fork", {}), ("session:end", {"status": "completed"}))
    _log(tmp_path / "done", ("session:start", {}), ("session:end", {"status": "completed"}))
    words = EndingReader()
    assert words.ending(tmp_path / "refused", parent) == ("failed", "a module is missing")
    assert words.ending(tmp_path / "done", parent) == ("completed", "")


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("success", ("completed", "")),
        ("incomplete", ("incomplete", "all is used up")),
        ("budget_exhausted", ("failed", "all is used up")),
    ],
)
def test_a_task_that_was_not_done(tmp_path: Path, status: str, expected: tuple[str, str]) -> None:
    """A child may come to its end in order without having done its task: what came of it is with it."""
    parent = _log(tmp_path / "parent", ("session:start", {}))
    folder = _log(tmp_path / "child", ("session:start", {}), ("session:end", {"status": "completed"}))
    for number, ended in enumerate(("error", status)):
        result = {"session_id": "child", "status": ended, "metadata": {"reason": "all is used up"}}
        save_result(folder, f"task {number}", result, lambda value: value)
    assert EndingReader().ending(folder, parent) == expected
    assert EndingReader().ending(folder) == ("completed", "")  # nobody has given it a task


def test_nobody_tells(tmp_path: Path) -> None:
    """Of a session without a log nothing is known, and a parent that is gone tells nothing."""
    (tmp_path / "s").mkdir()
    assert EndingReader().ending(tmp_path / "s") is None
    assert EndingReader().ending(tmp_path / "s", tmp_path / "gone") is None
    assert EndingReader().ending(tmp_path / "gone") is None

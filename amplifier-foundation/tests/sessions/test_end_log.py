"""The log of a session whose process ends without closing it gets the end events that it lacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.sessions.log import end_log
from amplifier_kit.log.reader import read_log
from amplifier_kit.log.writer import SessionLog

Event = tuple[str, dict[str, Any]]
_TURN: tuple[Event, ...] = (("execution:start", {}), ("prompt:submit", {}))


def _ends(folder: Path, *events: Event) -> list[tuple[str, Any]]:
    log = SessionLog(folder)
    for event, data in events:
        log.write({"event": event, "session_id": folder.name, "data": data})
    end_log(log, folder)
    return [(line.event, line.get("status")) for line in read_log(folder)][len(events) :]


def test_a_complete_log_stays_as_it_is(tmp_path: Path) -> None:
    """Nothing is written where nothing is missing."""
    events: tuple[Event, ...] = (
        ("session:start", {}),
        ("execution:start", {}),
        ("execution:end", {}),
        ("session:end", {}),
    )
    assert _ends(tmp_path / "a", *events) == []


def test_open_work_ends_as_cancelled(tmp_path: Path) -> None:
    """The turn and the session get an end, with the status of a cancelled session."""
    ends = _ends(tmp_path / "a", ("session:start", {}), ("execution:start", {}))
    assert [event for event, _ in ends] == ["execution:end", "session:end"]
    assert ends[-1] == ("session:end", "cancelled")


def test_what_an_earlier_process_left_open_is_not_ended_again(tmp_path: Path) -> None:
    """A log that was interrupted and resumed since gets the ends of what is open now."""
    ends = _ends(tmp_path / "a", ("session:start", {}), *_TURN, ("session:resume", {}), _TURN[0])
    assert [event for event, _ in ends] == ["execution:end", "session:end"]


def test_a_log_that_cannot_be_read_is_closed_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process can end, and the warning names the folder."""

    def fail(*given: Any, **more: Any) -> Any:
        raise OSError("the disk is gone")

    monkeypatch.setattr("amplifier_kit.log.reader.read_log", fail)
    assert _ends(tmp_path / "a", ("session:start", {})) == []
    assert str(tmp_path / "a") in caplog.text

"""The time that events and records state."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from amplifier_core import trace


def test_timestamp_is_utc_iso() -> None:
    """It is now, in UTC, with microseconds, and Python can read it back."""
    before = datetime.now(UTC)
    text = trace.timestamp()
    after = datetime.now(UTC)
    assert text.endswith("+00:00")
    assert len(text) == len("2024-01-01T00:00:00.000000+00:00")
    assert before - timedelta(microseconds=1) <= datetime.fromisoformat(text) <= after


def test_timestamps_sort_as_text() -> None:
    """Later ones are never smaller, so that logs sort by them."""
    taken = [trace.timestamp() for _ in range(2_000)]
    assert taken == sorted(taken)


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (1_000_000_000_000_000_000, "2001-09-09T01:46:40.000000+00:00"),
        (1_709_164_799_999_999_999, "2024-02-28T23:59:59.999999+00:00"),
        (1_709_164_800_000_001_000, "2024-02-29T00:00:00.000001+00:00"),
        (4_102_444_800_000_000_000, "2100-01-01T00:00:00.000000+00:00"),
    ],
)
def test_timestamp_of_a_moment(monkeypatch: pytest.MonkeyPatch, nanoseconds: int, text: str) -> None:
    """Seconds, days and years roll over where they should, whatever was asked before."""
    monkeypatch.setattr(trace, "time_ns", lambda: nanoseconds)
    assert trace.timestamp() == text
    assert trace.timestamp() == text

"""The universe's own log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from amplifier_digital_twin.recorder import MASK, Recorder


def _lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_events_are_lines_with_time_and_name(tmp_path: Path) -> None:
    """Each event is one JSON object on one line, whatever it holds."""
    recorder = Recorder(tmp_path / "log.jsonl")
    recorder.event("first", text="a\nb ü", path=tmp_path, numbers=(1, 2.5, None, True))
    [line] = _lines(tmp_path / "log.jsonl")
    assert line["event"] == "first"
    assert line["numbers"] == [1, 2.5, None, True]
    assert str(line["ts"]).endswith("Z")


def test_log_is_never_what_a_link_leads_to(tmp_path: Path) -> None:
    """A link in the log's place is an error, and what it leads to is not written to; the log is its owner's alone."""
    (tmp_path / "other").touch()
    (tmp_path / "log.jsonl").symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match="symbolic links"):
        Recorder(tmp_path / "log.jsonl").event("first")
    assert (tmp_path / "other").read_bytes() == b""
    (tmp_path / "log.jsonl").unlink()
    Recorder(tmp_path / "log.jsonl").event("first")
    assert (tmp_path / "log.jsonl").stat().st_mode & 0o777 == 0o600


def test_listeners_hear_progress_and_what_came_before(tmp_path: Path) -> None:
    """Who listens from the start hears everything once; who has stopped listening hears nothing."""
    recorder = Recorder(tmp_path / "log.jsonl")
    recorder.progress("one")
    heard: list[str] = []
    with recorder.listening(heard.append, from_start=True):
        recorder.progress("two")
    recorder.progress("three")
    assert heard == ["one", "two"]


@given(some.text(alphabet="abc\"\\\n ü'", min_size=6), some.text())
def test_secrets_are_masked_everywhere(tmp_path_factory: pytest.TempPathFactory, secret: str, around: str) -> None:
    """The value of a secret is in no text, key or list, in no log and at no listener."""
    path = tmp_path_factory.mktemp("log") / "log.jsonl"
    recorder = Recorder(path, [secret])
    heard: list[str] = []
    with recorder.listening(heard.append):
        recorder.progress(f"{around}{secret}{around}")
    recorder.event("deep", value={"list": [secret, {secret: (secret,)}]})
    told, deep = _lines(path)
    assert deep["value"] == {"list": [MASK, {MASK: [MASK]}]}
    assert secret not in str(told["text"]) or secret in MASK
    assert heard == [told["text"]]


def test_longer_secret_is_masked_whole(tmp_path: Path) -> None:
    """When one secret is the start of another, nothing of the longer one stays."""
    recorder = Recorder(tmp_path / "log.jsonl", ["abcdef", "abcdef-ghi"])
    assert recorder.mask("x abcdef-ghi y") == f"x {MASK} y"


def test_times_add_up_and_failures_are_noted(tmp_path: Path) -> None:
    """A part that is left by an exception has a time, and is noted as not ok."""
    recorder = Recorder(tmp_path / "log.jsonl")
    with recorder.timed("part"):
        pass
    with pytest.raises(ValueError), recorder.timed("part"):
        raise ValueError
    assert list(recorder.timings) == ["part"]
    assert [line["ok"] for line in _lines(tmp_path / "log.jsonl")] == [True, False]


def test_log_of_a_removed_universe_is_no_fault(tmp_path: Path) -> None:
    """What is said while the folder is removed goes nowhere."""
    Recorder(tmp_path / "gone" / "log.jsonl").event("late")
    assert not (tmp_path / "gone").exists()

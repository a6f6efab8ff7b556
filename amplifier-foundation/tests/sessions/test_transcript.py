"""The conversation on disk."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.sessions.transcript import Transcript


def _mask(value: Any) -> Any:
    return json.loads(json.dumps(value).replace("hunter2", "***"))


def test_only_what_is_new_is_appended(tmp_path: Path) -> None:
    """Each update adds the new messages and rewrites nothing."""
    path = tmp_path / "transcript.jsonl"
    transcript = Transcript(path, _mask)
    messages: list[dict[str, Any]] = [{"role": "system", "content": "never kept"}, {"role": "user", "content": "a"}]
    transcript.update(messages)
    before = path.read_bytes()
    messages.append({"role": "assistant", "content": [{"type": "text", "text": "ü", "visibility": None}]})
    transcript.update(messages)
    transcript.update(messages)
    assert path.read_bytes().startswith(before)
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert lines == [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": [{"type": "text", "text": "ü"}]},
    ]


def test_secrets_are_masked_before_they_are_written(tmp_path: Path) -> None:
    """The file holds the scrubbed copy; the message itself is not changed."""
    path = tmp_path / "transcript.jsonl"
    message = {"role": "user", "content": "my password is hunter2"}
    Transcript(path, _mask).update([message])
    assert "hunter2" not in path.read_text()
    assert message["content"].endswith("hunter2")


def test_a_shorter_history_is_written_anew(tmp_path: Path) -> None:
    """After the history was cleared the file holds the new one alone."""
    path = tmp_path / "transcript.jsonl"
    transcript = Transcript(path, _mask)
    transcript.update([{"role": "user", "content": str(number)} for number in range(3)])
    transcript.update([{"role": "user", "content": "fresh"}])
    assert [json.loads(line)["content"] for line in path.read_text().splitlines()] == ["fresh"]


def test_another_history_of_the_same_length_is_written_anew(tmp_path: Path) -> None:
    """A history is told from one that grew by the last message that was written."""
    path = tmp_path / "transcript.jsonl"
    transcript = Transcript(path, _mask)
    transcript.update([{"role": "user", "content": "old"}])
    transcript.update([{"role": "user", "content": "new"}, {"role": "user", "content": "newer"}])
    assert [json.loads(line)["content"] for line in path.read_text().splitlines()] == ["new", "newer"]
    assert sorted(found.name for found in tmp_path.iterdir()) == ["transcript.jsonl", "transcript.jsonl.backup"]


def test_half_a_message_is_never_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not fit on the disk is taken back, and written whole when there is room again."""
    path = tmp_path / "transcript.jsonl"
    transcript = Transcript(path, _mask)
    transcript.update([{"role": "user", "content": "first"}])
    before = path.read_bytes()
    write = os.write
    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda descriptor, content: write(descriptor, content[:5]))
        with pytest.raises(OSError, match="No space left"):
            transcript.update([{"role": "user", "content": "first"}, {"role": "user", "content": "second"}])
    assert path.read_bytes() == before
    transcript.update([{"role": "user", "content": "first"}, {"role": "user", "content": "second"}])
    assert [json.loads(line)["content"] for line in path.read_text().splitlines()] == ["first", "second"]


def test_others_cannot_read_it(tmp_path: Path) -> None:
    """The file is its owner's alone, however it was written."""
    path = tmp_path / "transcript.jsonl"
    transcript = Transcript(path, _mask)
    transcript.update([{"role": "user", "content": "a"}])
    assert path.stat().st_mode & 0o777 == 0o600
    transcript.update([])
    assert (path.stat().st_mode & 0o777, path.read_bytes()) == (0o600, b"")

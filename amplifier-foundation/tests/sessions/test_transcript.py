"""The conversation on disk."""

import json
from pathlib import Path
from typing import Any

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

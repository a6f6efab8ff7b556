"""Conversations are read back, whoever wrote them and however they ended."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_foundation.sessions.transcript import CLOSING_TEXT, HistoryError, load_history, repair_history
from amplifier_kit.engine.pairing import check_pairing

TIME = {"timestamp": "2026-01-01T00:00:00.000+00:00"}
USER: dict[str, Any] = {"role": "user", "content": "hello there", "metadata": TIME}
ANSWER: dict[str, Any] = {"role": "assistant", "content": [{"type": "text", "text": "Grüße 🌍"}]}


def _lines(*records: Any) -> bytes:
    return b"".join(json.dumps(record, ensure_ascii=False).encode() + b"\n" for record in records)


def _write(folder: Path, content: bytes, name: str = "transcript.jsonl") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def test_messages_are_read_as_they_were_written(tmp_path: Path) -> None:
    """What is in the file is what comes back, in order, with the very lines it stands on."""
    _write(tmp_path, _lines(USER, ANSWER))
    history = load_history(tmp_path)
    assert (history.messages, history.problems, history.source) == ([USER, ANSWER], [], "transcript")
    assert [json.loads(line) for line in history.lines] == [USER, ANSWER]


@pytest.mark.parametrize("cut", [1, 20, 60])
def test_a_torn_last_line_is_left_out_and_reported(tmp_path: Path, cut: int) -> None:
    """A crash in the middle of a line costs that line and no other, and file and line are named."""
    whole = _lines(USER)
    path = _write(tmp_path, whole + _lines(ANSWER)[:cut])
    history = load_history(tmp_path)
    assert history.messages == [USER]
    assert len(history.problems) == 1
    assert f"{path}:2 is torn" in history.problems[0]


def test_garbage_is_reported_with_its_line(tmp_path: Path) -> None:
    """Lines that are no messages are left out one by one; all others are read."""
    garbage = [b"\x00\x00\x00", b"[1]", b'{"content": 1}', b"\xff\xfe{}", b"42", b'{"role": 3}', b'{"a":' * 5000]
    path = _write(tmp_path, _lines(USER) + b"\n  \n" + b"\n".join(garbage) + b"\n" + _lines(ANSWER))
    history = load_history(tmp_path)
    assert history.messages == [USER, ANSWER]
    assert [problem.split(" ")[0] for problem in history.problems] == [f"{path}:{number}" for number in range(4, 11)]
    assert max(map(len, history.problems)) < len(str(path)) + 250


def test_bom_and_crlf_are_no_problem(tmp_path: Path) -> None:
    """A file that an editor has saved its own way reads the same."""
    folder = tmp_path / "ein Ordner ü"
    folder.mkdir()
    _write(folder, b"\xef\xbb\xbf" + _lines(USER, ANSWER).replace(b"\n", b"\r\n"))
    history = load_history(folder)
    assert (history.messages, history.problems) == ([USER, ANSWER], [])
    assert b"\n".join(history.lines) + b"\n" == _lines(USER, ANSWER)


def test_line_separators_inside_texts_end_no_message(tmp_path: Path) -> None:
    """Only a newline ends a line: U+2028 and U+0085 are text."""
    said = {"role": "user", "content": "a\u2028b\u0085c\x0bd"}
    _write(tmp_path, _lines(said))
    assert load_history(tmp_path).messages == [said]


@pytest.mark.parametrize(
    "written",
    [
        {"id": "c", "tool": "read", "arguments": {"path": "x"}},
        {"id": "c", "name": "read", "arguments": {"path": "x"}},
        {"id": "c", "name": "read", "input": {"path": "x"}},
        {"id": "c", "type": "function", "function": {"name": "read", "arguments": '{"path": "x"}'}},
    ],
)
def test_old_spellings_of_calls_are_understood(tmp_path: Path, written: dict[str, Any]) -> None:
    """A call is the same call however it was spelled."""
    call = {"role": "assistant", "content": "", "tool_calls": [written], "thinking_text": "hm"}
    result = {"role": "tool", "tool_call_id": "c", "tool_name": "read", "content": "text"}
    _write(tmp_path, _lines(USER, call, result))
    messages = load_history(tmp_path).messages
    assert messages[1]["tool_calls"] == [{"id": "c", "tool": "read", "arguments": {"path": "x"}}]
    assert messages[1]["thinking_text"] == "hm"
    assert messages[2]["name"] == "read"
    assert check_pairing(messages) == []


def test_the_ledger_of_a_context_is_understood(tmp_path: Path) -> None:
    """Times on the line go where messages have them, and what was cleared is gone."""
    stamped = {"role": "user", "content": "new", "timestamp": "2026-01-01T00:00:00+00:00"}
    _write(tmp_path, _lines(USER, {"_cleared": True, "timestamp": "now"}, stamped))
    history = load_history(tmp_path)
    expected = {"role": "user", "content": "new", "metadata": {"timestamp": "2026-01-01T00:00:00+00:00"}}
    assert (history.messages, history.problems, len(history.lines)) == ([expected], [], 1)


def test_the_backup_stands_in_for_a_lost_transcript(tmp_path: Path) -> None:
    """A transcript that is gone or all garbage is replaced by its backup, and that is said."""
    _write(tmp_path, _lines(USER), "transcript.jsonl.backup")
    history = load_history(tmp_path)
    assert (history.messages, history.source) == ([USER], "backup")
    assert "is missing: transcript.jsonl.backup is used instead" in history.problems[0]
    _write(tmp_path, b"\x00" * 100)
    history = load_history(tmp_path)
    assert (history.messages, history.source) == ([USER], "backup")
    assert "holds no message" in history.problems[-1]


def test_a_cleared_transcript_is_not_brought_back(tmp_path: Path) -> None:
    """An empty transcript is an empty conversation: its backup is what was cleared."""
    _write(tmp_path, b"")
    _write(tmp_path, _lines(USER), "transcript.jsonl.backup")
    history = load_history(tmp_path)
    assert (history.messages, history.problems, history.source) == ([], [], "transcript")


def test_no_transcript_is_an_empty_conversation_that_is_told(tmp_path: Path) -> None:
    """A session that never came to a message starts empty; a folder that is not there is an error."""
    history = load_history(tmp_path)
    assert (history.messages, history.source) == ([], "empty")
    assert "does not exist" in history.problems[0]
    with pytest.raises(HistoryError, match="no such session folder"):
        load_history(tmp_path / "absent")


def test_an_unreadable_transcript_is_never_an_empty_one(tmp_path: Path) -> None:
    """What is there and cannot be read is an error that says so, not a conversation without messages."""
    (tmp_path / "transcript.jsonl").mkdir()
    with pytest.raises(HistoryError, match=r"transcript\.jsonl cannot be read: Is a directory"):
        load_history(tmp_path)
    _write(tmp_path, _lines(USER), "transcript.jsonl.backup")
    history = load_history(tmp_path)
    assert history.messages == [USER]
    assert "cannot be read" in history.problems[0]


@given(st.binary(max_size=200), st.integers(0, 300))
def test_no_bytes_break_the_reader(tmp_path_factory: pytest.TempPathFactory, noise: bytes, at: int) -> None:
    """Whatever happened to a file, its whole lines are read and everything else is reported."""
    folder = tmp_path_factory.mktemp("s")
    whole = _lines(USER, ANSWER)
    _write(folder, whole + noise + b"\n" + _lines(USER))
    messages = load_history(folder).messages
    assert messages[:2] == [USER, ANSWER]
    assert messages[-1] == USER
    _write(folder, whole[:at])
    ends = (len(_lines(USER)) - 1, len(whole) - 1)  # a message whose line lacks nothing but its end is whole
    assert load_history(folder).messages == [USER, ANSWER][: sum(at >= end for end in ends)]


def test_a_repaired_history_lets_the_user_speak(tmp_path: Path) -> None:
    """Lost results are made up for and the turn is closed; what needs no change is the very object."""
    call = {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "tool": "read", "arguments": {}}]}
    sound = repair_history([USER, call])
    assert [message["role"] for message in sound.messages] == ["user", "assistant", "tool", "assistant"]
    assert sound.messages[0] is USER
    assert check_pairing(sound.messages) == []
    assert [note.split(":")[0] for note in sound.notes] == [
        "a tool call without a result got one that says so",
        "an interrupted turn got an answer that says so",
    ]
    result = {"role": "tool", "tool_call_id": "c", "name": "read", "content": "x"}
    answered = repair_history([USER, call, result])
    assert answered.messages[-1]["content"] == CLOSING_TEXT
    healthy: list[dict[str, Any]] = [USER, call, result, ANSWER]
    assert repair_history(healthy).messages == healthy
    assert repair_history(healthy).notes == []
    assert repair_history([]).messages == []
    assert repair_history([USER]).messages == [USER]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_transcript_without_permission_is_an_error(tmp_path: Path) -> None:
    """Missing permission is said."""
    _write(tmp_path, _lines(USER)).chmod(0)
    with pytest.raises(HistoryError, match="Permission denied"):
        load_history(tmp_path)

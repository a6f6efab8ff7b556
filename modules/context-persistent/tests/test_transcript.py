"""A transcript holds what was said, survives a crash at any byte, and never stops a session."""

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_core.testing import MockCoordinator
from amplifier_kit.guard.control_files import refuse_control_file
from amplifier_module_context_persistent.transcript import Transcript, TranscriptBusyError

Message = dict[str, Any]


def user(text: str, at: str = "2026-01-01T00:00:00.000+00:00") -> Message:
    return {"role": "user", "content": text, "metadata": {"timestamp": at}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A place whose folder does not exist yet."""
    return tmp_path / "sessions" / "one" / "context-messages.jsonl"


def written(path: Path, *messages: Message, **options: Any) -> None:
    transcript = Transcript(path, **options)
    transcript.load()
    for message in messages:
        transcript.append(message)
    transcript.close()


def loaded(path: Path) -> list[Message]:
    transcript = Transcript(path)
    try:
        return transcript.load()
    finally:
        transcript.close()


def test_what_is_written_is_read_back(path: Path) -> None:
    """Messages come back in order, as they were."""
    messages = [
        user("hello there"),
        {"role": "assistant", "content": [{"type": "text", "text": "é\n"}], "metadata": {"timestamp": "t"}},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "tool": "t", "arguments": {"a": [1, 2.5]}}]},
        {"role": "tool", "tool_call_id": "1", "name": "t", "content": "ok", "metadata": {"timestamp": "t"}},
    ]
    written(path, *messages)
    messages[2]["metadata"] = {"timestamp": loaded(path)[2]["metadata"]["timestamp"]}
    assert loaded(path) == messages


def test_the_format_of_a_line(path: Path) -> None:
    """One object per line, compact, UTF-8 as it is, with the time at the top as well."""
    written(path, user("grüß dich"))
    at = '"timestamp":"2026-01-01T00:00:00.000+00:00"'
    line = f'{{"role":"user","content":"grüß dich","metadata":{{{at}}},{at}}}\n'
    assert path.read_text(encoding="utf-8") == line


def test_only_the_owner_may_read_it(path: Path) -> None:
    """A transcript is readable by its owner only."""
    written(path, user("hello"))
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("role", ["system", "developer"])
def test_instructions_are_not_written(path: Path, role: str) -> None:
    """System and developer messages are derived by every session; nothing is created for them."""
    written(path, {"role": role, "content": "be good"})
    assert not path.exists()


def test_nothing_is_created_before_the_first_message(path: Path) -> None:
    """Looking for a transcript leaves no trace; neither does clearing none."""
    transcript = Transcript(path)
    assert transcript.load() == []
    transcript.clear()
    transcript.close()
    assert not path.parent.exists()


def test_malformed_lines_are_skipped_by_name(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Each bad line is a warning with file and line; everything else is read."""
    written(path, user("one"), user("two"))
    first, second = path.read_text(encoding="utf-8").splitlines()
    lines = [first, "{broken", "[1, 2]", '{"content": "no role"}', "", b"\xff\xfe".decode("latin-1"), second, ""]
    path.write_bytes("\n".join(lines).encode("latin-1"))
    assert [message["content"] for message in loaded(path)] == ["one", "two"]
    said = [record.getMessage() for record in caplog.records]
    assert [message.split(" ")[0] for message in said] == [f"{path}:{number}" for number in (2, 3, 4, 6)]
    assert "is malformed and is skipped" in said[0]
    assert "is skipped: it is not a message with a role" in said[1]


def test_a_byte_order_mark_is_borne(path: Path) -> None:
    """Files that went through an editor of another system are read."""
    written(path, user("one"))
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert loaded(path)[0]["content"] == "one"


@given(st.integers(0, 200))
def test_a_crash_at_any_byte_loses_the_last_line_at_most(tmp_path_factory: pytest.TempPathFactory, keep: int) -> None:
    """Whole lines before the cut are read, and what is appended afterwards is not glued to the torn one."""
    path = tmp_path_factory.mktemp("torn") / "t.jsonl"
    written(path, user("one"), user("two"))
    whole = path.read_bytes()
    cut = whole[: min(keep, len(whole))]
    path.write_bytes(cut)
    written(path, user("three"))
    texts = [message["content"] for message in loaded(path)]
    ends = [index + 1 for index, byte in enumerate(whole) if byte == ord("\n")]
    complete = sum(len(cut) >= end - 1 for end in ends)  # a line that lacks only its end is complete
    assert texts == [*["one", "two"][:complete], "three"]


def test_a_torn_line_is_reported(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The warning says what most likely happened."""
    written(path, user("one"), user("two"))
    path.write_bytes(path.read_bytes()[:-10])
    assert [message["content"] for message in loaded(path)] == ["one"]
    assert f"{path}:2 is torn, most likely by a crash and is skipped" in caplog.text


def test_one_write_per_line(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each message reaches the file in a single call, so that a crash can only tear the last one."""
    calls: list[bytes] = []
    write = os.write

    def counting(file: int, data: bytes) -> int:
        calls.append(data)
        return write(file, data)

    monkeypatch.setattr(os, "write", counting)
    written(path, *(user("x" * 100_000) for _ in range(3)))
    assert len(calls) == 3
    assert all(data.endswith(b"\n") for data in calls)


def test_clearing_is_remembered(path: Path) -> None:
    """What was cleared does not come back, though its lines stay in the file."""
    transcript = Transcript(path)
    transcript.append(user("old"))
    transcript.clear()
    transcript.append(user("new"))
    transcript.close()
    assert [message["content"] for message in loaded(path)] == ["new"]
    assert "old" in path.read_text(encoding="utf-8")


def test_a_second_writer_is_refused(path: Path) -> None:
    """While one session writes, no other may; afterwards it may again."""
    first = Transcript(path)
    first.append(user("one"))
    with pytest.raises(TranscriptBusyError, match="is being written by another session: end that session first"):
        Transcript(path).load()
    first.close()
    assert len(loaded(path)) == 1


def test_a_late_second_writer_goes_on_from_memory(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Two sessions that both start with nothing: the second to write says so once and disturbs nothing."""
    first, second = Transcript(path), Transcript(path)
    assert first.load() == second.load() == []
    first.append(user("one"))
    second.append(user("two"))
    second.append(user("three"))
    first.append(user("four"))
    second.close()
    first.close()
    assert [message["content"] for message in loaded(path)] == ["one", "four"]
    assert caplog.text.count("cannot be written; the session continues from memory") == 1
    assert "2 lines could not be written and are lost" in caplog.text


def test_a_full_disk_is_said_once_and_made_up_for(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Lines wait in memory until there is room again; a line that was cut short is written again, whole."""
    write = os.write
    full = True

    def failing(file: int, data: bytes) -> int:
        if not full:
            return write(file, data)
        if len(data) > 5 and path.stat().st_size == 0:
            return write(file, data[:5])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", failing)
    transcript = Transcript(path)
    for text in ("one", "two", "three"):
        transcript.append(user(text))
    assert caplog.text.count("cannot be written") == 1
    full = False
    transcript.append(user("four"))
    transcript.close()
    assert [message["content"] for message in loaded(path)] == ["one", "two", "three", "four"]
    assert "is being written again; nothing is missing" in caplog.text


def test_a_folder_that_cannot_be_made_does_not_stop_the_session(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Where no file can be, the session continues from memory and says so once."""
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    transcript = Transcript(tmp_path / "file" / "t.jsonl")
    transcript.append(user("one"))
    transcript.append(user("two"))
    assert caplog.text.count("cannot be written") == 1


def test_a_deleted_file_is_rewritten(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """When the file or its folder is deleted, the next message writes all of it again."""
    history: list[Message] = []
    transcript = Transcript(path, history=lambda: history)
    for text in ("one", "two"):
        history.append(user(text))
        transcript.append(history[-1])
    path.unlink()
    path.parent.rmdir()
    history.append(user("three"))
    transcript.append(history[-1])
    transcript.close()
    assert [message["content"] for message in loaded(path)] == ["one", "two", "three"]
    assert "was deleted while in use" in caplog.text


def test_redaction_touches_the_file_only(path: Path) -> None:
    """What is written passes the redactor; the message itself does not change."""
    message = user("my password is hunter2")
    written(path, message, redact=lambda record: {**record, "content": record["content"].replace("hunter2", "***")})
    assert message["content"].endswith("hunter2")
    assert loaded(path)[0]["content"] == "my password is ***"


def test_lines_of_others_are_understood(path: Path) -> None:
    """A transcript with the time at the top only, and one without any, are read."""
    path.parent.mkdir(parents=True)
    lines = [{"role": "user", "content": "a", "timestamp": "then"}, {"role": "user", "content": "b", "metadata": None}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    first, second = loaded(path)
    assert first == {"role": "user", "content": "a", "metadata": {"timestamp": "then"}}
    assert second == {"role": "user", "content": "b", "metadata": None}


def test_a_transcript_is_checked_whenever_it_is_opened(tmp_path: Path) -> None:
    """A link to a control file, created before the first message, is not followed; at the start it is an error."""
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    (project / ".git" / "config").touch()
    coordinator = MockCoordinator()
    coordinator.register_capability("session.working_dir", str(project))
    path = project / "t.jsonl"
    transcript = Transcript(path, check=lambda path: refuse_control_file(path, coordinator))
    assert transcript.load() == []
    path.symlink_to(".git/config")
    transcript.append({"role": "user", "content": "[core]"})
    assert (project / ".git" / "config").read_text() == ""
    with pytest.raises(PermissionError):
        transcript.load()

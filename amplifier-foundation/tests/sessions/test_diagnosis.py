"""What is wrong with a conversation is named, mended, or taken back."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_foundation.sessions.diagnosis import diagnose, repair, rewind
from amplifier_foundation.sessions.log import SessionRunningError
from amplifier_foundation.sessions.transcript import load_history
from amplifier_kit.log.writer import SessionLog

Message = dict[str, Any]
USER: Message = {"role": "user", "content": "go"}
DONE: Message = {"role": "assistant", "content": "done"}


def _call(*ids: str) -> Message:
    return {"role": "assistant", "content": "", "tool_calls": [{"id": i, "tool": "look", "arguments": {}} for i in ids]}


def _result(call: str) -> Message:
    return {"role": "tool", "tool_call_id": call, "name": "look", "content": "seen"}


def _session(folder: Path, *messages: Message, rest: bytes = b"") -> Path:
    lines = b"".join(json.dumps(message).encode() + b"\n" for message in messages)
    (folder / "transcript.jsonl").write_bytes(lines + rest)
    return folder


HEALTHY = [USER, _call("a"), _result("a"), DONE]
BROKEN: list[tuple[list[Message], list[str]]] = [
    ([USER, _call("a")], ["missing_tool_results", "incomplete_turns"]),
    ([USER, _call("a"), USER, DONE], ["missing_tool_results", "incomplete_turns"]),
    ([USER, _call("a"), _result("a")], ["incomplete_turns"]),
    ([USER, _result("a"), DONE], ["orphaned_tool_results"]),
    ([*HEALTHY[:3], _result("a"), DONE], ["duplicate_tool_results"]),
    ([USER, _call("a"), DONE, _result("a"), DONE], ["missing_tool_results", "misplaced_tool_results"]),
    ([*HEALTHY, USER, _call("a"), _result("a"), DONE], ["duplicate_tool_ids"]),
]


def test_a_healthy_conversation_needs_nothing(tmp_path: Path) -> None:
    """A sound conversation is healthy, an empty one too, and repairing or rewinding it changes nothing."""
    for messages in ([], [USER], HEALTHY, [USER, USER, DONE]):
        assert diagnose(messages).status == "healthy"
        assert diagnose(messages).recommended_action == "none"
    folder = _session(tmp_path, *HEALTHY)
    before = (folder / "transcript.jsonl").read_bytes()
    assert repair(folder).actions == []
    assert rewind(folder).actions == []
    assert (folder / "transcript.jsonl").read_bytes() == before
    assert not (folder / "transcript.jsonl.backup").exists()


@pytest.mark.parametrize(("messages", "modes"), BROKEN)
def test_what_is_wrong_is_named(messages: list[Message], modes: list[str]) -> None:
    """Each kind of fault has its name."""
    found = diagnose(messages)
    assert (found.status, found.failure_modes, found.recommended_action) == ("broken", modes, "repair")


def test_ids_and_turns_are_named() -> None:
    """A diagnosis says which calls and which turns."""
    found = diagnose([*HEALTHY, USER, _call("b"), DONE, _result("b"), DONE, USER, _call("c")])
    assert found.orphaned_tool_ids == ["b", "c"]
    assert found.misplaced_tool_ids == ["b"]
    assert found.incomplete_turns == [3]


@pytest.mark.parametrize(("messages", "modes"), BROKEN)
def test_repair_makes_a_session_healthy_and_keeps_the_old_one(
    tmp_path: Path, messages: list[Message], modes: list[str]
) -> None:
    """After a repair nothing is wrong, what was done is told, and the transcript before it is the backup."""
    folder = _session(tmp_path, *messages)
    before = (folder / "transcript.jsonl").read_bytes()
    done = repair(folder)
    assert done.actions
    mended = load_history(folder)
    assert diagnose(mended.messages).status == "healthy"
    assert (done.messages, mended.problems) == (len(mended.messages), [])
    assert (folder / "transcript.jsonl.backup").read_bytes() == before
    assert repair(folder).actions == []


def test_lines_that_need_no_repair_stay_as_they_are(tmp_path: Path) -> None:
    """A repair writes the lines of sound messages byte for byte, and leaves torn ones out."""
    odd = b'{ "role":"user",  "content":"sp\\u00e4t" }\n'
    folder = _session(tmp_path, *HEALTHY)
    whole = odd + (folder / "transcript.jsonl").read_bytes()
    (folder / "transcript.jsonl").write_bytes(whole + b'{"role": "us')
    assert "is torn" in repair(folder).actions[0]
    assert (folder / "transcript.jsonl").read_bytes() == whole


def test_the_ledger_of_a_context_is_mended_too(tmp_path: Path) -> None:
    """A context that believes its own file more than anything finds the same there."""
    folder = _session(tmp_path, USER, _call("a"))
    (folder / "context-messages.jsonl").write_bytes(b"{}\n")
    repair(folder)
    assert (folder / "context-messages.jsonl").read_bytes() == (folder / "transcript.jsonl").read_bytes()
    assert (folder / "context-messages.jsonl.backup").read_bytes() == b"{}\n"


def test_rewind_goes_back_to_the_last_good_turn(tmp_path: Path) -> None:
    """Everything from the first broken turn on is taken back, and kept as the backup."""
    folder = _session(tmp_path, *HEALTHY, USER, _call("b"), USER, DONE)
    before = (folder / "transcript.jsonl").read_bytes()
    done = rewind(folder)
    assert (done.actions, done.turns) == (["removed 4 messages of 2 turns"], 1)
    assert load_history(folder).messages == HEALTHY
    assert (folder / "transcript.jsonl.backup").read_bytes() == before


def test_a_running_session_is_left_alone(tmp_path: Path) -> None:
    """While a session runs its transcript is its own."""
    folder = _session(tmp_path, USER, _call("a"))
    before = (folder / "transcript.jsonl").read_bytes()
    with SessionLog(folder):
        for mend in (repair, rewind):
            with pytest.raises(SessionRunningError, match="cannot be repaired while process"):
                mend(folder)
    assert (folder / "transcript.jsonl").read_bytes() == before
    assert repair(folder).actions


def test_a_backup_is_not_lost_by_using_it(tmp_path: Path) -> None:
    """A repair from the backup puts the transcript back and leaves the backup."""
    folder = _session(tmp_path, *HEALTHY)
    (folder / "transcript.jsonl").rename(folder / "transcript.jsonl.backup")
    assert "is used instead" in repair(folder).actions[0]
    assert load_history(folder).messages == HEALTHY
    whole = (folder / "transcript.jsonl.backup").read_bytes()
    assert (folder / "transcript.jsonl").read_bytes() == whole
    (folder / "transcript.jsonl").write_bytes(b"\x00" * 50)
    repair(folder)
    assert (folder / "transcript.jsonl").read_bytes() == (folder / "transcript.jsonl.backup").read_bytes() == whole


ANY = st.lists(st.sampled_from([USER, DONE, *map(_call, "ab"), _call("a", "b"), *map(_result, "abc")]), max_size=12)


@given(ANY)
def test_every_conversation_can_be_mended(tmp_path_factory: pytest.TempPathFactory, messages: list[Message]) -> None:
    """Whatever is in a transcript, a repair makes it healthy without losing a word, and so does a rewind."""
    folder = _session(tmp_path_factory.mktemp("s"), *messages)
    said = [message for message in messages if message in (USER, DONE)]
    repair(folder)
    mended = load_history(folder).messages
    assert diagnose(mended).status == "healthy"
    assert [message for message in mended if message in (USER, DONE)] == said
    _session(folder, *messages)
    rewind(folder)
    rewound = load_history(folder).messages
    assert diagnose(rewound).status == "healthy"
    assert rewound == messages[: len(rewound)]

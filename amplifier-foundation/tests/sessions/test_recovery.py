"""A conversation that a crash cut off, completed from the log."""

from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.log import SessionLog
from amplifier_foundation.sessions.recovery import recover
from amplifier_kit.pairing import check_pairing

USER = {"role": "user", "content": "go"}
CALLS = {
    "role": "assistant",
    "content": "I look.",
    "tool_calls": [{"id": "c1", "name": "read", "arguments": {}}, {"id": "c2", "name": "grep", "arguments": {}}],
}


def _log(folder: Path, *events: tuple[str, dict[str, Any]]) -> Path:
    with SessionLog(folder) as log:
        for event, data in events:
            log.write({"event": event, "lvl": "INFO", "session_id": "s", "data": data})
    return folder


def _post(call: str, output: Any) -> tuple[str, dict[str, Any]]:
    return "tool:post", {"tool_call_id": call, "tool_name": "read", "result": {"success": True, "output": output}}


def test_results_that_were_done_are_taken_from_the_log(tmp_path: Path) -> None:
    """A tool that was done when the process died has its result, not a notice that it was interrupted."""
    log = _log(tmp_path, ("prompt:submit", {"prompt": "go"}), _post("c2", {"lines": 3}), _post("c1", "x" * 50_000))
    messages, notes = recover([USER, CALLS], log)
    assert [message.get("tool_call_id") for message in messages[2:]] == ["c1", "c2"]
    assert messages[2]["content"] == "x" * 50_000
    assert messages[3]["content"] == '{"lines": 3}'
    assert all(message["metadata"] == {"recovered_from_log": True} for message in messages[2:])
    assert check_pairing(messages) == []
    assert notes == [
        "the result of read (c1) was taken from the log",
        "the result of grep (c2) was taken from the log",
    ]


def test_a_failure_in_the_log_is_a_failure(tmp_path: Path) -> None:
    """A tool that failed before the crash has failed, and its reason is known."""
    error = (
        "tool:error",
        {"tool_call_id": "c1", "tool_name": "read", "error": {"type": "OSError", "message": "no disk"}},
    )
    messages, _ = recover([USER, CALLS], _log(tmp_path, ("prompt:submit", {"prompt": "go"}), error))
    assert messages[2]["content"] == "Error: no disk"


def test_a_result_is_not_added_twice(tmp_path: Path) -> None:
    """A call whose result the transcript has keeps that one."""
    kept = {"role": "tool", "tool_call_id": "c1", "name": "read", "content": "kept"}
    log = _log(tmp_path, ("prompt:submit", {"prompt": "go"}), _post("c1", "logged"))
    assert recover([USER, CALLS, kept], log) == ([USER, CALLS, kept], [])


@pytest.mark.parametrize(
    ("messages", "submitted"),
    [
        ([], ["go"]),
        ([USER, {"role": "assistant", "content": "done"}], ["go", "and on"]),
        ([USER, {"role": "assistant", "content": "done"}], ["go", "go"]),
    ],
)
def test_a_prompt_that_was_taken_is_not_lost(tmp_path: Path, messages: list[Any], submitted: list[str]) -> None:
    """A prompt that is in the log and not yet in the transcript is a message, even when it repeats the one before."""
    log = _log(tmp_path, *(("prompt:submit", {"prompt": prompt}) for prompt in submitted))
    completed, notes = recover(messages, log)
    assert completed[:-1] == messages
    assert completed[-1] == {"role": "user", "content": submitted[-1], "metadata": {"recovered_from_log": True}}
    assert notes == ["the last prompt was taken from the log"]


def test_a_prompt_that_is_kept_is_not_added(tmp_path: Path) -> None:
    """What the transcript has is not taken from the log again."""
    assert recover([USER], _log(tmp_path, ("prompt:submit", {"prompt": "go"}))) == ([USER], [])
    assert recover([USER, CALLS], tmp_path) == ([USER, CALLS], [])


def test_calls_of_earlier_turns_are_none_of_its_business(tmp_path: Path) -> None:
    """Only the last turn is completed: what is broken before it is for the repair."""
    messages = [USER, CALLS, {"role": "user", "content": "next"}, {"role": "assistant", "content": "done"}]
    log = _log(tmp_path, ("prompt:submit", {"prompt": "go"}), _post("c1", "x"), ("prompt:submit", {"prompt": "next"}))
    assert recover(messages, log) == (messages, [])


def test_a_log_that_is_not_there_adds_nothing(tmp_path: Path) -> None:
    """Without a log the conversation stays as it is, and that is said."""
    messages, notes = recover([USER], tmp_path)
    assert messages == [USER]
    assert notes == [] or "could not be used" in notes[0]


def test_a_torn_log_is_used_as_far_as_it_goes(tmp_path: Path) -> None:
    """The half line that a crash leaves at the end costs only itself."""
    _log(tmp_path, ("prompt:submit", {"prompt": "go"}), _post("c1", "whole"))
    with (tmp_path / "events.jsonl").open("ab") as file:
        file.write(b'{"event": "tool:post", "da')
    messages, _ = recover([USER, CALLS], tmp_path)
    assert [message["content"] for message in messages[2:]] == ["whole"]

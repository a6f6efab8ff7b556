"""A conversation that a crash cut off, completed from the log."""

from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.sessions.resume import recover
from amplifier_kit.engine.pairing import check_pairing
from amplifier_kit.log.writer import SessionLog

USER: dict[str, Any] = {"role": "user", "content": "go"}
CALLS: dict[str, Any] = {
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
    assert all(message["metadata"]["recovered_from_log"] is True for message in messages[2:])
    assert check_pairing(messages) == []
    assert notes == [
        "the result of read (c1) was recovered from the log",
        "the result of grep (c2) was recovered from the log",
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
    assert (completed[-1]["role"], completed[-1]["content"]) == ("user", submitted[-1])
    assert completed[-1]["metadata"]["recovered_from_log"] is True
    assert recover(completed, log) == (completed, []), "a second time nothing is missing"
    assert notes == ["the last prompt was recovered from the log"]


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


def _said(content: str, at: str, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": content, "metadata": {"timestamp": at, **more}}


def _timed(folder: Path, *events: tuple[str, str, dict[str, Any]]) -> Path:
    with SessionLog(folder) as log:
        for event, at, data in events:
            status = {"status": data.pop("status")} if "status" in data else {}
            log.write({"event": event, "lvl": "INFO", "ts": at, "session_id": "s", "data": data, **status})
    return folder


def _at(second: int) -> str:
    return f"2026-01-01T00:00:{second:02}.500000+00:00"


DONE = {"role": "assistant", "content": "done"}


def test_messages_of_hooks_are_no_prompts(tmp_path: Path) -> None:
    """What a hook put in the user's mouth does not stand for a prompt that is missing."""
    log = _timed(
        tmp_path,
        ("prompt:submit", _at(1), {"prompt": "go"}),
        ("provider:request", _at(2), {}),
        ("prompt:submit", _at(5), {"prompt": "and on"}),
    )
    messages = [_said("go", _at(1)), _said("<reminder>", _at(2), source="hook"), DONE]
    completed, notes = recover(messages, log)
    assert completed[3]["content"] == "and on"
    assert notes == ["the last prompt was recovered from the log"]


def test_a_changed_prompt_is_not_added_again(tmp_path: Path) -> None:
    """A prompt that hooks changed before it was kept is known by its time, not by its words."""
    log = _timed(tmp_path, ("prompt:submit", _at(1), {"prompt": "go"}), ("provider:request", _at(2), {}))
    messages = [_said("go, please", _at(1)), CALLS]
    assert recover(messages, log) == (messages, [])


def test_a_prompt_is_not_doubled_behind_its_calls(tmp_path: Path) -> None:
    """When an earlier prompt was denied there are more prompts than messages, and still none is missing."""
    log = _log(
        tmp_path,
        ("prompt:submit", {"prompt": "bad"}),
        ("prompt:complete", {}),
        ("prompt:submit", {"prompt": "go"}),
        ("provider:request", {}),
        ("provider:response", {}),
        _post("c1", "kept"),
    )
    messages, notes = recover([USER, CALLS], log)
    assert [message["role"] for message in messages] == ["user", "assistant", "tool"]
    assert notes == ["the result of read (c1) was recovered from the log"]


def test_a_denied_prompt_is_not_taken_up(tmp_path: Path) -> None:
    """A prompt that a hook denied never became a message, and does not become one when the session is resumed."""
    log = _timed(
        tmp_path,
        ("prompt:submit", _at(1), {"prompt": "go"}),
        ("provider:request", _at(2), {}),
        ("prompt:submit", _at(5), {"prompt": "forbidden"}),
        ("prompt:complete", _at(6), {}),
        ("execution:end", _at(6), {"response": "Operation denied: no", "status": "completed"}),
    )
    messages = [_said("go", _at(1))]
    assert recover(messages, log) == (messages, [])


def test_an_answer_that_was_given_is_not_lost(tmp_path: Path) -> None:
    """An answer that the log has and the transcript has not is taken from there, once."""
    log = _timed(
        tmp_path,
        ("prompt:submit", _at(1), {"prompt": "go"}),
        ("provider:request", _at(2), {}),
        ("execution:end", _at(3), {"response": "All is well. " * 5000, "status": "completed"}),
    )
    completed, notes = recover([_said("go", _at(1))], log)
    assert completed[1]["role"] == "assistant"
    assert completed[1]["content"] == "All is well. " * 5000
    assert notes == ["the answer was recovered from the log"]
    assert recover(completed, log) == (completed, [])
    reminded = [_said("go", _at(1)), DONE, _said("<r>", _at(3), source="hook")]
    assert recover(reminded, log) == (reminded, []), "a hook may speak behind the answer"


def test_a_failed_turn_gets_no_answer(tmp_path: Path) -> None:
    """A turn that ended with an error has no answer to be taken."""
    log = _timed(
        tmp_path,
        ("prompt:submit", _at(1), {"prompt": "go"}),
        ("provider:request", _at(2), {}),
        ("execution:end", _at(3), {"response": "half of it", "status": "error"}),
    )
    assert recover([_said("go", _at(1))], log) == ([_said("go", _at(1))], [])


def test_ids_that_come_again_are_told_apart_by_turn(tmp_path: Path) -> None:
    """A call of an earlier turn does not get the result of a later one that has the same id."""
    log = _timed(
        tmp_path,
        ("prompt:submit", _at(1), {"prompt": "go"}),
        ("provider:request", _at(2), {}),
        ("prompt:submit", _at(5), {"prompt": "on"}),
        ("tool:post", _at(6), {"tool_call_id": "c1", "tool_name": "read", "result": {"output": "of the second turn"}}),
    )
    completed, _ = recover([_said("go", _at(1)), CALLS], log)
    assert [message["role"] for message in completed] == ["user", "assistant", "user"]


def test_a_lost_blob_costs_only_its_result(tmp_path: Path) -> None:
    """A result whose content was deleted is told, and the others are taken all the same."""
    log = _log(tmp_path, ("prompt:submit", {"prompt": "go"}), _post("c1", "x" * 100_000), _post("c2", "small"))
    blobs = [path for path in tmp_path.rglob("*") if path.is_file() and "blobs" in path.parts]
    assert blobs
    for blob in blobs:
        blob.unlink()
    completed, notes = recover([USER, CALLS], log)
    assert [message["content"] for message in completed[2:]] == ["small"]
    assert notes[0].startswith("the log has lost the result of read (c1): ")


def test_an_error_is_told_as_the_loop_tells_it(tmp_path: Path) -> None:
    """The reason of a failure stands beside the data of its line, as the kernel writes it."""
    with SessionLog(tmp_path) as log:
        log.write({"event": "prompt:submit", "data": {"prompt": "go"}})
        log.write({"event": "tool:error", "data": {"tool_call_id": "c1"}, "error": {"message": "no disk"}})
    completed, _ = recover([USER, CALLS], tmp_path)
    assert completed[2]["content"] == "Error: no disk"

"""Forks of saved sessions: their messages, their events, and where they come from."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.session import (
    count_events,
    fork_session,
    fork_session_in_memory,
    get_event_summary,
    get_fork_preview,
    get_last_timestamp_for_turn,
    get_session_lineage,
    list_session_forks,
    load_metadata,
    load_transcript,
    read_jsonl,
    slice_events_for_fork,
    slice_events_to_timestamp,
    write_jsonl,
)

USER: dict[str, Any] = {"role": "user", "content": "Fix the test."}
CALL: dict[str, Any] = {
    "role": "assistant",
    "content": "",
    "tool_calls": [{"id": "a", "tool": "bash", "arguments": {}}],
}
ANSWER: dict[str, Any] = {"role": "assistant", "content": "Done."}


@pytest.fixture
def session(tmp_path: Path, published_session: Callable[[Path], Path]) -> Path:
    """Return the folder of a session that the published program has left: three turns, ten events each."""
    return published_session(tmp_path / "sessions" / "pub")


@pytest.mark.parametrize("spelled", [Path, str])
def test_a_fork_has_the_events_of_its_turns(session: Path, spelled: Any) -> None:
    """Messages have their times in their metadata: the log is cut there, and gets the ids of the fork."""
    fork = fork_session(spelled(session), 2)
    assert fork.session_dir is not None
    assert fork.session_dir == session.parent / fork.session_id
    assert (fork.parent_id, fork.forked_from_turn, fork.message_count, fork.messages) == ("pub", 2, 4, None)
    assert load_transcript(fork.session_dir) == load_transcript(session)[:4]
    events = read_jsonl(fork.session_dir / "events.jsonl")
    assert len(events) == fork.events_count > 10
    assert [event["event"] for event in events].count("prompt:submit") == 2
    assert events[-1]["event"] == "prompt:complete"
    assert {(event["session_id"], event["parent_session_id"]) for event in events} == {(fork.session_id, "pub")}
    facts = load_metadata(fork.session_dir)
    assert (facts["parent_id"], facts["forked_from_turn"], facts["turn_count"]) == ("pub", 2, 2)
    assert facts["bundle"] == "bundle:x"


def test_a_fork_goes_where_it_is_wanted(session: Path, tmp_path: Path) -> None:
    """The folder and the id can be chosen, events left out; without a turn all are copied."""
    fork = fork_session(session, new_session_id="second", include_events=False)
    assert (fork.session_dir, fork.forked_from_turn, fork.events_count) == (session.parent / "second", 3, 0)
    assert not (session.parent / "second" / "events.jsonl").exists()
    elsewhere = fork_session(session, turn=1, target_dir=str(tmp_path / "other" / "place"))
    assert (elsewhere.session_id, elsewhere.session_dir) == ("place", tmp_path / "other" / "place")
    named = fork_session(session, turn=1, target_dir=tmp_path / "third", new_session_id="named")
    assert load_metadata(tmp_path / "third")["session_id"] == named.session_id == "named"
    with pytest.raises(ValueError, match="exists already"):
        fork_session(session, target_dir=tmp_path / "third")
    with pytest.raises(ValueError, match="exists already"):
        fork_session(session, new_session_id="second")


def test_what_cannot_be_forked_leaves_nothing(session: Path) -> None:
    """A missing session, turn or result is an error, before anything is written."""
    write_jsonl(session / "transcript.jsonl", [USER, CALL, USER, ANSWER])
    with pytest.raises(FileNotFoundError, match="no session in"):
        fork_session(session.parent / "gone")
    with pytest.raises(ValueError, match="turn 9 does not exist: the conversation has turns 1 to 2"):
        fork_session(session, 9)
    with pytest.raises(ValueError, match="turn 0 does not exist"):
        fork_session(session, 0)
    with pytest.raises(ValueError, match="without a result: 'a'"):
        fork_session(session, 1, handle_orphaned_tools="error")
    assert [path.name for path in session.parent.iterdir()] == ["pub"]
    assert fork_session(session, 1, handle_orphaned_tools="remove").message_count == 1


def test_a_fork_ends_before_a_reminder(session: Path) -> None:
    """A reminder in the user's role starts a turn for forks as it does for `count_turns`; events are cut there too."""
    prompt, answer, *rest = load_transcript(session)
    note = {"role": "user", "content": "<system-reminder>x</system-reminder>"}
    write_jsonl(session / "transcript.jsonl", [prompt, note, answer, *rest])
    fork = fork_session(session, 1)
    assert fork.session_dir is not None
    assert load_transcript(fork.session_dir) == [prompt]
    assert [event["event"] for event in read_jsonl(fork.session_dir / "events.jsonl")] == [
        "session:start",
        "prompt:submit",
        "provider:request",
    ]
    assert fork_session(session).forked_from_turn == 4


def test_a_fork_in_memory_writes_nothing() -> None:
    """It has the messages, an id, and no folder; the conversation does not change."""
    messages = [USER, CALL, USER, ANSWER]
    fork = fork_session_in_memory(messages, 1, parent_id="pub")
    assert (fork.session_dir, fork.parent_id, fork.forked_from_turn, fork.message_count) == (None, "pub", 1, 3)
    assert fork.messages is not None
    assert [message["role"] for message in fork.messages] == ["user", "assistant", "tool"]
    whole = fork_session_in_memory(messages, new_session_id="x", handle_orphaned_tools="remove")
    assert (whole.session_id, whole.messages, whole.parent_id) == ("x", [USER, USER, ANSWER], None)
    assert fork.session_id != fork_session_in_memory([]).session_id
    assert messages == [USER, CALL, USER, ANSWER]


def test_a_preview_says_what_a_fork_would_have(session: Path) -> None:
    """Its counts are those of the fork, and nothing is written."""
    preview = get_fork_preview(str(session), 2)
    assert [path.name for path in session.parent.iterdir()] == ["pub"]
    fork = fork_session(session, 2)
    assert (preview["message_count"], preview["events_count"]) == (fork.message_count, fork.events_count)
    assert (preview["parent_id"], preview["turn"], preview["max_turns"]) == ("pub", 2, 3)
    assert (preview["last_user_message"], preview["last_assistant_message"]) == ("prompt 2", "x")
    assert preview["has_orphaned_tools"] is False
    write_jsonl(session / "transcript.jsonl", [USER, CALL, USER, ANSWER])
    preview = get_fork_preview(session, 1)
    assert (preview["has_orphaned_tools"], preview["orphaned_tool_count"]) == (True, 1)
    assert preview["orphaned_tool_ids"] == ["a"]
    with pytest.raises(ValueError, match="turn 3 does not exist"):
        get_fork_preview(session, 3)


def test_forks_know_where_they_come_from(session: Path) -> None:
    """The line goes from a fork to the first original; children that are no forks are not listed as such."""
    first = fork_session(session, 2, "first")
    second = fork_session(session, 1, "second")
    third = fork_session(session.parent / "first", 1, "third")
    child = session.parent / "child"
    child.mkdir()
    (child / "metadata.json").write_text(json.dumps({"session_id": "child", "parent_id": "pub"}), encoding="utf-8")
    assert [fork["session_id"] for fork in list_session_forks(session)] == ["first", "second"]
    assert list_session_forks(session)[1]["session_dir"] == second.session_dir
    assert list_session_forks(str(session))[0]["forked_from_turn"] == first.forked_from_turn
    lineage = get_session_lineage(session.parent / "third")
    assert (lineage["session_id"], lineage["parent_id"], lineage["forked_from_turn"]) == ("third", "first", 1)
    assert (lineage["ancestors"], lineage["root_id"], lineage["depth"]) == (["first", "pub"], "pub", 2)
    root = get_session_lineage(str(session))
    assert (root["ancestors"], root["root_id"], root["depth"], root["forked_from_turn"]) == ([], "pub", 0, None)
    assert [fork["session_id"] for fork in root["forks"]] == ["first", "second"]
    assert third.parent_id == "first"


def test_events_are_counted(session: Path) -> None:
    """A log is given by its file or its folder; one that is missing has no events."""
    assert count_events(session / "events.jsonl") == count_events(str(session)) == 30
    assert count_events(session / "gone.jsonl") == 0
    summary = get_event_summary(session / "events.jsonl")
    assert summary["total_events"] == 30
    assert next(iter(summary["event_types"].items())) == ("prompt:complete", 6)
    assert summary["event_types"]["prompt:submit"] == 3
    assert summary["first_timestamp"].startswith("2026-01-01T00:00:00.5")
    assert summary["last_timestamp"].startswith("2026-01-03T00:00:09.5")
    assert get_event_summary(session / "gone.jsonl") == {
        "total_events": 0,
        "event_types": {},
        "first_timestamp": None,
        "last_timestamp": None,
    }


def test_the_last_time_of_a_turn(session: Path) -> None:
    """Times are in the metadata of messages, or beside them in older transcripts; a turn without any has none."""
    assert get_last_timestamp_for_turn(session, 2) == "2026-01-02T00:00:03.700+00:00"
    assert get_last_timestamp_for_turn(session / "transcript.jsonl", 2) == "2026-01-02T00:00:03.700+00:00"
    old = [{**USER, "timestamp": "t1"}, ANSWER, {**USER, "ts": "t2"}, USER]
    assert [get_last_timestamp_for_turn(old, turn) for turn in (1, 2, 3)] == ["t1", "t2", None]
    with pytest.raises(ValueError, match="turn 4 does not exist"):
        get_last_timestamp_for_turn(session, 4)


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        ("2026-01-01T00:00:03.700+00:00", 4),
        ("2026-01-01T00:00:03.500", 4),
        ("2026-01-01T01:00:03.499+01:00", 3),
        (datetime(2026, 1, 2, 12, tzinfo=UTC), 20),
        ("2020-01-01T00:00:00+00:00", 0),
        ("2030-01-01T00:00:00+00:00", 30),
    ],
)
def test_events_are_cut_at_a_time(session: Path, moment: Any, expected: int) -> None:
    """What was written by that time is copied, with new ids where they are given."""
    copy = session.parent / "new" / "part.jsonl"
    assert slice_events_to_timestamp(session / "events.jsonl", moment, str(copy), new_session_id="n") == expected
    events = read_jsonl(copy)
    assert len(events) == expected
    assert {event["session_id"] for event in events} <= {"n"}
    assert not any("parent_session_id" in event for event in events)
    assert [path.name for path in copy.parent.iterdir()] == ["part.jsonl"]


def test_events_are_cut_at_a_turn(session: Path) -> None:
    """A turn is copied to its last event, without a change unless ids are given; a copy replaces no file."""
    copy = session.parent / "part.jsonl"
    events = read_jsonl(session / "events.jsonl")
    written = slice_events_for_fork(session / "events.jsonl", session / "transcript.jsonl", 1, copy)
    assert read_jsonl(copy) == events[:written]
    assert events[written - 1]["event"] == "prompt:complete"
    assert [event["event"] for event in events[:written]].count("prompt:submit") == 1
    with pytest.raises(FileExistsError):
        slice_events_for_fork(session, session, 2, copy)
    assert read_jsonl(copy) == events[:written]
    with pytest.raises(ValueError, match="turn 7 does not exist"):
        slice_events_for_fork(session, load_transcript(session), 7, session.parent / "none.jsonl")
    with pytest.raises(ValueError, match="invalid time 'soon'"):
        slice_events_to_timestamp(session, "soon", session.parent / "none.jsonl")
    assert not (session.parent / "none.jsonl").exists()


def test_copied_events_have_no_secrets(tmp_path: Path) -> None:
    """What a published log holds unmasked is masked in its copies, which are for their owner alone."""
    secret = "sk-ant-api03-" + "q7Zx" * 20
    event = {"event": "tool:post", "ts": "2026-01-01T00:00:00+00:00", "session_id": "s", "data": {"result": secret}}
    (tmp_path / "events.jsonl").write_text(json.dumps(event) + "\n", encoding="utf-8")
    copy = tmp_path / "copy.jsonl"
    assert slice_events_to_timestamp(tmp_path / "events.jsonl", "2026-02-01", copy, parent_session_id="p") == 1
    [copied] = read_jsonl(copy)
    assert secret not in copy.read_text(encoding="utf-8")
    assert {**copied, "data": {}} == {**event, "data": {}, "parent_session_id": "p"}
    assert copy.stat().st_mode & 0o777 == 0o600


def test_events_are_cut_before_steering(tmp_path: Path) -> None:
    """What a user says in a running turn starts one as well: the copy ends before the event that brought it."""
    names = ["prompt:submit", "provider:response", "tool:post", "provider:request", "orchestrator:steering_injected"]
    calls = [{"tool_call_id": "a"} if name == "tool:post" else {} for name in names]
    events = [{"event": name, "session_id": "s", "data": data} for name, data in zip(names, calls, strict=True)]
    write_jsonl(tmp_path / "events.jsonl", [*events, {"event": "provider:response", "session_id": "s", "data": {}}])
    result = {"role": "tool", "tool_call_id": "a", "name": "bash", "content": "1 failed"}
    steering = {"role": "user", "content": "Stop.", "metadata": {"source": "steering"}}
    messages = [USER, CALL, result, steering, ANSWER]
    copy = tmp_path / "copy" / "events.jsonl"
    assert slice_events_for_fork(tmp_path, messages, 1, copy) == 4
    assert read_jsonl(copy) == events[:4]
    assert slice_events_for_fork(tmp_path, messages, 2, tmp_path / "whole" / "events.jsonl") == 6

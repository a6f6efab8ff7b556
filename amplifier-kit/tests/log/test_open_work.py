"""Everything that started has an end in the log, whatever prevented the real one."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from amplifier_kit.log.open_work import TRACKED, OpenWork

#: What a turn of our loops says, in order; `c` and `d` are a tool and a child.
TURN: tuple[tuple[str, dict[str, Any]], ...] = (
    ("execution:start", {"turn_id": "t"}),
    ("prompt:submit", {"turn_id": "t"}),
    ("tool:pre", {"tool_call_id": "c", "tool_name": "look", "turn_id": "t"}),
    ("delegate:agent_spawned", {"sub_session_id": "d", "agent": "x", "tool_call_id": "c", "turn_id": "t"}),
    ("delegate:agent_completed", {"sub_session_id": "d", "tool_call_id": "c"}),
    ("tool:post", {"tool_call_id": "c"}),
    ("prompt:complete", {}),
    ("orchestrator:complete", {}),
    ("execution:end", {}),
)
PAIRS = (
    ("session:start", ("session:end",)),
    ("execution:start", ("execution:end",)),
    ("prompt:submit", ("prompt:complete", "orchestrator:complete", "execution:end")),
    ("tool:pre", ("tool:post", "tool:error")),
    ("delegate:agent_spawned", ("delegate:agent_completed", "delegate:agent_cancelled", "delegate:error")),
)


@given(st.lists(st.sets(st.integers(0, len(TURN) - 1)), min_size=1, max_size=3), st.booleans())
def test_whatever_is_kept_from_the_log_what_it_has_the_start_of_ends_once(
    lost: list[set[int]], loses_end: bool
) -> None:
    """Any events of any turns may be missing: every start has its end, no end is there twice, the last comes last."""
    written: list[str] = []
    unended = OpenWork("x", lambda event, data: written.append(event), lambda: "cancelled")

    def hear(event: str, data: dict[str, Any]) -> None:
        unended.note(event, data)
        written.append(event)

    hear("session:start", {})
    for place, turn in enumerate(lost):
        for number, (event, data) in enumerate(TURN):
            if number not in turn:
                hear(event, {key: f"{value}{place}" for key, value in data.items()})
    if not loses_end:
        hear("session:end", {})
    unended.end()
    count = Counter(written)
    for start, ends in PAIRS:
        assert count[start] <= sum(count[end] for end in ends), written
    for number, (event, _) in enumerate(TURN):
        kept = sum(number not in turn for turn in lost)
        assert kept <= count[event] <= len(lost), event
    assert written[-1] == "session:end"
    assert set(written) <= TRACKED


@given(st.integers(1, 4))
def test_what_is_whole_is_left_alone(turns: int) -> None:
    """Of sessions that end as they should, nothing is written."""
    written: list[str] = []
    unended = OpenWork("x", lambda event, data: written.append(event), lambda: "completed")
    for event, data in (("session:resume", {}), *TURN * turns, ("session:end", {})):
        unended.note(event, data)
    unended.end()
    assert written == []


def test_an_end_says_whose_it_is_and_that_the_log_wrote_it() -> None:
    """It has the ids of its start, a status and a time, and is marked as written by the log."""
    written: dict[str, dict[str, Any]] = {}
    status = ["cancelled"]
    unended = OpenWork("x", written.__setitem__, lambda: status[0])
    for event, data in (("session:start", {}), *TURN[:4]):
        unended.note(event, data)
    unended.end()
    assert list(written) == [
        *("delegate:agent_cancelled", "tool:error", "prompt:complete", "orchestrator:complete", "execution:end"),
        "session:end",
    ]
    assert all(data["written_by"] == "x" and data["status"] == "cancelled" for data in written.values())
    assert all(
        data["turn_id"] == "t" and data["duration_ms"] >= 0 for event, data in written.items() if event[0] != "s"
    )
    assert (written["tool:error"]["tool_name"], written["tool:error"]["error"]["type"]) == ("look", "cancelled")
    assert written["delegate:agent_cancelled"]["sub_session_id"] == "d"
    status[0] = "failed"
    unended.note("session:start", {})
    unended.note(*TURN[0])
    unended.end()
    assert (written["execution:end"]["status"], written["session:end"]["status"]) == ("incomplete", "failed")


def test_a_child_may_end_after_its_turn() -> None:
    """A child that outlives its turn is not ended with it: its own end is the only one."""
    written: list[str] = []
    unended = OpenWork("x", lambda event, data: written.append(event), lambda: "cancelled")
    for event, data in (("session:start", {}), *TURN[:4], *TURN[5:], *TURN[:2]):
        assert unended.note(event, data)
    assert written == []
    assert unended.note("delegate:agent_cancelled", {"sub_session_id": "d", "tool_call_id": "c"})
    unended.end()
    assert "delegate:agent_cancelled" not in written


def test_an_end_that_comes_after_the_log_has_written_it_is_not_written_again() -> None:
    """A child has one end, also when its session ends first; when it is resumed after that, it ends again."""
    written: list[str] = []
    unended = OpenWork("x", lambda event, data: written.append(event), lambda: "cancelled")
    for event, data in (("session:start", {}), *TURN[:4], ("session:end", {})):
        unended.note(event, data)
    assert written.count("delegate:agent_cancelled") == 1
    end = ("delegate:agent_completed", {"sub_session_id": "d", "tool_call_id": "c"})
    assert not unended.note(*end)
    unended.note("delegate:agent_resumed", end[1])
    assert unended.note(*end)


def test_a_call_that_is_refused_ends_nobody_else() -> None:
    """A call that is refused because its child is busy leaves the child with one end."""
    written: list[tuple[str, str]] = []
    unended = OpenWork("x", lambda event, data: written.append((event, data["tool_call_id"])), lambda: "completed")
    for event, data in TURN[2:4]:
        unended.note(event, data)
    unended.note("delegate:error", {"sub_session_id": "d", "tool_call_id": "other"})
    assert unended.children == ["d"]
    unended.end()
    assert written == [("delegate:agent_cancelled", "c"), ("tool:error", "c")]


def _told(*events: tuple[str, dict[str, Any]]) -> list[str]:
    """Return what a log has when these events come and then nothing more."""
    written: list[str] = []
    unended = OpenWork("x", lambda event, data: written.append(event), lambda: "cancelled")
    for event, data in events:
        if unended.note(event, data):
            written.append(event)
    unended.end()
    return written


def test_an_end_without_its_call_is_that_of_the_only_child_of_that_id() -> None:
    """A tool that names its call at the start alone has ended its child; it is not ended once more."""
    begun = ("delegate:agent_spawned", {"sub_session_id": "d", "tool_call_id": "c"})
    ended = ("delegate:agent_completed", {"sub_session_id": "d"})
    assert _told(begun, ended) == ["delegate:agent_spawned", "delegate:agent_completed"]


def test_a_late_end_without_its_call_is_dropped_too() -> None:
    """A child whose end was written for it has one end, also when the late one does not name the call."""
    begun = ("delegate:agent_spawned", {"sub_session_id": "d", "tool_call_id": "c"})
    ended = ("delegate:agent_completed", {"sub_session_id": "d"})
    over: tuple[str, dict[str, Any]] = ("session:end", {})
    assert _told(begun, over, ended) == ["delegate:agent_spawned", "delegate:agent_cancelled", "session:end"]


def test_the_children_of_a_process_that_is_gone_are_not_ended_by_the_next() -> None:
    """Work of a killed process that the resumed session continued is not reported as cancelled."""
    call = {"sub_session_id": "d", "tool_call_id": "c"}
    again = {"sub_session_id": "d", "tool_call_id": "e"}
    told = _told(
        ("session:start", {}),
        ("delegate:agent_spawned", call),
        ("session:resume", {}),
        ("delegate:agent_resumed", again),
        ("delegate:agent_completed", again),
        ("session:end", {}),
    )
    assert "delegate:agent_cancelled" not in told

"""Turns are counted as a person counts them, and cut without leaving calls unpaired."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_foundation.sessions.turns import (
    OrphanedCallsError,
    TurnRangeError,
    count_turns,
    is_real_user_message,
    settle_orphans,
    slice_to_turn,
    starts_turn,
    turn_boundaries,
)
from amplifier_kit.engine.pairing import check_pairing

Message = dict[str, Any]


def _user(text: str = "go", **metadata: Any) -> Message:
    return {"role": "user", "content": text, "metadata": metadata}


def _call(*ids: str, text: str = "") -> Message:
    calls = [{"id": call, "tool": "look", "arguments": {}} for call in ids]
    blocks: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    blocks += [{"type": "tool_call", "id": call, "name": "look", "input": {}} for call in ids]
    return {"role": "assistant", "content": blocks, "tool_calls": calls}


def _result(call: str) -> Message:
    return {"role": "tool", "tool_call_id": call, "name": "look", "content": "seen"}


def _say(text: str = "done") -> Message:
    return {"role": "assistant", "content": text}


@pytest.mark.parametrize(
    ("message", "is_real", "starts"),
    [
        (_user(), True, True),
        ({"role": "user", "content": [{"type": "text", "text": "go"}]}, True, True),
        ({"role": "user", "content": ""}, True, True),
        (_user("more", source="steering"), True, False),
        (_user("note", source="hook"), False, False),
        (_user("goal", source="goal"), False, False),
        (_user('  <system-reminder source="x">y</system-reminder>'), False, False),
        ({"role": "user", "content": [{"type": "text", "text": "<system-reminder>x"}]}, False, False),
        ({"role": "user", "content": "r", "tool_call_id": "c"}, False, False),
        (_say(), False, False),
        (_result("c"), False, False),
    ],
)
def test_only_a_person_starts_a_turn(message: Message, is_real: bool, starts: bool) -> None:
    """Reminders, hooks, goals and results are in the user's role and are no turns; steering belongs to its turn."""
    assert is_real_user_message(message) is is_real
    assert starts_turn(message) is starts


def test_a_turn_ends_where_the_next_begins() -> None:
    """Everything from a prompt to the next one is one turn."""
    messages = [_user("a"), _call("1"), _result("1"), _user("note", source="hook"), _say(), _user("b"), _say()]
    assert turn_boundaries(messages) == [0, 5]
    assert count_turns(messages) == 2
    assert slice_to_turn(messages, 1) == messages[:5]
    assert slice_to_turn(messages, 2) == messages
    assert slice_to_turn(messages, 0) == []


@pytest.mark.parametrize("turn", [-1, 3, 100])
def test_a_turn_that_is_not_there_is_an_error(turn: int) -> None:
    """The error says which turns there are."""
    with pytest.raises(TurnRangeError, match=f"turn {turn} does not exist: the conversation has turns 1 to 2"):
        slice_to_turn([_user(), _say(), _user(), _say()], turn)
    with pytest.raises(TurnRangeError, match="has no turns"):
        slice_to_turn([], turn)


def test_calls_without_a_result_are_completed_removed_or_an_error() -> None:
    """The three ways to treat a call whose result is missing."""
    messages = [_user(), _call("a", "b", text="I look"), _result("a")]
    completed = slice_to_turn(messages, 1)
    assert completed[:3] == messages
    assert (completed[3]["tool_call_id"], completed[3]["metadata"]) == ("b", {"synthetic": True})
    removed = slice_to_turn(messages, 1, "remove")
    assert removed == [_user(), _call("a", text="I look"), _result("a")]
    with pytest.raises(OrphanedCallsError, match="'b' \\(look\\)") as raised:
        slice_to_turn(messages, 1, "error")
    assert raised.value.tool_call_ids == ["b"]


def test_a_message_that_only_called_goes_with_its_calls() -> None:
    """With all its calls removed, a message that says nothing else is gone, and its made-up answer with it."""
    messages = [_user("a"), _call("x", "y"), _user("b"), _say()]
    assert slice_to_turn(messages, 2, "remove") == [_user("a"), _user("b"), _say()]
    with_text = [_user("a"), _call("x", text="I look"), _user("b"), _say()]
    kept = slice_to_turn(with_text, 2, "remove")
    assert kept == [_user("a"), {"role": "assistant", "content": [{"type": "text", "text": "I look"}]}, *with_text[2:]]


def test_a_result_that_stands_elsewhere_is_no_orphan() -> None:
    """A result in the wrong place is moved, whatever happens to orphans."""
    messages = [_user(), _call("a"), _say("late"), _result("a")]
    for orphans in ("complete", "remove", "error"):
        assert settle_orphans(messages, orphans) == [_user(), _call("a"), _result("a"), _say("late")]


def test_an_unknown_way_is_refused() -> None:
    """A misspelled way is an error, not the default."""
    with pytest.raises(ValueError, match="orphans must be one of complete, remove, error, got 'drop'"):
        settle_orphans([], "drop")  # type: ignore[arg-type]


MESSAGES = st.lists(
    st.one_of(
        st.builds(_user, st.sampled_from(["a", "b"])),
        st.builds(lambda ids: _call(*ids), st.lists(st.sampled_from("xyz"), min_size=1, max_size=3, unique=True)),
        st.builds(_result, st.sampled_from("xyzw")),
        st.builds(_say),
    ),
    max_size=12,
)


@given(MESSAGES, st.sampled_from(["complete", "remove"]), st.data())
def test_any_slice_is_sound(messages: list[Message], orphans: Any, data: st.DataObject) -> None:
    """However broken a conversation is, what is cut out of it is paired, and has the turns that were asked for."""
    turn = data.draw(st.integers(0, count_turns(messages)))
    before = [dict(message) for message in messages]
    sliced = slice_to_turn(messages, turn, orphans)
    assert check_pairing(sliced) == []
    assert count_turns(sliced) == turn
    assert messages == before

"""Conversations of saved sessions: their turns, calls without a result, diagnosis and repair."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amplifier_foundation.session import (
    IncompleteTurn,
    add_synthetic_tool_results,
    build_tool_index,
    count_turns,
    diagnose_transcript,
    find_orphaned_tool_calls,
    get_turn_boundaries,
    get_turn_summary,
    is_real_user_message,
    load_transcript_with_lines,
    repair_transcript,
    rewind_transcript,
    slice_to_turn,
)
from amplifier_kit.engine.pairing import check_pairing

Message = dict[str, Any]
REMINDER = "<system-reminder>Use the todo list.</system-reminder>"


def _user(text: str = "Fix the test.") -> Message:
    return {"role": "user", "content": text}


def _call(*ids: str) -> Message:
    calls = [{"id": call, "tool": "read_file", "arguments": {}} for call in ids]
    return {"role": "assistant", "content": "", "tool_calls": calls}


def _block_call(call: str) -> Message:
    block = {"type": "tool_use", "id": call, "name": "grep", "input": {}}
    return {"role": "assistant", "content": [{"type": "text", "text": "I search."}, block]}


def _result(call: str) -> Message:
    return {"role": "tool", "tool_call_id": call, "name": "read_file", "content": "def test(): ..."}


def _answer(text: str = "Done.") -> Message:
    return {"role": "assistant", "content": [{"type": "text", "text": text}]}


_MESSAGES = st.lists(
    st.one_of(
        st.builds(_user, st.sampled_from(["a", REMINDER])),
        st.builds(lambda ids: _call(*ids), st.lists(st.sampled_from("xyz"), min_size=1, max_size=3, unique=True)),
        st.builds(_block_call, st.sampled_from("xyz")),
        st.builds(_result, st.sampled_from("xyzw")),
        st.builds(_answer),
    ),
    max_size=12,
)


def test_each_message_of_the_user_starts_a_turn() -> None:
    """Turns are counted by role, reminders included, although no person wrote those."""
    messages = [_user(), _answer(), _user(REMINDER), _answer(), _user()]
    assert get_turn_boundaries(messages) == [0, 2, 4]
    assert count_turns(messages) == 3
    assert [is_real_user_message(message) for message in messages] == [True, False, False, False, True]
    assert not is_real_user_message({"role": "user", "content": "x", "tool_call_id": "a"})


@given(_MESSAGES, st.sampled_from(["complete", "remove"]), st.data())
def test_any_slice_is_paired(messages: list[Message], orphans: Any, data: st.DataObject) -> None:
    """A slice has the turns that were asked for, and its calls are paired; the conversation does not change."""
    turns = count_turns(messages)
    before = json.dumps(messages)
    turn = data.draw(st.integers(1, turns)) if turns else 0
    if not turns:
        with pytest.raises(ValueError, match="the conversation has no turns"):
            slice_to_turn(messages, 1)
        return
    sliced = slice_to_turn(messages, turn, handle_orphaned_tools=orphans)
    assert check_pairing(sliced) == []
    assert count_turns(sliced) == turn
    assert json.dumps(messages) == before


@pytest.mark.parametrize("turn", [-1, 0, 3])
def test_a_missing_turn_is_a_value_error(turn: int) -> None:
    """Turns are counted from 1, and the error says which there are."""
    for use in (slice_to_turn, get_turn_summary):
        with pytest.raises(ValueError, match=f"turn {turn} does not exist: the conversation has turns 1 to 2"):
            use([_user(), _answer(), _user()], turn)


def test_orphans_of_a_slice_can_be_an_error() -> None:
    """A call that the cut leaves without its result is refused when the caller wants that."""
    messages = [_user(), _call("a"), _user(), _result("a")]
    with pytest.raises(ValueError, match="'a' \\(read_file\\)"):
        slice_to_turn(messages, 1, "error")
    assert slice_to_turn(messages, 1, "remove") == [_user()]
    assert [message["role"] for message in slice_to_turn(messages, 1)] == ["user", "assistant", "tool"]


def test_a_summary_has_the_beginning_of_the_texts() -> None:
    """It has the prompt, the last answer and how many calls and messages there were."""
    messages = [_user(), _answer(), _user("Now the other one."), _call("a", "b"), _result("a"), _answer("Fixed it.")]
    assert get_turn_summary(messages, 2, max_length=8) == {
        "turn": 2,
        "user_content": "Now the…",
        "assistant_content": "Fixed i…",
        "tool_count": 2,
        "message_count": 4,
    }
    assert get_turn_summary(messages, 1)["user_content"] == "Fix the test."


def test_a_result_follows_the_message_that_calls() -> None:
    """A call is completed directly behind it; others stay as they are, and only the ids that were given count."""
    messages = [_user(), _call("a", "b"), _result("a"), _block_call("c"), _answer()]
    assert find_orphaned_tool_calls(messages) == ["b", "c"]
    completed = add_synthetic_tool_results(messages, ["b"])
    assert find_orphaned_tool_calls(completed) == ["c"]
    assert completed[2]["tool_call_id"] == "b"
    assert completed[2]["name"] == "read_file"
    assert "SYSTEM ERROR" in completed[2]["content"]
    assert [message for message in completed if message is not completed[2]] == messages


@given(_MESSAGES)
def test_all_orphans_are_completed(messages: list[Message]) -> None:
    """Nothing but results is added, and then no call is without one."""
    completed = add_synthetic_tool_results(messages)
    assert find_orphaned_tool_calls(completed) == []
    given = list(map(id, messages))
    assert [message for message in completed if id(message) in given] == messages
    assert all(message["role"] == "tool" for message in completed if id(message) not in given)


@given(_MESSAGES)
@example([_block_call("x"), _result("x")])
@example([_call("x"), _result("x"), _user()])
def test_a_repaired_conversation_is_healthy(messages: list[Message]) -> None:
    """Whatever is broken, the repair makes it healthy, keeps every turn, and finds nothing to do the second time."""
    before = json.dumps(messages)
    repaired = repair_transcript(messages, diagnose_transcript(messages))
    assert diagnose_transcript(repaired).status == "healthy"
    assert repair_transcript(repaired) == repaired
    assert count_turns(repaired) == count_turns(messages)
    assert json.dumps(messages) == before


@given(_MESSAGES)
@example([_call("x"), _result("x"), _user()])
def test_a_rewound_conversation_is_healthy(messages: list[Message]) -> None:
    """What is left is healthy and the beginning of what there was; a healthy conversation stays whole."""
    rewound = rewind_transcript(messages)
    assert diagnose_transcript(rewound).status == "healthy"
    assert rewound == messages[: len(rewound)]
    if diagnose_transcript(messages).status == "healthy" and is_real_user_message(next(iter(messages), {})):
        assert rewound == messages


def test_a_diagnosis_names_what_is_wrong() -> None:
    """It has the kinds of problems, the calls, and the turns without an answer."""
    messages = [_user(), _call("a"), _user(), _result("a"), _user(), _call("b"), _result("b")]
    found = diagnose_transcript(messages)
    assert (found.status, found.recommended_action) == ("broken", "repair")
    assert found.misplaced_tool_ids == ["a"]
    assert found.incomplete_turns == [
        IncompleteTurn(turn=1, after_line=2),
        IncompleteTurn(turn=2, after_line=4),
        IncompleteTurn(turn=3, after_line=7),
    ]
    healthy = diagnose_transcript([_user(), _answer()])
    assert (healthy.status, healthy.failure_modes, healthy.recommended_action) == ("healthy", [], "none")


def test_a_healthy_diagnosis_saves_the_work() -> None:
    """With it, nothing is repaired or taken back."""
    broken = [_user(), _call("a")]
    healthy = diagnose_transcript([_user(), _answer()])
    assert repair_transcript(broken, healthy) == rewind_transcript(broken, healthy) == broken
    assert repair_transcript(broken, diagnose_transcript(broken)) != broken


def test_messages_may_have_the_numbers_of_their_lines(tmp_path: Path) -> None:
    """Lines of a file are named by their numbers, and are gone in what the repair returns."""
    lines = ["", json.dumps(_user()), "not JSON", json.dumps(_call("a")), ""]
    (tmp_path / "transcript.jsonl").write_text("\n".join(lines), encoding="utf-8")
    messages = load_transcript_with_lines(tmp_path)
    assert [message["line_num"] for message in messages] == [2, 4]
    for transcript in (tmp_path, str(tmp_path), tmp_path / "transcript.jsonl", messages):
        assert diagnose_transcript(transcript).incomplete_turns == [IncompleteTurn(turn=1, after_line=4)]
    assert [message["role"] for message in repair_transcript(messages)] == ["user", "assistant", "tool", "assistant"]
    assert not any("line_num" in message for message in [*repair_transcript(messages), *rewind_transcript(messages)])


def test_the_index_says_where_calls_and_results_are() -> None:
    """Both are found by call id, with their tool and place; of several with one id, the first counts."""
    uses, results = build_tool_index([_user(), _call("a", "b"), _result("b"), _block_call("c"), _result("b")])
    assert {call: (found.tool_name, found.entry_index, found.line_num) for call, found in uses.items()} == {
        "a": ("read_file", 1, 2),
        "b": ("read_file", 1, 2),
        "c": ("grep", 3, 4),
    }
    assert {call: found.entry_index for call, found in results.items()} == {"b": 2}

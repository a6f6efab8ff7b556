"""Every tool call has exactly one result, in its place: checked, and repaired."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_kit.engine.pairing import (
    MISSING_RESULT_TEXT,
    Repair,
    check_pairing,
    rename_calls,
    repair_pairing,
    tool_call_ids,
    tool_call_names,
    tool_result,
)

from . import pairing_histories

Message = dict[str, Any]

IDS = st.sampled_from(["a", "b", "c", "a_2", "", "call"])


def assistant(*ids: str, **fields: Any) -> Message:
    calls = [{"id": call_id, "tool": "work", "arguments": {}} for call_id in ids]
    return {"role": "assistant", "content": "", "tool_calls": calls, **fields}


def with_blocks(*ids: str, kind: str = "tool_call") -> Message:
    blocks = [{"type": kind, "id": call_id, "name": "work", "input": {}} for call_id in ids]
    return {"role": "assistant", "content": [{"type": "text", "text": "hm"}, *blocks]}


def result(call_id: str, content: str = "ok") -> Message:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def user(text: str = "hi") -> Message:
    return {"role": "user", "content": text}


@st.composite
def calling(draw: st.DrawFn) -> Message:
    ids = draw(st.lists(IDS, min_size=1, max_size=4))
    message = with_blocks(*ids, kind=draw(st.sampled_from(["tool_call", "tool_use"])))
    if draw(st.booleans()):
        message["tool_calls"] = assistant(*ids)["tool_calls"]
    return message if draw(st.booleans()) else assistant(*ids, content=draw(st.text(max_size=3)))


plain = st.builds(
    lambda role, text: {"role": role, "content": text},
    st.sampled_from(["user", "system", "assistant"]),
    st.text(max_size=3),
)
results = st.builds(result, IDS, st.text(max_size=3))
histories = st.lists(st.one_of(calling(), results, plain), max_size=14)


def said(messages: list[Message]) -> list[tuple[str, Any]]:
    """Return everything that is no tool result and was not made up, without the ids of calls."""
    kept = [m for m in messages if m["role"] != "tool" and not (m.get("metadata") or {}).get("synthetic")]
    return [
        (m["role"], [b.get("text") for b in m["content"]] if isinstance(m["content"], list) else m["content"])
        for m in kept
    ]


@given(histories)
def test_a_repaired_history_is_sound(messages: list[Message]) -> None:
    """What comes out of a repair passes the check, whatever went in."""
    assert check_pairing(repair_pairing(messages).messages) == []


@given(histories)
def test_repairing_twice_is_repairing_once(messages: list[Message]) -> None:
    """A repair changes nothing about a repaired history."""
    repaired = repair_pairing(messages)
    again = repair_pairing(repaired.messages)
    assert again.messages == repaired.messages
    assert again.repairs == []


@given(histories)
def test_nothing_said_is_lost_or_reordered(messages: list[Message]) -> None:
    """Messages other than results all stay, in order, and what is added is marked as made up."""
    assert said(repair_pairing(messages).messages) == said(messages)


@given(histories)
def test_the_input_is_not_touched(messages: list[Message]) -> None:
    """A repair works on copies."""
    before = copy.deepcopy(messages)
    repair_pairing(messages)
    assert messages == before


@given(histories)
def test_check_and_repair_agree(messages: list[Message]) -> None:
    """A history is repaired exactly when the check finds something, and sound ones keep their very messages."""
    violations = check_pairing(messages)
    repaired = repair_pairing(messages)
    assert bool(violations) == bool(repaired.repairs)
    if not violations:
        assert all(new is old for new, old in zip(repaired.messages, messages, strict=True))


@given(histories, st.lists(st.one_of(calling(), plain), max_size=3))
def test_what_is_sent_early_keeps_its_ids(messages: list[Message], more: list[Message]) -> None:
    """Calls added later do not rename earlier ones, so that a cached prefix stays valid."""
    before = [
        tool_call_ids(m)
        for m in repair_pairing(messages).messages
        if m["role"] == "assistant" and not m.get("metadata")
    ]
    after = [
        tool_call_ids(m)
        for m in repair_pairing(messages + more).messages
        if m["role"] == "assistant" and not m.get("metadata")
    ]
    assert after[: len(before)] == before


@given(calling(), st.sets(IDS))
def test_renamed_calls_are_new(message: Message, taken: set[str]) -> None:
    """After a renaming no call id is empty, taken or used twice."""
    ids = tool_call_ids(rename_calls(message, taken))
    assert "" not in ids
    assert len(set(ids)) == len(ids)
    assert not set(ids) & taken


def test_ids_come_from_calls_and_blocks() -> None:
    """A call that stands in both places is one call; the function form of other services is understood."""
    both = {**with_blocks("a", "b"), "tool_calls": assistant("a")["tool_calls"]}
    assert tool_call_ids(both) == ["a", "b"]
    assert tool_call_ids(with_blocks("x", kind="tool_use")) == ["x"]
    assert tool_call_ids({"role": "user", "content": with_blocks("x")["content"]}) == []
    foreign = {"role": "assistant", "content": None, "tool_calls": [{"id": "f", "function": {"name": "grep"}}]}
    assert tool_call_names(foreign) == {"f": "grep"}


@pytest.mark.parametrize(
    ("messages", "kinds"),
    [
        ([user(), assistant("a"), result("a")], []),
        ([assistant("a", "b"), result("b"), result("a")], []),
        ([assistant("a")], ["missing_result"]),
        ([result("a")], ["orphan_result"]),
        ([assistant("a"), result("a"), result("a")], ["duplicate_result"]),
        ([assistant("a"), user(), result("a")], ["missing_result", "misplaced_result"]),
        ([assistant("a"), result("a"), assistant("a"), result("a")], ["duplicate_id"]),
        ([assistant(""), result("")], ["duplicate_id"]),
    ],
)
def test_violations_are_named(messages: list[Message], kinds: list[str]) -> None:
    """The check says what kind of fault it is, in order of the history."""
    assert [violation.kind for violation in check_pairing(messages)] == kinds


def test_a_violation_reads_as_a_sentence() -> None:
    """A violation can be shown to a person."""
    [violation] = check_pairing([user(), assistant("a")])
    assert str(violation) == "missing_result of call 'a' (work) at message 1"


def test_a_missing_result_is_made_up() -> None:
    """A lost result is replaced right behind its call, marked as synthetic, and reported with id and tool."""
    repaired = repair_pairing([assistant("a", "b"), result("b")])
    assert repaired.messages[1] == result("b")
    assert repaired.messages[2] == tool_result("a", "work", MISSING_RESULT_TEXT, synthetic=True)
    assert repaired.repairs == [Repair("missing_result", "a", "work")]
    assert MISSING_RESULT_TEXT.startswith("[SYSTEM ERROR: Tool result missing")


def test_the_assistant_closes_a_turn_that_was_cut_off() -> None:
    """Between made-up results and the user's next words stands an assistant message."""
    repaired = repair_pairing([assistant("a"), user("next")])
    assert [m["role"] for m in repaired.messages] == ["assistant", "tool", "assistant", "user"]
    assert [repair.kind for repair in repaired.repairs] == ["missing_result", "unclosed_turn"]


def test_a_stray_result_goes_home() -> None:
    """A result that was written too late, or too early, is moved behind its call."""
    late = repair_pairing([assistant("a"), user(), result("a", "mine")])
    assert late.messages == [assistant("a"), result("a", "mine"), user()]
    early = repair_pairing([result("a", "mine"), user(), assistant("a")])
    assert early.messages == [user(), assistant("a"), result("a", "mine")]


def test_an_id_used_again_keeps_each_result_with_its_call() -> None:
    """When two calls share an id, each keeps the result that followed it; the second pair is renamed."""
    repaired = repair_pairing([assistant("a"), result("a", "1"), with_blocks("a"), result("a", "2")])
    assert repaired.messages[1] == result("a", "1")
    assert tool_call_ids(repaired.messages[2]) == ["a_2"]
    assert repaired.messages[3] == result("a_2", "2")


def test_3000_generated_histories() -> None:
    """Of 3,000 generated histories, half of them left by the engine itself, none breaks a rule."""
    kinds, broken = pairing_histories.check(3000, seed=7)
    assert kinds.total() == 3000
    assert broken == []


def test_the_script_would_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A repair that loses something is a broken rule, so the test above can fail."""
    monkeypatch.setattr(pairing_histories, "repair_pairing", lambda messages: repair_pairing(messages[:-1]))
    assert pairing_histories.broken_rules([user(), assistant("a"), result("a"), user()])

"""A conversation knows its units, its sums and its cuts."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from amplifier_kit.engine.context.ledger import Conversation


def calls(*ids: str) -> dict[str, Any]:
    return {"role": "assistant", "content": "", "tool_calls": [{"id": call, "tool": "t"} for call in ids]}


def result(call: str, **more: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call, "content": "done", **more}


def said(role: str, content: str = "hi", **metadata: Any) -> dict[str, Any]:
    return {"role": role, "content": content, "metadata": metadata}


def talk(*messages: dict[str, Any]) -> Conversation:
    conversation = Conversation()
    for message in messages:
        conversation.append(message)
    return conversation


def test_a_call_and_its_results_are_a_unit() -> None:
    """Results belong to the message that called, in whatever order they come."""
    conversation = talk(said("user"), calls("a", "b"), result("b"), result("a"), said("assistant"))
    assert conversation.leaders == [0, 1, 1, 1, 4]
    assert conversation.unit(1) == [1, 2, 3]
    assert conversation.unit(4) == [4]


def test_an_orphan_is_a_unit_of_its_own() -> None:
    """A result without a call is a unit of one message."""
    assert talk(said("user"), result("lost"), {"role": "tool", "content": ""}).leaders == [0, 1, 2]


def test_an_id_used_again_belongs_to_the_nearest_call() -> None:
    """Services that count calls from zero in every turn do not mix up their units."""
    conversation = talk(calls("0"), result("0"), said("user"), calls("0"), result("0"))
    assert conversation.leaders == [0, 0, 2, 3, 3]


def test_a_late_result_changes_a_unit_that_was_complete() -> None:
    """What was derived from the unit is void; results that follow directly change nothing."""
    conversation = talk(calls("a", "b"), result("a"), result("b"))
    assert conversation.epoch == 0
    conversation = talk(calls("a", "b"), result("a"), said("user"), result("b"))
    assert conversation.epoch == 1
    assert conversation.unit(0) == [0, 1, 3]
    assert conversation.last_members[0] == 3


def test_a_cut_never_goes_through_a_run_of_results() -> None:
    """The end of a unit is behind the last of the results that follow."""
    conversation = talk(said("user"), calls("a", "b"), result("a"), result("b"), said("user"))
    assert [conversation.unit_end(position) for position in range(5)] == [1, 4, 4, 4, 5]


def test_what_people_said_is_told_from_reminders() -> None:
    """Injections of hooks and reminders in the user's name are not what the user said."""
    conversation = talk(
        said("user"), said("user", source="hook"), said("user", '<system-reminder source="x">later</system-reminder>')
    )
    assert conversation.users == [0, 1, 2]
    assert conversation.human == [0]


def test_a_pinned_message_pins_its_unit() -> None:
    """Tool search items, on the call or on a result, keep the whole unit."""
    pin: dict[str, Any] = {"openai:tool_search_items": []}
    conversation = talk(said("assistant", **pin), calls("a"), result("a", metadata=pin))
    assert conversation.pinned == {0, 1}


@given(st.lists(st.integers(0, 400), min_size=1, max_size=30), st.integers(0, 3000))
def test_sums_and_searches(sizes: list[int], tokens: int) -> None:
    """Sums and searches agree with adding up by hand."""
    conversation = talk(*(said("assistant", "x" * size) for size in sizes))
    taken = conversation.tokens
    assert conversation.total == sum(taken)
    assert [conversation.total_until(end) for end in range(len(sizes) + 1)] == [
        sum(taken[:end]) for end in range(len(sizes) + 1)
    ]
    beyond = next((i for i in range(len(sizes)) if sum(taken[: i + 1]) > tokens), len(sizes))
    assert conversation.first_beyond(tokens) == beyond
    for end in range(1, len(sizes) + 1):
        within = next(i for i in range(end + 1) if sum(taken[i:end]) <= tokens)
        assert conversation.first_within_last(tokens, end) == within

"""What a list has in common with those before it."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from amplifier_kit.log.lists import ListTracker, chain_of, common_items, is_message_list

items = st.lists(st.dictionaries(st.sampled_from("ab"), st.integers(0, 2), max_size=2), max_size=8)


@given(items, items)
def test_common_items_counts_the_equal_beginning(first: list[Any], second: list[Any]) -> None:
    """The search by halves finds what a plain comparison finds."""
    expected = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        expected += 1
    assert common_items(chain_of(first).digests, chain_of(second).digests) == expected


@given(items, items)
def test_a_list_has_one_name(first: list[Any], second: list[Any]) -> None:
    """The name depends on the items alone, not on how the list came about."""
    assert chain_of(second, chain_of(first).digests).name == chain_of(first + second).name
    assert (chain_of(first).name == chain_of(second).name) == (first == second)


def test_a_grown_list_keeps_all_of_its_base() -> None:
    """A list that grew refers to the one before it."""
    tracker = ListTracker()
    delta, chain = tracker.follow([{"n": 1}, {"n": 2}])
    assert (delta.base, delta.keep) == (None, 0)
    tracker.remember(chain)
    delta, _ = tracker.follow([{"n": 1}, {"n": 2}, {"n": 3}])
    assert (delta.base, delta.keep, delta.length) == (chain.name, 2, 2)


def test_a_reminder_at_the_end_costs_nothing_next_time() -> None:
    """A request that replaces the last item of the one before keeps the others."""
    tracker = ListTracker()
    _, chain = tracker.follow([{"n": 1}, {"n": 2}, {"reminder": 1}])
    tracker.remember(chain)
    delta, _ = tracker.follow([{"n": 1}, {"n": 2}, {"n": 3}, {"reminder": 2}])
    assert (delta.base, delta.keep, delta.length) == (chain.name, 2, 3)


def test_little_in_common_is_written_whole() -> None:
    """After a compaction only the system message may be the same; the list starts anew."""
    tracker = ListTracker()
    tracker.remember(tracker.follow([{"n": index} for index in range(10)])[1])
    delta, _ = tracker.follow([{"n": 0}, *({"m": index} for index in range(9))])
    assert delta.base is None


def test_lists_of_different_kinds_do_not_displace_each_other() -> None:
    """The requests of two providers, turn by turn, each follow from their own."""
    tracker = ListTracker()
    first, second = [{"a": 0}], [{"b": 0}]
    for index in range(1, 50):
        for growing in (first, second):
            _, chain = tracker.follow(growing)
            tracker.remember(chain)
            growing.append({"n": index})
            assert tracker.follow(growing)[0].keep == len(growing) - 1
    assert len(tracker.remembered()) == 2


def test_what_is_remembered_is_bounded() -> None:
    """However many lists come, a few are remembered, and never more items than fit."""
    tracker = ListTracker()
    for index in range(100):
        tracker.remember(tracker.follow([{"list": index, "n": n} for n in range(50)])[1])
    assert len(tracker.remembered()) == 8
    for index in range(4):
        tracker.remember(chain_of({"list": index, "n": n} for n in range(100_000)))
    assert sum(chain.length for chain in tracker.remembered()) <= 262_144


def test_what_counts_as_a_list_of_messages() -> None:
    """Messages have roles, or stand under a key that providers use for them."""
    assert is_message_list("anything", [{"role": "user"}, {"role": "assistant"}])
    assert is_message_list("input", [{"type": "function_call"}])
    assert is_message_list("contents", [{"parts": []}])
    assert not is_message_list("rows", [{"id": 1}])
    assert not is_message_list("messages", [])
    assert not is_message_list("messages", ["text"])
    assert not is_message_list("anything", [{"role": "user"}, {"no": "role"}])

"""What a list has in common with those before it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_kit.log.references import (
    ListTracker,
    apply_delta,
    chain_of,
    chain_of_digests,
    common_items,
    is_message_list,
)

#: One key each: the order of keys is part of what an item is.
items = st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(0, 2), max_size=1), max_size=8)


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
    assert chain_of_digests([*chain_of(first).items(), *chain_of(second).items()]) == chain_of(first + second)
    assert (chain_of(first).name == chain_of(second).name) == (first == second)


@given(st.lists(items, min_size=1, max_size=6))
def test_every_list_can_be_apply_delta_again(lists: list[list[Any]]) -> None:
    """Whatever lists come one after the other, each is its base and what it adds."""
    tracker = ListTracker()
    known: dict[str, list[Any]] = {}
    for growing in lists:
        delta = tracker.follow(growing)
        base = known[delta.base.name] if delta.base is not None else []
        assert apply_delta(base, delta.keep, [growing[index] for index in delta.added]) == growing
        tracker.remember(delta)
        known[delta.chain.name] = growing


def numbered(*numbers: int) -> list[dict[str, int]]:
    return [{"n": number} for number in numbers]


def test_a_grown_list_keeps_all_of_its_base() -> None:
    """A list that grew refers to the one before it."""
    tracker = ListTracker()
    first = tracker.follow(numbered(1, 2))
    assert (first.base, list(first.added)) == (None, [0, 1])
    tracker.remember(first)
    delta = tracker.follow(numbered(1, 2, 3))
    assert (delta.base, delta.keep, list(delta.added)) == (first.chain, 2, [2])


def test_a_reminder_at_the_end_costs_nothing_next_time() -> None:
    """A request that replaces the last item of the one before keeps the others."""
    tracker = ListTracker()
    first = tracker.follow(numbered(1, 2, 99))
    tracker.remember(first)
    delta = tracker.follow(numbered(1, 2, 3, 98))
    assert (delta.base, delta.keep, list(delta.added)) == (first.chain, 2, [2, 3])


def test_what_a_compaction_leaves_is_kept() -> None:
    """A message that is shortened near the beginning, or dropped there, costs no more than itself."""
    tracker = ListTracker()
    first = tracker.follow(numbered(*range(20)))
    tracker.remember(first)
    delta = tracker.follow(numbered(0, 77, *range(2, 20)))
    assert (delta.base, delta.keep, list(delta.added)) == (first.chain, [[0, 1], 1, [2, 20]], [1])
    delta = tracker.follow(numbered(0, *range(5, 20), 21))
    assert (delta.base, delta.keep, list(delta.added)) == (first.chain, [[0, 1], [5, 20], 1], [16])


def test_little_in_common_is_written_whole() -> None:
    """A list that shares less than half of itself with every other is written whole."""
    tracker = ListTracker()
    tracker.remember(tracker.follow(numbered(*range(10))))
    delta = tracker.follow(numbered(0, *range(20, 29)))
    assert (delta.base, list(delta.added)) == (None, list(range(10)))


def test_lists_of_different_kinds_do_not_displace_each_other() -> None:
    """The requests of two providers, turn by turn, each follow from their own."""
    tracker = ListTracker()
    first, second = [{"a": 0}], [{"b": 0}]
    for index in range(1, 50):
        for growing in (first, second):
            tracker.remember(tracker.follow(growing))
            growing.append({"n": index})
            assert tracker.follow(growing).keep == len(growing) - 1
    assert len(tracker.remembered()) == 2


def test_a_sliding_window_takes_the_place_of_the_one_before() -> None:
    """A view that drops its oldest messages as it grows is one list, not many."""
    tracker = ListTracker()
    for start in range(50):
        delta = tracker.follow(numbered(-1, *range(start, start + 20)))
        tracker.remember(delta)
        assert start == 0 or len(delta.added) == 1
    assert len(tracker.remembered()) == 1


def test_what_is_remembered_is_bounded() -> None:
    """However many lists come, a few are remembered, and never more items than fit."""
    tracker = ListTracker()
    for index in range(100):
        tracker.remember(tracker.follow([{"list": index, "n": n} for n in range(50)]))
    assert len(tracker.remembered()) == 8
    tracker.restore([chain_of({"list": index, "n": n} for n in range(100_000)) for index in range(4)])
    assert sum(chain.length for chain in tracker.remembered()) <= 262_144


@pytest.mark.parametrize("keep", [["x"], [[1]], [[1, 2, 3]], [["a", "b"]], [None]])
def test_steps_that_make_no_sense_are_refused(keep: list[Any]) -> None:
    """A damaged log is not read as something else."""
    with pytest.raises(ValueError, match=r"invalid step .* in `keep`"):
        apply_delta([1, 2, 3], keep, [4])


def test_what_counts_as_a_list_of_messages() -> None:
    """Messages have roles, or stand under a key that providers use for them."""
    assert is_message_list("anything", [{"role": "user"}, {"role": "assistant"}])
    assert is_message_list("input", [{"type": "function_call"}])
    assert is_message_list("contents", [{"parts": []}])
    assert not is_message_list("rows", [{"id": 1}])
    assert not is_message_list("messages", [])
    assert not is_message_list("messages", ["text"])
    assert not is_message_list("anything", [{"role": "user"}, {"no": "role"}])

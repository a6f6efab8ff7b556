"""The laws of merging plans."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from amplifier_core.data import deep_merge

KEYS = st.sampled_from(["session", "tools", "a", "b", "c"])
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=3))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=8,
)
PLANS = st.dictionaries(KEYS, VALUES, max_size=4)
#: Plans in which a key is always a dict or never: `d…` keys hold dicts, all others do not.
LEAF = st.one_of(SCALARS, st.lists(SCALARS, max_size=2))
TYPED: st.SearchStrategy[dict[str, Any]] = st.deferred(
    lambda: st.builds(
        lambda leaves, dicts: {**leaves, **dicts},
        st.dictionaries(st.sampled_from(["x", "y", "z"]), LEAF, max_size=2),
        st.dictionaries(st.sampled_from(["d1", "d2"]), st.one_of(st.just({}), TYPED), max_size=2),
    )
)


def containers(value: Any) -> set[int]:
    """Return the identity of every dict and list in `value`."""
    found: set[int] = set()
    if isinstance(value, (dict, list)):
        found.add(id(value))
        for item in value.values() if isinstance(value, dict) else value:
            found |= containers(item)
    return found


@given(PLANS)
def test_nothing_merged_in_changes_nothing(plan: dict[str, Any]) -> None:
    """The empty plan is the identity, on either side."""
    assert deep_merge(plan, {}) == plan
    assert deep_merge({}, plan) == plan


@given(PLANS)
def test_merging_a_plan_with_itself_changes_nothing(plan: dict[str, Any]) -> None:
    """Merging is idempotent."""
    assert deep_merge(plan, plan) == plan


@given(PLANS, PLANS)
def test_an_overlay_laid_twice_is_laid_once(base: dict[str, Any], overlay: dict[str, Any]) -> None:
    """Laying the same overlay over the result again changes nothing."""
    once = deep_merge(base, overlay)

    assert deep_merge(once, overlay) == once


@given(PLANS, PLANS)
def test_the_overlay_wins(base: dict[str, Any], overlay: dict[str, Any]) -> None:
    """Every value of the overlay that is no dict is there; dicts merge when both have one; the rest stays."""

    def check(merged: dict[str, Any], base: dict[str, Any], overlay: dict[str, Any]) -> None:
        assert set(merged) == set(base) | set(overlay)
        for key, value in merged.items():
            if key not in overlay:
                assert value == base[key]
            elif isinstance(overlay[key], dict) and isinstance(base.get(key), dict):
                check(value, base[key], overlay[key])
            else:
                assert value == overlay[key]

    check(deep_merge(base, overlay), base, overlay)


@given(PLANS, PLANS)
def test_keys_keep_their_order(base: dict[str, Any], overlay: dict[str, Any]) -> None:
    """The base's keys come first, in their order, then the new ones in theirs."""
    assert list(deep_merge(base, overlay)) == [*base, *(key for key in overlay if key not in base)]


@given(TYPED, TYPED, TYPED)
def test_merging_is_associative_where_kinds_agree(
    one: dict[str, Any], two: dict[str, Any], three: dict[str, Any]
) -> None:
    """When a key is a dict in every plan or in none, it does not matter which two are merged first."""
    assert deep_merge(deep_merge(one, two), three) == deep_merge(one, deep_merge(two, three))


def test_merging_is_not_associative_where_kinds_differ() -> None:
    """A scalar between two dicts wipes the first one out: the order of merging is part of the meaning."""
    one, two, three = {"a": {"x": 1}}, {"a": 5}, {"a": {"y": 2}}

    assert deep_merge(deep_merge(one, two), three) == {"a": {"y": 2}}
    assert deep_merge(one, deep_merge(two, three)) == {"a": {"x": 1, "y": 2}}


@given(PLANS, PLANS)
def test_merging_is_pure(base: dict[str, Any], overlay: dict[str, Any]) -> None:
    """Neither plan is changed, and the result shares no dict or list with them."""
    before = deepcopy((base, overlay))
    merged = deep_merge(base, overlay)

    assert (base, overlay) == before
    assert not containers(merged) & (containers(base) | containers(overlay))


def test_lists_are_replaced_not_joined() -> None:
    """A list in the overlay stands for the whole list."""
    assert deep_merge({"tools": [1, 2]}, {"tools": [3]}) == {"tools": [3]}


def test_none_in_the_overlay_counts() -> None:
    """An overlay may set a key to None."""
    assert deep_merge({"a": {"x": 1}}, {"a": None}) == {"a": None}


def test_objects_are_passed_on() -> None:
    """An object that cannot be copied is the same object in the result."""
    client = object()

    assert deep_merge({"a": {"client": client}}, {"b": [client]}) == {"a": {"client": client}, "b": [client]}

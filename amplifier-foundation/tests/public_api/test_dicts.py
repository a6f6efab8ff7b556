"""Merging and addressing nested mappings."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_foundation import deep_merge, get_nested, merge_module_lists, set_nested

_TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc", max_size=2), inner, max_size=4),
    max_leaves=20,
)
_MAPPINGS = st.dictionaries(st.text("abc", max_size=2), _TREES, max_size=4)


def test_lists_are_joined_and_scalars_replaced() -> None:
    """Mappings merge key by key, lists are joined without duplicates, other values are replaced."""
    parent = {"a": {"x": 1, "y": [1, 2]}, "b": "old", "providers": [{"module": "m"}]}
    child = {"a": {"y": [2, 3]}, "b": "new", "providers": [{"module": "m"}, {"module": "n"}]}
    assert deep_merge(parent, child) == {
        "a": {"x": 1, "y": [1, 2, 3]},
        "b": "new",
        "providers": [{"module": "m"}, {"module": "n"}],
    }


@given(_MAPPINGS, _MAPPINGS)
def test_a_merge_changes_and_shares_nothing(parent: dict[str, Any], child: dict[str, Any]) -> None:
    """The arguments stay as they are, also when the result is changed."""
    before = copy.deepcopy((parent, child))
    merged = deep_merge(parent, child)
    assert set(merged) == {*parent, *child}
    for value in merged.values():
        if isinstance(value, dict | list):
            value.clear()
    assert (parent, child) == before


def test_modules_merge_by_id_and_module() -> None:
    """Entries with one id, else one module, become one; order is that of first appearance."""
    parent = [{"module": "tool-a", "config": {"x": [1]}}, {"module": "tool-b"}, {"config": {}}]
    child = [{"module": "tool-c"}, {"module": "tool-a", "config": {"x": [2]}}, {"module": "tool-b", "id": "second"}]
    assert merge_module_lists(parent, child) == [
        {"module": "tool-a", "config": {"x": [1, 2]}},
        {"module": "tool-b"},
        {"module": "tool-c"},
        {"module": "tool-b", "id": "second"},
    ]


def test_a_malformed_entry_is_named() -> None:
    """The error says where the entry is and what it should be."""
    message = r"Malformed module config at index 1: expected dict with 'module' key, got str 'bash'"
    with pytest.raises(TypeError, match=message):
        merge_module_lists([], [{"module": "tool-a"}, "bash"])


@given(_MAPPINGS, st.lists(st.text("abc", max_size=2), min_size=1, max_size=4), _TREES)
def test_what_is_set_is_found(data: dict[str, Any], path: list[str], value: Any) -> None:
    """After `set_nested`, `get_nested` finds the value at the same path."""
    set_nested(data, path, value)
    assert get_nested(data, path) == value


def test_a_missing_path_is_the_default() -> None:
    """A missing key, and one below a value that is no mapping, give the default."""
    assert get_nested({"a": {"b": 1}}, ["a", "c"], "default") == "default"
    assert get_nested({"a": 1}, ["a", "b"]) is None
    with pytest.raises(ValueError, match="at least one key"):
        set_nested({}, [], 1)

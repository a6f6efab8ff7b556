"""JSON compared with a part of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_digital_twin.checks.comparison import difference

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)


@given(_JSON)
def test_everything_is_part_of_itself(value: Any) -> None:
    """Whatever is expected is found in itself."""
    assert difference(value, value) == ""


@given(st.dictionaries(st.text(max_size=3), _JSON), st.dictionaries(st.text(max_size=3), _JSON))
def test_more_than_expected_is_fine(expected: dict[str, Any], more: dict[str, Any]) -> None:
    """Keys that nobody asked for do not matter."""
    assert difference(expected, {**more, **expected}) == ""


@given(_JSON, st.text(min_size=1, max_size=3))
def test_a_key_that_is_missing_is_found(value: Any, key: str) -> None:
    """What is expected and not there is named."""
    assert difference({key: value}, {}) == f"the answer has no {key!r}"


@pytest.mark.parametrize(
    ("expected", "actual", "words"),
    [
        ({"a": 1}, [1], "is [1], not a mapping"),
        ([1], {"a": 1}, "not a list"),
        ([2, 1], [1, 2], "has no 1 (in this order)"),
        ([], [1], "not an empty list"),
        (1, True, "is true, not 1"),
        (True, 1, "is 1, not true"),
        ({"a": {"b": "x"}}, {"a": {"b": "y"}}, 'a.b is "y", not "x"'),
        (None, 0, "is 0, not null"),
    ],
)
def test_differences_are_named_with_their_place(expected: Any, actual: Any, words: str) -> None:
    """The words say where, what was there, and what was expected."""
    assert words in difference(expected, actual)

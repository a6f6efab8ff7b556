"""Tests of the named tuples that are cheap to define."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any
from typing import NamedTuple as TypingNamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_kit.named_tuple import NamedTuple


class Cheap(NamedTuple):
    """The class under test."""

    first: int
    second: int = 2
    third: int = 3

    @property
    def total(self) -> int:
        return sum(self)


class Typical(TypingNamedTuple):
    """The class that it must behave like."""

    first: int
    second: int = 2
    third: int = 3


def _made(make: Callable[..., Any], positions: list[int], names: dict[str, int]) -> Any:
    """Return the values of the instance that the arguments make; TypeError if they make none."""
    try:
        return tuple(make(*positions, **names))
    except TypeError:
        return TypeError


@given(
    st.lists(st.integers(), max_size=4),
    st.dictionaries(st.sampled_from(["first", "second", "third", "fourth"]), st.integers()),
)
def test_arguments(positions: list[int], names: dict[str, int]) -> None:
    """Every call makes the same tuple as with the standard library's, or fails where that fails."""
    assert _made(Cheap, positions, names) == _made(Typical, positions, names)


def test_tuple_of_names() -> None:
    """An instance is a tuple with names, methods, a readable form and the helpers of named tuples."""
    one = Cheap(1, third=5)
    assert one == (1, 2, 5)
    assert (one.first, one.second, one.third, one.total) == (1, 2, 5, 8)
    assert repr(one) == "Cheap(first=1, second=2, third=5)"
    assert one._replace(second=0) == (1, 0, 5)
    assert one._asdict() == {"first": 1, "second": 2, "third": 5}
    assert (Cheap._fields, Cheap._field_defaults) == (Typical._fields, Typical._field_defaults)
    match one:
        case Cheap(first, second):
            assert (first, second) == (1, 2)


def test_copies() -> None:
    """Copies and pickled instances are equal and of the same type."""
    one = Cheap(1)
    for other in (copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        assert other == one
        assert type(other) is Cheap


@pytest.mark.parametrize("name", ["first", "fourth"])
def test_attributes_are_fixed(name: str) -> None:
    """Neither a field nor another attribute can be set."""
    with pytest.raises(AttributeError):
        setattr(Cheap(1), name, 1)

"""Values: what a frozen dataclass does, done by one class."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, asdict, field, replace
from typing import Any

import pytest

from amplifier_digital_twin.value import Value


class Spot(Value):
    """A place with a secret."""

    name: str
    numbers: tuple[int, ...] = ()
    more: list[int] = field(default_factory=list)
    key: str | None = field(default=None, repr=False)


class Other(Value):
    """Has the same parts as a spot without numbers, and is none."""

    name: str


def test_parts_are_taken_in_order_and_by_name() -> None:
    """What is not given has its default, made anew for each value."""
    first, second = Spot("a", (1,)), Spot(numbers=(1,), name="a")
    assert (first.name, first.numbers, first.more, first.key) == ("a", (1,), [], None)
    assert first == second
    assert first.more is not second.more


@pytest.mark.parametrize(
    ("given", "named", "why"),
    [
        ((), {}, "'name' is missing"),
        (("a",), {"name": "b"}, "'name' is given twice"),
        (("a",), {"nam": "b"}, "'nam' is no part of it"),
        (("a", (), [], None, 5), {}, "has 4 parts, and 5 were given"),
    ],
)
def test_wrong_parts_are_refused(given: tuple[Any, ...], named: dict[str, Any], why: str) -> None:
    """One that is missing, twice, unknown or too many is an error that names it."""
    with pytest.raises(TypeError, match=why):
        Spot(*given, **named)


def test_nothing_can_be_changed() -> None:
    """A value stays what it is; another one is made of it."""
    spot = Spot("a")
    with pytest.raises(FrozenInstanceError):
        spot.name = "b"  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        del spot.name
    assert (spot.name, replace(spot, name="b").name) == ("a", "b")


def test_equality_is_of_kind_and_parts() -> None:
    """Values of different kinds differ, and equal ones have one hash where their parts have."""
    assert Other("a") != Spot("a")
    assert Spot("a") != Spot("b")
    assert {Other("a"), Other("a")} == {Other("a")}
    with pytest.raises(TypeError):
        hash(Spot("a"))  # a list is in it


def test_what_is_not_to_be_shown_is_not_shown() -> None:
    """The parts are named, credentials left out."""
    assert repr(Spot("a", key="secret-key")) == "Spot(name='a', numbers=(), more=[])"


def test_it_goes_through_a_connection_and_into_json() -> None:
    """A value that was sent to another process is the same there, and its parts are those of a dataclass."""
    spot = Spot("a", (1, 2), [3], "k")
    assert pickle.loads(pickle.dumps(spot)) == spot
    assert asdict(spot) == {"name": "a", "numbers": (1, 2), "more": [3], "key": "k"}

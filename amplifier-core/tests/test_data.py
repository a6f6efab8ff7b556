"""JSON-clean copies of data, and copies of plans and configs."""

from __future__ import annotations

import json
from collections import OrderedDict, UserDict, defaultdict, namedtuple
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from amplifier_core.data import MAX_DEPTH, clean, copier, copy_tree, describe, isolate

#: No deadline: tests never judge a time.
unhurried = settings(suppress_health_check=[HealthCheck.too_slow])

Pair = namedtuple("Pair", "a b")


class Unprintable:
    """Fail, in a way of one's choice, whenever text is wanted."""

    def __init__(self, error: type[BaseException] = ValueError) -> None:
        self.error = error

    def __str__(self) -> str:
        raise self.error("no text")

    __repr__ = __str__


_huge = st.builds(lambda: 10**5000)  # not st.just(), which would want to print it
_scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | _huge
    | st.floats()
    | st.text(st.characters(codec=None))
    | st.binary()
    | st.decimals()
    | st.datetimes()
    | st.complex_numbers()
    | st.builds(Unprintable)
    | st.builds(object)
)
_keys = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)) | st.binary()
_odd_keys = _keys | st.tuples(_keys, _keys) | _huge | st.frozensets(st.integers())
anything = st.recursive(
    _scalars | st.sets(st.integers()),
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(_odd_keys, inner)
        | st.dictionaries(_keys, inner).map(OrderedDict)
    ),
)
json_data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def containers(value: Any) -> Iterator[int]:
    """Yield the identity of every dict and list in `value`, itself included."""
    if isinstance(value, (dict, list)):
        yield id(value)
        for item in value.values() if isinstance(value, dict) else value:
            yield from containers(item)


@unhurried
@given(anything)
def test_clean_data_is_json(value: Any) -> None:
    """Whatever goes in, JSON comes out, strict and fit for a UTF-8 file."""
    cleaned_value = clean(value)
    written = json.dumps(cleaned_value, allow_nan=False, ensure_ascii=False).encode()
    assert json.loads(written) == cleaned_value


@unhurried
@given(anything)
def test_clean_is_idempotent(value: Any) -> None:
    """Clean data is clean: a second pass changes nothing."""
    once = clean(value)
    assert clean(once) == once


@unhurried
@given(json_data)
def test_clean_keeps_json(value: Any) -> None:
    """JSON data arrives unchanged, in new containers."""
    cleaned = clean(value)
    assert cleaned == value
    assert type(cleaned) is type(value)
    assert not set(containers(value)) & set(containers(cleaned))


@unhurried
@given(st.dictionaries(st.text(), json_data) | json_data, st.integers(1, 3))
def test_copies_are_equal_and_unshared(value: Any, times: int) -> None:
    """Every copy equals the original, and no two share a dict or list."""
    fresh = copier(value, times)
    copies = [fresh() for _ in range(times)]
    assert all(copy == value for copy in copies)
    seen = set(containers(value))
    for copy in copies:
        mine = set(containers(copy))
        assert not mine & seen
        seen |= mine


@unhurried
@given(
    st.dictionaries(
        st.text(st.characters(codec=None)) | st.integers(),
        anything | st.text() | anything.map(lambda item: [*range(16), item]),
        max_size=4,
    )
)
def test_isolated_data_is_clean(value: dict[Any, Any]) -> None:
    """Fields of an event arrive as `clean` gives them, in containers of their own, whatever is large or odd in them."""
    whole, fresh = isolate(dict(value), 2)
    assert fresh() == clean(value)
    assert whole is None or whole == clean(value)
    assert not set(containers(fresh())) & {*containers(value), *containers(fresh()), *containers(whole)}


@pytest.mark.parametrize(
    "odd",
    [
        {1: 2},
        {True: 1},
        ("a",),
        10**5000,
        float("nan"),
        "\ud800",
        {"a": {"\udfff": 1}},
        b"x",
        {"a"},
        OrderedDict(a=(1,)),
    ],
    ids=lambda odd: type(odd).__name__,
)
def test_one_odd_value_in_large_data(odd: Any) -> None:
    """A value that is not JSON is cleaned in large data as in small, however deep it is."""
    fields = {"messages": [{"content": [{"text": "hello", "index": number}]} for number in range(50)]}
    fields["messages"][30]["content"][0]["odd"] = odd
    _, fresh = isolate(dict(fields), 2)
    assert fresh() == clean(fields)


def test_integers_of_hundreds_of_digits_become_text() -> None:
    """An integer that not every JSON reader can take is described, also at the top level."""
    fields, _ = isolate({"number": 10**5000, "small": 1}, 2)
    assert fields is not None
    assert isinstance(fields["number"], str)
    assert fields["small"] == 1


def test_large_data_keeps_every_language() -> None:
    """Text whose UTF-8 bytes resemble those of a surrogate is data like any other."""
    fields = {"messages": ["한국어"] * 20}
    _, fresh = isolate(dict(fields), 2)
    assert fresh() == fields
    assert fresh() is not fresh()


@pytest.mark.parametrize("size", [2, 15, 16, 50])
def test_what_occurs_twice_arrives_as_two(size: int) -> None:
    """A handler that changes its copy in one place changes no other, whether the data is small or large."""
    shared = {"text": "hello"}
    _, fresh = isolate({"messages": [shared] * size, "last": shared}, 2)
    copy = fresh()
    copy["last"]["text"] = copy["messages"][0]["text"] = "changed"
    assert [message["text"] for message in copy["messages"]] == ["changed", *["hello"] * (size - 1)]


class Colour(str, Enum):  # noqa: UP042  # what older modules have
    RED = "red"


class Size(IntEnum):
    SMALL = 1


class Plain(BaseModel):
    a: int = 1


@pytest.mark.parametrize(
    ("value", "arrives"),
    [
        (Decimal("1.23"), "1.23"),
        (datetime(2024, 1, 1, 12), "2024-01-01 12:00:00"),
        (Plain(), "a=1"),
        ((1, (2,)), [1, [2]]),
        (Pair(1, 2), [1, 2]),
        ({1: "a", None: "b", 2.5: "c"}, {"1": "a", "null": "b", "2.5": "c"}),
        ({True: 1, False: 0}, {"true": 1, "false": 0}),
        ({(1, "x"): 1}, {"[1, 'x']": 1}),
        ({b"k": b"v"}, {"b'k'": "b'v'"}),
        ({"s": {1}}, {"s": "{1}"}),
        (float("nan"), "nan"),
        ([float("inf"), float("-inf")], ["inf", "-inf"]),
        (["a\ud800b"], ["a\ufffdb"]),
        ({"\udfff": "é"}, {"\ufffd": "é"}),
        (Colour.RED, "red"),
        ({Colour.RED: Colour.RED}, {"red": "red"}),
        (Size.SMALL, 1),
        (defaultdict(list, a=[1]), {"a": [1]}),
        (UserDict(a=1), "{'a': 1}"),
        (PurePosixPath("a/b"), "a/b"),
        (True, True),
        ({"n": 10**5000}, {"n": "<unprintable int>"}),
        ([-(10**1000), 10**600], [str(-(10**1000)), 10**600]),
        ({10**5000: 1}, {"<unprintable int>": 1}),
        (Unprintable(), "<unprintable Unprintable>"),
    ],
)
def test_clean_values(value: Any, arrives: Any) -> None:
    """Each kind of value arrives as JSON says it, else as its text."""
    cleaned = clean(value)
    assert cleaned == arrives
    assert type(cleaned) is type(arrives)


def test_cycles_are_cut() -> None:
    """What refers to itself arrives with a note where it would start over; a repeated reference is no cycle."""
    loop: dict[str, Any] = {"shared": [1]}
    loop["again"] = loop["shared"]
    loop["self"] = loop
    loop["list"] = [loop]
    assert clean(loop) == {"shared": [1], "again": [1], "self": "<cycle: dict>", "list": ["<cycle: dict>"]}


def test_depth_is_bounded() -> None:
    """Containers nested beyond any reason arrive as a note."""
    deep: Any = "bottom"
    for _ in range(100_000):
        deep = [deep]
    cleaned = clean(deep)
    assert "<too deep: list>" in json.dumps(cleaned)
    for _ in range(MAX_DEPTH):
        cleaned = cleaned[0]
    assert cleaned == "<too deep: list>"
    while deep != "bottom":  # taken apart by hand: freeing it at once would be the interpreter's own deep recursion
        deep = deep[0]


def test_size_is_bounded() -> None:
    """A few containers that refer to each other, and would be billions when written out, arrive cut."""
    bomb: list[Any] = ["x"]
    for _ in range(40):
        bomb = [bomb, bomb]
    text = json.dumps(clean({"bomb": bomb, "after": 1}))
    assert "<too large: list>" in text
    assert '"after": 1' in text


class Boastful(dict[str, Any]):
    """Show something else than what is stored."""

    def items(self) -> Any:
        return [("shown", 1)]


class Classless:
    """Fail when asked for one's class."""

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise ValueError("no class")

    def __str__(self) -> str:
        return "classless"


@pytest.mark.parametrize(
    ("value", "arrives"),
    [
        ({"x": Boastful(a=2)}, {"x": {"shown": 1}}),
        ({"x": Classless()}, {"x": "classless"}),
    ],
)
def test_clean_survives_lies(value: Any, arrives: Any) -> None:
    """Objects that lie about themselves cannot break the reading of a payload."""
    assert clean(value) == arrives


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_interrupts_go_through(error: type[BaseException]) -> None:
    """KeyboardInterrupt and SystemExit propagate."""
    with pytest.raises(error):
        describe(Unprintable(error))


def test_containers_are_copied_and_the_rest_is_shared() -> None:
    """Dicts, lists, tuples and sets are copied all the way down; objects reach the module as they are."""
    client = object()
    config: dict[str, Any] = {"client": client, "list": [{"a": 1}], "pair": ({"b": 2},), "set": {1}}
    copied = copy_tree(config)
    assert copied == config
    assert copied["client"] is client
    copied["list"][0]["a"] = copied["pair"][0]["b"] = 0
    copied["set"].add(2)
    assert config == {"client": client, "list": [{"a": 1}], "pair": ({"b": 2},), "set": {1}}

"""The JSON that lines and blobs are made of."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_core.data import MAX_DEPTH
from amplifier_kit.log.record import decode, digest, encode

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
json_values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=20
)


@given(json_values)
def test_json_comes_back_as_it_was(value: Any) -> None:
    """Whatever JSON can say survives, integers of any size included."""
    assert decode(encode(value)) == value


@given(json_values)
def test_the_standard_library_reads_it(value: Any) -> None:
    """Any reader of JSON reads what is written."""
    assert json.loads(encode(value)) == value


def test_text_is_written_as_it_is() -> None:
    """UTF-8 is not escaped, so that logs can be searched in any language."""
    assert encode({"naïve": "日本語 🦊"}) == '{"naïve":"日本語 🦊"}'.encode()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({2: "a", None: "b", True: "c"}, {"2": "a", "null": "b", "true": "c"}),
        ("lone \ud800 surrogate", "lone \ufffd surrogate"),
        ({"\ud800": 1}, {"\ufffd": 1}),
        ({"object": {1}}, {"object": "{1}"}),
        ([math.nan, math.inf], [None, None]),
        ({2: math.nan}, {"2": "nan"}),
        ((1, (2,)), [1, [2]]),
        (2**70, 2**70),
    ],
)
def test_what_json_has_no_word_for_is_written_all_the_same(value: Any, expected: Any) -> None:
    """Odd keys, surrogates, objects, NaN and long integers do not keep a line from being written."""
    assert decode(encode(value)) == expected


def test_an_object_that_cannot_even_be_printed() -> None:
    """An object that can be neither printed nor described is named by its type."""

    class Shy:
        def __str__(self) -> str:
            raise RuntimeError("no")

        __repr__ = __str__

    assert decode(encode({"shy": Shy()})) == {"shy": "<unprintable Shy>"}


def test_what_refers_to_itself_ends() -> None:
    """A cycle is cut where it closes, and quickly however often it branches."""
    loop: list[Any] = [1]
    loop += [loop, loop]
    assert decode(encode(loop)) == [1, "<cycle: list>", "<cycle: list>"]


def test_endless_nesting_ends() -> None:
    """What is nested deeper than anybody reads is cut."""
    deep: Any = "bottom"
    for _ in range(2000):
        deep = [deep]
    text = encode(deep).decode()
    assert text.count("[") == MAX_DEPTH
    assert "<too deep: list>" in text


def test_digest_is_a_plain_sha256() -> None:
    """The names in the log can be checked with sha256sum."""
    assert digest(b"") == "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@pytest.mark.parametrize("content", [b"", b"{", b'{"a": 1', b"\xff\xfe", b"\0\0\0", b"1234567890123456789012 x"])
def test_no_json_is_a_value_error(content: bytes) -> None:
    """Callers tell torn lines by ValueError alone."""
    with pytest.raises(ValueError):
        decode(content)

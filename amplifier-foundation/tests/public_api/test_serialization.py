"""Messages and other values as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from amplifier_foundation import sanitize_for_json, sanitize_message

_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=20,
)


@given(_ANYTHING)
def test_the_result_is_json(value: Any) -> None:
    """Whatever goes in, the result can be written as strict JSON."""
    sanitized = sanitize_for_json(value)
    assert json.loads(json.dumps(sanitized, allow_nan=False)) == sanitized


@given(_ANYTHING)
def test_doing_it_twice_changes_nothing(value: Any) -> None:
    """JSON data is returned as it is."""
    once = sanitize_for_json(value)
    assert sanitize_for_json(once) == once


def test_models_become_mappings() -> None:
    """Objects that can describe themselves, and objects with attributes, become mappings; others are left out."""

    class Model(BaseModel):
        name: str
        note: str | None = None

    @dataclass
    class Record:
        number: int

    value = {"model": Model(name="a"), "record": Record(1), "object": SimpleNamespace(x=[2, None]), "bytes": b"x"}
    assert sanitize_for_json(value) == {"model": {"name": "a"}, "record": {"number": 1}, "object": {"x": [2]}}
    assert sanitize_for_json(object()) is None


def test_what_contains_itself_ends() -> None:
    """A value inside itself is cut at the greatest depth."""
    value: dict[str, Any] = {"name": "loop"}
    value["self"] = value
    assert sanitize_for_json(value, max_depth=2) == {"name": "loop", "self": {"name": "loop"}}


def test_thinking_is_kept_as_text() -> None:
    """The text of a thinking block is kept; objects of the provider's library are not."""
    message = {
        "role": "assistant",
        "content": [{"type": "text", "text": "Done."}],
        "thinking_block": SimpleNamespace(thinking="It is the discount.", signature="abc"),
        "content_blocks": [object()],
        "name": None,
    }
    assert sanitize_message(message) == {
        "role": "assistant",
        "content": [{"type": "text", "text": "Done."}],
        "thinking_text": "It is the discount.",
    }

"""Messages enter the ledger as copies, well formed, stamped and not too large."""

from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from types import MappingProxyType
from typing import Any

import pytest

from amplifier_core import Message as MessageModel
from amplifier_kit.engine.context.ledger import normalize_message, sanitize_message


def taken(message: Any, *, stamp: bool = False, limit: int = 131_072) -> dict[str, Any]:
    return normalize_message(message, stamp=stamp, max_tool_result_bytes=limit)


def test_a_message_is_copied_all_the_way_down() -> None:
    """Nothing that is done to the caller's message afterwards reaches the ledger."""
    message = {"role": "assistant", "content": [{"type": "text", "text": "a"}], "tool_calls": [{"arguments": {"x": 1}}]}
    owned = taken(message)
    message["content"][0]["text"] = "b"  # type: ignore[index]
    message["tool_calls"][0]["arguments"]["x"] = 2  # type: ignore[index]
    assert owned == {
        "role": "assistant",
        "content": [{"type": "text", "text": "a"}],
        "tool_calls": [{"arguments": {"x": 1}}],
    }


@pytest.mark.parametrize("metadata", [{}, {"metadata": None}, {"metadata": {"timestamp": None}}, {"metadata": "odd"}])
def test_a_message_is_stamped(metadata: dict[str, Any]) -> None:
    """The time is ISO with milliseconds, in UTC; missing, null and odd metadata are borne."""
    stamped = taken({"role": "user", "content": "hi", **metadata}, stamp=True)["metadata"]["timestamp"]
    assert datetime.fromisoformat(stamped).utcoffset() == timedelta(0)
    assert len(stamped) == len("2026-01-01T00:00:00.000+00:00")


def test_a_stamp_is_kept() -> None:
    """A message that says when it was keeps its time, and its other metadata."""
    metadata = {"timestamp": "then", "source": "hook"}
    assert taken({"role": "user", "content": "", "metadata": metadata}, stamp=True)["metadata"] == metadata


@pytest.mark.parametrize(
    ("content", "expected"),
    [(None, ""), ("text", "text"), ([], []), ({"b": 1, "a": "é"}, '{"b": 1, "a": "é"}'), (7, "7"), ((1,), [1])],
)
def test_content_becomes_text_or_blocks(content: Any, expected: Any) -> None:
    """A content that no request could carry becomes one that it can."""
    assert taken({"role": "assistant", "content": content})["content"] == expected
    assert taken({"role": "assistant"})["content"] == ""


def test_tool_results_are_clipped() -> None:
    """Only the text of a tool result is limited: what a person or the model said is not."""
    long = "x" * 1000
    assert len(taken({"role": "tool", "tool_call_id": "1", "content": long}, limit=300)["content"]) == 300
    assert taken({"role": "user", "content": long}, limit=300)["content"] == long


def test_lone_surrogates_are_replaced() -> None:
    """Text that no file and no socket could take is made one that it can, keys included."""
    owned = taken({"role": "user", "content": "a\ud800b", "metadata": {"k\udfff": ["\ud800", "é"]}})
    assert owned["content"] == "a\ufffdb"
    assert owned["metadata"] == {"k\ufffd": ["\ufffd", "é"]}


def test_models_and_other_mappings_are_messages_too() -> None:
    """A pydantic message, a read-only mapping and subclasses of text become plain data."""

    class Role(StrEnum):
        USER = "user"

    assert taken(MessageModel(role="user", content="hi")) == {"role": "user", "content": "hi"}
    owned = taken(MappingProxyType({"role": Role.USER, "content": "hi", 1: None}))
    assert owned == {"role": "user", "content": "hi", "1": None}
    assert type(owned["role"]) is str


@pytest.mark.parametrize("message", ["hello", None, 5, ["role"]])
def test_what_is_no_mapping_is_refused(message: Any) -> None:
    """The error says what a message is and what was given."""
    with pytest.raises(TypeError, match=f"must be a dict with 'role' and 'content', got {type(message).__name__}"):
        taken(message)


@pytest.mark.parametrize("role", [None, "", 5])
def test_a_message_without_a_role_is_refused(role: Any) -> None:
    """Such a message could never be sent, so it is refused where it comes in."""
    with pytest.raises(ValueError, match="needs a 'role' that is a non-empty string"):
        taken({"role": role, "content": "x"})


def test_sanitizing() -> None:
    """A transcript keeps the text of thinking, and neither doubled blocks, nor None, nor what JSON cannot carry."""
    message = {
        "role": "assistant",
        "content": [{"type": "text", "text": "hi", "visibility": None}, None],
        "thinking_block": {"type": "thinking", "thinking": "hmm", "signature": "s"},
        "content_blocks": ["again"],
        "name": None,
        "tool_calls": [{"id": "1", "arguments": {"a": None, "b": object(), "c": (1, Decimal(2)), 3: float("nan")}}],
    }
    assert sanitize_message(message) == {
        "role": "assistant",
        "content": [{"type": "text", "text": "hi"}],
        "thinking_text": "hmm",
        "tool_calls": [{"id": "1", "arguments": {"c": [1]}}],
    }
    assert "thinking_text" not in sanitize_message({"role": "assistant", "thinking_block": {}})

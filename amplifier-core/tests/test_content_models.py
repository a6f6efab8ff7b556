"""Streamed content blocks."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from amplifier_core.content_models import (
    ContentBlock,
    ContentBlockType,
    TextContent,
    ThinkingContent,
    ToolCallContent,
    ToolResultContent,
)


def test_types() -> None:
    """Four kinds are known; each is its own JSON text."""
    assert {kind.name: kind.value for kind in ContentBlockType} == {
        "TEXT": "text",
        "THINKING": "thinking",
        "TOOL_CALL": "tool_call",
        "TOOL_RESULT": "tool_result",
    }
    assert json.dumps(ContentBlockType.TEXT) == '"text"'
    assert str(ContentBlockType.TEXT) == "ContentBlockType.TEXT"


@pytest.mark.parametrize(
    ("block", "fields"),
    [
        (ContentBlock, ["type", "raw"]),
        (TextContent, ["type", "raw", "text"]),
        (ThinkingContent, ["type", "raw", "text"]),
        (ToolCallContent, ["type", "raw", "id", "name", "arguments"]),
        (ToolResultContent, ["type", "raw", "tool_call_id", "output", "error"]),
    ],
)
def test_field_order(block: Any, fields: list[str]) -> None:
    """Fields can be given by position: type, raw, then the block's own."""
    assert [field.name for field in dataclasses.fields(block)] == fields


@pytest.mark.parametrize(
    ("block", "shown"),
    [
        (ContentBlock(ContentBlockType.TEXT), {"type": "text"}),
        (ContentBlock(ContentBlockType.TEXT, raw={"id": 1}), {"type": "text"}),
        (TextContent(), {"type": "text", "text": ""}),
        (TextContent(text="a", raw={"id": 1}), {"type": "text", "text": "a"}),
        (TextContent(ContentBlockType.TEXT, None, "b"), {"type": "text", "text": "b"}),
        (ThinkingContent(text="a"), {"type": "thinking", "text": "a"}),
        (ToolCallContent(), {"type": "tool_call", "id": "", "name": "", "arguments": None}),
        (
            ToolCallContent(id="1", name="n", arguments={"a": 1}),
            {"type": "tool_call", "id": "1", "name": "n", "arguments": {"a": 1}},
        ),
        (ToolResultContent(), {"type": "tool_result", "tool_call_id": "", "output": None}),
        (ToolResultContent(output=1, error=""), {"type": "tool_result", "tool_call_id": "", "output": 1}),
        (
            ToolResultContent(tool_call_id="1", error="e"),
            {"type": "tool_result", "tool_call_id": "1", "output": None, "error": "e"},
        ),
    ],
)
def test_to_dict(block: ContentBlock, shown: dict[str, Any]) -> None:
    """The dump has the block's own fields, never raw, and an error only when there is one."""
    assert block.to_dict() == shown
    assert type(block.to_dict()["type"]) is str


def test_type_given_as_text() -> None:
    """The kind may be given by its value; an unknown one fails when dumped."""
    assert ContentBlock("text").to_dict() == {"type": "text"}  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'video' is not a valid ContentBlockType"):
        ContentBlock("video").to_dict()  # type: ignore[arg-type]


def test_type_is_required_on_the_base() -> None:
    """The base class does not guess its kind."""
    with pytest.raises(TypeError):
        ContentBlock()  # type: ignore[call-arg]


def test_equality_is_by_value() -> None:
    """Blocks with the same fields are equal, and raw counts."""
    assert TextContent(text="a") == TextContent(text="a")
    assert TextContent(text="a") != TextContent(text="a", raw={})

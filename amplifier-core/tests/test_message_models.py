"""The envelope: the shape in which every provider is asked and answers."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from amplifier_core import message_models
from amplifier_core.message_models import (
    ChatRequest,
    ChatResponse,
    Degradation,
    ImageBlock,
    Message,
    ReasoningBlock,
    RedactedThinkingBlock,
    ResponseFormat,
    ResponseFormatJson,
    ResponseFormatJsonSchema,
    ResponseFormatText,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolCallBlock,
    ToolResultBlock,
    ToolSpec,
    Usage,
)

BLOCKS: list[tuple[type[BaseModel], dict[str, Any]]] = [
    (TextBlock, {"type": "text", "text": "t"}),
    (ThinkingBlock, {"type": "thinking", "thinking": "t", "signature": None, "content": None}),
    (RedactedThinkingBlock, {"type": "redacted_thinking", "data": "d"}),
    (ToolCallBlock, {"type": "tool_call", "id": "1", "name": "n", "input": {"a": 1}}),
    (ToolResultBlock, {"type": "tool_result", "tool_call_id": "1", "output": [1]}),
    (ImageBlock, {"type": "image", "source": {"type": "url", "url": "u"}}),
    (ReasoningBlock, {"type": "reasoning", "content": [1], "summary": [2]}),
]
OTHERS: list[tuple[type[BaseModel], dict[str, Any]]] = [
    (Message, {"role": "user", "content": "hi", "name": None, "tool_call_id": None, "metadata": None}),
    (ToolSpec, {"name": "n", "parameters": {}, "description": None}),
    (ToolCall, {"id": "1", "name": "n", "arguments": {}}),
    (Degradation, {"requested": "a", "actual": "b", "reason": "c"}),
]
USAGE = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}


@pytest.mark.parametrize(("model", "fields"), BLOCKS)
class TestBlocks:
    def test_type_is_implied(self, model: type[BaseModel], fields: dict[str, Any]) -> None:
        """The type need not be given, and no other is accepted."""
        without_type = {key: value for key, value in fields.items() if key != "type"}
        assert model.model_validate(without_type).model_dump()["type"] == fields["type"]
        with pytest.raises(ValidationError):
            model.model_validate({**fields, "type": "other"})

    def test_extras_survive(self, model: type[BaseModel], fields: dict[str, Any]) -> None:
        """Unknown keys are kept and dumped."""
        assert model.model_validate({**fields, "cache": {"ttl": 1}}).model_dump()["cache"] == {"ttl": 1}


@pytest.mark.parametrize(
    ("model", "required"),
    [
        (TextBlock, {"text"}),
        (ThinkingBlock, {"thinking"}),
        (RedactedThinkingBlock, {"data"}),
        (ToolCallBlock, {"id", "name", "input"}),
        (ToolResultBlock, {"tool_call_id", "output"}),
        (ImageBlock, {"source"}),
        (ReasoningBlock, {"content", "summary"}),
        (Message, {"role", "content"}),
        (ToolSpec, {"name", "parameters"}),
        (ResponseFormatText, set()),
        (ResponseFormatJson, set()),
        (ResponseFormatJsonSchema, {"json_schema"}),
        (ChatRequest, {"messages"}),
        (ToolCall, {"id", "name", "arguments"}),
        (Usage, set(USAGE)),
        (Degradation, {"requested", "actual", "reason"}),
        (ChatResponse, {"content"}),
    ],
)
def test_required_fields(model: type[BaseModel], required: set[str]) -> None:
    """Exactly the listed fields must be given."""
    assert {name for name, field in model.model_fields.items() if field.is_required()} == required


@pytest.mark.parametrize(("model", "fields"), OTHERS)
def test_plain_models(model: type[BaseModel], fields: dict[str, Any]) -> None:
    """A model has its fields and keeps extra ones."""
    assert model.model_validate(fields).model_dump() == fields
    assert model.model_validate({**fields, "extra": 1}).model_dump() == {**fields, "extra": 1}


class TestMessage:
    def test_blocks_round_trip(self) -> None:
        """A message of every kind of block survives JSON, extras and signatures included."""
        contents = [{**fields, "visibility": "internal", "extra": 1} for _, fields in BLOCKS]
        message = Message(role="assistant", content=contents)
        assert [type(block) for block in message.content] == [model for model, _ in BLOCKS]
        assert Message.model_validate_json(message.model_dump_json()) == message


class TestResponseFormat:
    def test_extras_are_ignored(self) -> None:
        """Formats, unlike the rest of the envelope, drop unknown keys."""
        assert ResponseFormatText(extra=1).model_dump() == {"type": "text"}

    @pytest.mark.parametrize(
        ("given", "kind"),
        [
            ({"type": "text"}, ResponseFormatText),
            ({"type": "json"}, ResponseFormatJson),
            ({"type": "json_schema", "json_schema": {}}, ResponseFormatJsonSchema),
            ({}, ResponseFormatText),
        ],
    )
    def test_union(self, given: dict[str, Any], kind: type[BaseModel]) -> None:
        """The union takes the format that fits."""
        assert type(TypeAdapter(ResponseFormat).validate_python(given)) is kind
        assert type(ChatRequest(messages=[], response_format=given).response_format) is kind


class TestChatRequest:
    def test_nested_dicts_become_models(self) -> None:
        """Messages and tools given as dicts become models."""
        request = ChatRequest(
            messages=[{"role": "user", "content": [{"type": "text", "text": "a"}]}],
            tools=[{"name": "n", "parameters": {}}],
        )
        assert request.messages[0].content == [TextBlock(text="a")]
        assert request.tools == [ToolSpec(name="n", parameters={})]

    @pytest.mark.parametrize("choice", ["auto", {"type": "tool", "name": "n"}, None])
    def test_tool_choice(self, choice: Any) -> None:
        """A tool choice is a word or an object."""
        assert ChatRequest(messages=[], tool_choice=choice).tool_choice == choice


class TestChatResponse:
    def test_round_trip(self) -> None:
        """A full response survives JSON."""
        response = ChatResponse(
            content=[TextBlock(text="a"), ThinkingBlock(thinking="b", signature="s")],
            tool_calls=[ToolCall(id="1", name="n", arguments={"x": 1})],
            usage=Usage(**USAGE, cost_usd="0.25"),
            degradation=Degradation(requested="a", actual="b", reason="c"),
            finish_reason="stop",
            provider_id="p",
        )
        assert ChatResponse.model_validate_json(response.model_dump_json()) == response


def test_tool_call_arguments_are_an_object() -> None:
    """Arguments as a string of JSON are refused: parsing them is the provider's work."""
    with pytest.raises(ValidationError):
        ToolCall(id="1", name="n", arguments="{}")


def test_public_names() -> None:
    """Every public name exists."""
    assert all(hasattr(message_models, name) for name in message_models.__all__)
    assert len(message_models.__all__) == 19

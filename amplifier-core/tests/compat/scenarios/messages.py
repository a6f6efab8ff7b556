"""The envelope between loops and providers."""

from __future__ import annotations

from typing import Any

from amplifier_core import (
    ChatRequest,
    ChatResponse,
    Message,
    ResponseFormatJson,
    ResponseFormatJsonSchema,
    ResponseFormatText,
    TextBlock,
    ToolCall,
    ToolSpec,
    Usage,
)
from amplifier_core.message_models import ContentBlockUnion

from .base import Stage, outcome, scenario


@scenario
async def message_defaults(stage: Stage) -> Any:
    """Messages with text and with blocks; unknown keys are kept."""
    blocks = [
        {"type": "text", "text": "t"},
        {"type": "thinking", "thinking": "h", "signature": "s"},
        {"type": "redacted_thinking", "data": "d"},
        {"type": "tool_call", "id": "i", "name": "n", "input": {"a": 1}},
        {"type": "tool_result", "tool_call_id": "i", "output": [1]},
        {"type": "image", "source": {"type": "base64"}},
        {"type": "reasoning", "content": ["c"], "summary": []},
    ]
    mixed = Message(role="assistant", content=blocks, extra_key=1)
    return [Message(role="user", content="hi"), mixed, [type(block).__name__ for block in mixed.content]]


@scenario
async def message_refusals(stage: Stage) -> Any:
    """Unknown roles, unknown blocks and missing fields."""
    tries: list[dict[str, Any]] = [
        {"role": "robot", "content": ""},
        {"role": "user"},
        {"role": "user", "content": [{"type": "video"}]},
        {"role": "user", "content": [{"type": "tool_call", "id": "i"}]},
        {"role": "user", "content": [{"text": "no type"}]},
        {"role": "user", "content": 5},
    ]
    said = [str(await outcome(lambda fields=fields: Message(**fields))) for fields in tries]
    return [text.split(" ")[0] for text in said]


@scenario
async def roles(stage: Stage) -> Any:
    """The roles there are."""
    return [
        Message(role=role, content="").role for role in ("system", "developer", "user", "assistant", "function", "tool")
    ]


@scenario
async def requests(stage: Stage) -> Any:
    """A request with its defaults, and one with everything."""
    message = Message(role="user", content="hi")
    full = ChatRequest(
        messages=[message],
        tools=[ToolSpec(name="t", parameters={}, strict=True)],
        response_format={"type": "json_schema", "json_schema": {"a": 1}},
        tool_choice={"type": "auto"},
        stop=["x"],
        custom="kept",
    )
    return [ChatRequest(messages=[message]), full, type(full.response_format).__name__]


@scenario
async def response_formats(stage: Stage) -> Any:
    """The three formats, by name and by alias."""
    schema = ResponseFormatJsonSchema(json_schema={"a": 1}, strict=True)
    named: Any = {"schema": {"a": 1}}
    by_alias = await outcome(lambda: ResponseFormatJsonSchema(**named).model_dump(by_alias=True))
    return [ResponseFormatText(), ResponseFormatJson(), schema, schema.model_dump(by_alias=True), by_alias]


@scenario
async def responses(stage: Stage) -> Any:
    """A response with its defaults, and one with everything."""
    usage = Usage(input_tokens=1, output_tokens=2, total_tokens=3, extra_tokens=4)
    full = ChatResponse(
        content=[TextBlock(text="t", visibility="user")],
        tool_calls=[ToolCall(id="i", name="n", arguments={})],
        usage=usage,
    )
    return [ChatResponse(content=[]), full, full.model_dump(exclude_none=True)]


@scenario
async def block_visibility(stage: Stage) -> Any:
    """Who may see a block."""
    values: list[Any] = ["internal", "developer", "user", None, "everyone"]
    return [
        str(await outcome(lambda value=value: str(TextBlock(text="t", visibility=value).visibility)))
        for value in values
    ]


@scenario
async def union(stage: Stage) -> Any:
    """The union of blocks chooses by type."""
    from pydantic import TypeAdapter

    adapter: Any = TypeAdapter(ContentBlockUnion)
    return [
        adapter.validate_python({"type": "text", "text": "t"}),
        str(await outcome(lambda: adapter.validate_python({"type": "x"})))[:15],
    ]

"""The envelope: requests to and responses from models, the same for every provider.

All of it keeps unknown keys, so that a provider's extras survive the trip; only response formats ignore them.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from amplifier_core.models import CostUSD

__all__ = [
    "ChatRequest",
    "ChatResponse",
    "ContentBlockUnion",
    "Degradation",
    "ImageBlock",
    "Message",
    "ReasoningBlock",
    "RedactedThinkingBlock",
    "ResponseFormat",
    "ResponseFormatJson",
    "ResponseFormatJsonSchema",
    "ResponseFormatText",
    "TextBlock",
    "ThinkingBlock",
    "ToolCall",
    "ToolCallBlock",
    "ToolResultBlock",
    "ToolSpec",
    "Usage",
]

Visibility = Literal["internal", "developer", "user"]


class _Envelope(BaseModel):
    model_config = ConfigDict(extra="allow", defer_build=True)


class TextBlock(_Envelope):
    """Hold text."""

    type: Literal["text"] = "text"
    text: str
    visibility: Visibility | None = None


class ThinkingBlock(_Envelope):
    """Hold the model's reasoning; the signature must be sent back unchanged."""

    type: Literal["thinking"] = "thinking"
    thinking: str
    signature: str | None = None
    visibility: Visibility | None = None
    content: list[Any] | None = None


class RedactedThinkingBlock(_Envelope):
    """Hold reasoning that the service encrypted; it must be sent back unchanged."""

    type: Literal["redacted_thinking"] = "redacted_thinking"
    data: str
    visibility: Visibility | None = None


class ToolCallBlock(_Envelope):
    """Hold a tool call inside a message."""

    type: Literal["tool_call"] = "tool_call"
    id: str
    name: str
    input: dict[str, Any]
    visibility: Visibility | None = None


class ToolResultBlock(_Envelope):
    """Hold the answer to a tool call inside a message."""

    type: Literal["tool_result"] = "tool_result"
    tool_call_id: str
    output: Any
    visibility: Visibility | None = None


class ImageBlock(_Envelope):
    """Hold an image, by value or by reference."""

    type: Literal["image"] = "image"
    source: dict[str, Any]
    visibility: Visibility | None = None


class ReasoningBlock(_Envelope):
    """Hold reasoning in the form of content and summary."""

    type: Literal["reasoning"] = "reasoning"
    content: list[Any]
    summary: list[Any]
    visibility: Visibility | None = None


ContentBlockUnion = Annotated[
    TextBlock | ThinkingBlock | RedactedThinkingBlock | ToolCallBlock | ToolResultBlock | ImageBlock | ReasoningBlock,
    Field(discriminator="type"),
]


class Message(_Envelope):
    """Hold one message of a conversation."""

    role: Literal["system", "developer", "user", "assistant", "function", "tool"]
    content: str | list[ContentBlockUnion]
    name: str | None = None
    tool_call_id: str | None = None
    metadata: dict[str, Any] | None = None


class ToolSpec(_Envelope):
    """Describe a tool to the model."""

    name: str
    parameters: dict[str, Any]
    description: str | None = None


class ResponseFormatText(BaseModel):
    """Ask for plain text."""

    model_config = ConfigDict(defer_build=True)

    type: Literal["text"] = "text"


class ResponseFormatJson(BaseModel):
    """Ask for any JSON."""

    model_config = ConfigDict(defer_build=True)

    type: Literal["json"] = "json"


class ResponseFormatJsonSchema(BaseModel):
    """Ask for JSON that fits a schema. The field is `json_schema`; dumped by alias it is `schema`, as services say."""

    model_config = ConfigDict(defer_build=True, populate_by_name=True)

    type: Literal["json_schema"] = "json_schema"
    json_schema: dict[str, Any] = Field(serialization_alias="schema")
    strict: bool | None = None


ResponseFormat = ResponseFormatText | ResponseFormatJson | ResponseFormatJsonSchema


class ChatRequest(_Envelope):
    """Ask a model to continue a conversation."""

    messages: list[Message]
    tools: list[ToolSpec] | None = None
    response_format: ResponseFormat | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_output_tokens: int | None = None
    conversation_id: str | None = None
    stream: bool | None = False
    metadata: dict[str, Any] | None = None
    model: str | None = None
    tool_choice: str | dict[str, Any] | None = None
    stop: list[str] | None = None
    reasoning_effort: str | None = None
    timeout: float | None = None


class ToolCall(_Envelope):
    """Carry a tool call from the provider to the orchestrator."""

    id: str
    name: str
    arguments: dict[str, Any]


class Usage(_Envelope):
    """Count what one call used. `cost_usd` None means unknown, which is not zero."""

    input_tokens: int
    output_tokens: int
    total_tokens: int
    reasoning_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    cost_usd: CostUSD | None = None


class Degradation(_Envelope):
    """Say that the provider gave something else than was asked for, and why."""

    requested: str
    actual: str
    reason: str


class ChatResponse(_Envelope):
    """Carry a model's answer."""

    content: list[ContentBlockUnion]
    tool_calls: list[ToolCall] | None = None
    usage: Usage | None = None
    degradation: Degradation | None = None
    finish_reason: str | None = None
    metadata: dict[str, Any] | None = None

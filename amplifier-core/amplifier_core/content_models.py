"""Content blocks as providers stream them: plain dataclasses, cheap to make by the thousand."""

from dataclasses import dataclass, fields
from enum import Enum
from typing import Any

__all__ = [
    "ContentBlock",
    "ContentBlockType",
    "TextContent",
    "ThinkingContent",
    "ToolCallContent",
    "ToolResultContent",
]


class ContentBlockType(str, Enum):  # noqa: UP042 - StrEnum would change str() and format()
    """Name the kind of a streamed block."""

    TEXT = "text"
    THINKING = "thinking"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"


@dataclass(repr=False, eq=False)
class ContentBlock:
    """Hold what all blocks share. `raw` is the provider's own object and never leaves in `to_dict`."""

    type: ContentBlockType
    raw: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the block as JSON-able data; raise ValueError when `type` names no known kind."""
        return {"type": ContentBlockType(self.type).value}

    # Written once instead of compiled for each class, at every start.

    def __repr__(self) -> str:
        shown = ", ".join(f"{one.name}={getattr(self, one.name)!r}" for one in fields(self))
        return f"{type(self).__qualname__}({shown})"

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, one.name) == getattr(other, one.name) for one in fields(self))

    __hash__ = None  # type: ignore[assignment]  # as of any data class that can change


@dataclass(repr=False, eq=False)
class TextContent(ContentBlock):
    """Hold text of an answer."""

    type: ContentBlockType = ContentBlockType.TEXT
    text: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return type and text."""
        return {**super().to_dict(), "text": self.text}


@dataclass(repr=False, eq=False)
class ThinkingContent(ContentBlock):
    """Hold text of the model's reasoning."""

    type: ContentBlockType = ContentBlockType.THINKING
    text: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return type and text."""
        return {**super().to_dict(), "text": self.text}


@dataclass(repr=False, eq=False)
class ToolCallContent(ContentBlock):
    """Hold a tool call the model asks for."""

    type: ContentBlockType = ContentBlockType.TOOL_CALL
    id: str = ""
    name: str = ""
    arguments: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return type, id, name and arguments."""
        return {**super().to_dict(), "id": self.id, "name": self.name, "arguments": self.arguments}


@dataclass(repr=False, eq=False)
class ToolResultContent(ContentBlock):
    """Hold what a tool answered."""

    type: ContentBlockType = ContentBlockType.TOOL_RESULT
    tool_call_id: str = ""
    output: Any = None
    error: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return type, tool_call_id and output, and the error where there is one."""
        block = {**super().to_dict(), "tool_call_id": self.tool_call_id, "output": self.output}
        if self.error:
            block["error"] = self.error
        return block

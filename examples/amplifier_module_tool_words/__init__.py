"""A tool that counts words."""

from typing import Any, ClassVar

from amplifier_core import ToolResult

__amplifier_module_type__ = "tool"


class CountWords:
    """Count the words of a text."""

    name = "count_words"
    description = "Count the words of a text."
    input_schema: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {"text": {"type": "string", "description": "The text to count"}},
        "required": ["text"],
    }

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        text = input.get("text")
        if not isinstance(text, str):
            return ToolResult(success=False, error={"message": "count_words needs 'text', a string"})
        return ToolResult(output={"words": len(text.split())})


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> dict[str, Any]:
    tool = CountWords()
    await coordinator.mount("tools", tool, name=tool.name)
    return {"name": "tool-words", "version": "0.1.0", "provides": [tool.name]}

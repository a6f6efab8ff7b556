"""A tool as the published guides write one: a class with four attributes, mounted under its name."""

__amplifier_module_type__ = "tool"

import logging
from typing import Any

from amplifier_core import ModuleCoordinator, ToolResult

from .counting import count_words

logger = logging.getLogger(__name__)


class CensusTool:
    def __init__(self, config: dict[str, Any], coordinator: ModuleCoordinator) -> None:
        self.config = config
        self.coordinator = coordinator

    @property
    def name(self) -> str:
        return "census"

    @property
    def description(self) -> str:
        return "Count the words of a text."

    @property
    def input_schema(self) -> dict[str, Any]:
        return {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        return ToolResult(success=True, output={"words": count_words(input["text"])})


async def mount(coordinator: ModuleCoordinator, config: dict[str, Any] | None = None) -> Any:
    tool = CensusTool(config or {}, coordinator)
    await coordinator.mount("tools", tool, name=tool.name)
    logger.info("mounted census")
    return None

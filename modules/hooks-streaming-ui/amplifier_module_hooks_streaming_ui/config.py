"""The config keys of the module."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, model_validator

from amplifier_kit.config import Config

__all__ = ["UiConfig", "UiSection"]


class UiSection(Config):
    """The keys under `ui`."""

    show_thinking_stream: bool = Field(True, description="Show the model's thinking, while it streams in if it does.")
    show_text_stream: bool = Field(False, description="Show the answer too; apps usually do that themselves.")
    show_tool_lines: Annotated[int, Field(ge=0)] | None = Field(
        5, description="Lines of a tool's input and of its result; null for all."
    )
    show_token_usage: bool = Field(True, description="Show the usage of each answer of the model.")


class UiConfig(Config):
    """The config keys of the module. `ui: {show_tool_lines: 3}` and `ui.show_tool_lines: 3` mean the same."""

    #: Late, to show events as other hooks leave them.
    priority: int = Field(100, description="When the handlers run; lower is earlier.")
    ui: UiSection = Field(default_factory=UiSection.model_construct)

    @model_validator(mode="before")
    @classmethod
    def _read_dotted_keys(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        section = data.get("ui")
        dotted = {key[3:]: value for key, value in data.items() if isinstance(key, str) and key.startswith("ui.")}
        if not dotted or not (section is None or isinstance(section, Mapping)):
            return data
        rest = {key: value for key, value in data.items() if not str(key).startswith("ui.")}
        return {**rest, "ui": {**dotted, **(section or {})}}

"""The config keys of the module."""

from typing import Annotated, Literal

from pydantic import Field

from amplifier_kit.config import Config

__all__ = ["ReminderConfig"]


class ReminderConfig(Config):
    """The config keys of the module."""

    inject_role: Literal["system", "user", "assistant"] = Field(
        "user", description="Role of the reminder when there is no tool result to append it to."
    )
    priority: int = Field(10, description="When the handlers run; lower is earlier.")
    recent_tool_threshold: Annotated[int, Field(ge=0)] = Field(
        3, description="Calls of other tools in a row after which the model is reminded of `todo`."
    )

"""The config keys of the module."""

from typing import Annotated, Literal

from pydantic import Field

from amplifier_kit.config import Config, Count, Text

__all__ = ["TodoDisplayConfig"]


class TodoDisplayConfig(Config):
    """The config keys of the module."""

    mode: Literal["full", "condensed", "auto", "none"] = Field(
        "auto", description="All todos, one line, by the length of the list, or nothing."
    )
    compact_threshold: Count = Field(7, description="Todos up to which `auto` shows all of them.")
    show_progress_bar: bool = Field(True, description="Whether there is a bar of what is done.")
    progress_bar_width: Count = Field(24, description="Columns of the bar.")
    max_width: Annotated[int, Field(ge=20)] = Field(60, description="Columns of the whole.")
    show_border: bool = Field(True, description="Whether there is a frame.")
    title: Text = Field("Todo", description="What stands above the list.")

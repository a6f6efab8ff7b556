"""The config keys of the module."""

from pydantic import Field

from amplifier_kit.config import Config, Count, Text

__all__ = ["NotifyConfig"]


class NotifyConfig(Config):
    """The config keys of the module."""

    show_device: bool = Field(True, description="Whether the name of this machine is in the title.")
    show_project: bool = Field(True, description="Whether the name of the project is in the title.")
    show_preview: bool = Field(True, description="Whether the beginning of the answer is shown.")
    preview_length: Count = Field(100, description="Characters of the answer that are shown.")
    subtitle: Text | None = Field(None, description="A text behind the title.")
    suppress_if_focused: bool = Field(
        True, description="Whether nothing is shown while the app knows that its terminal has the focus."
    )
    min_iterations: Count = Field(1, description="Requests to the model that a turn must have had.")
    show_iteration_count: bool = Field(False, description="Whether the number of requests is shown.")
    sound: bool = Field(False, description="Whether the terminal rings its bell.")

"""The config keys of the module."""

from typing import Annotated

from pydantic import Field

from amplifier_kit.config import Config, Count, Texts

__all__ = ["SlashCommandConfig"]


class SlashCommandConfig(Config):
    """The config keys of the module."""

    commands: Texts = Field((), description="Further folders with commands: paths, `@namespace:folder`, or addresses.")
    max_chars: Count = Field(100_000, description="Characters of the prompt that a command may become.")
    command_timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] = Field(
        30.0, description="Seconds that one shell command in a file may take."
    )

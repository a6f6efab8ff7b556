"""The config keys of the module."""

from typing import Annotated

from pydantic import Field

from amplifier_kit.config import Config, Count, Text

__all__ = ["NamingConfig"]


class NamingConfig(Config):
    """The config keys of the module."""

    initial_trigger_turn: Count = Field(2, description="The turn after which the session gets its name.")
    update_interval_turns: Count = Field(5, description="Turns between two updates of the description.")
    max_name_length: Annotated[int, Field(ge=1, le=50)] = Field(50, description="Characters of a name.")
    max_description_length: Count = Field(200, description="Characters of a description.")
    max_retries: Annotated[int, Field(ge=0)] = Field(
        3, description="Further turns after which a name is tried when there was none."
    )
    model_role: Text = Field("fast", description="The role whose model is asked.")

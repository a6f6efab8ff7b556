"""The config keys of the module."""

from typing import Annotated

from pydantic import Field

from amplifier_kit.config import Config, PathText

__all__ = ["RecipesConfig"]


class RecipesConfig(Config):
    """What a bundle may set."""

    session_dir: PathText = Field(
        "~/.amplifier/projects", description="Folder of the projects' recipe sessions; `~/.amplifier` means the home."
    )
    auto_cleanup_days: Annotated[int, Field(ge=0)] = Field(
        7, description="Days after which unchanged recipe sessions are removed; 0 keeps them all."
    )

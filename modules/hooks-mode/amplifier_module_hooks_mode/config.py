"""The config keys of the module."""

from pydantic import Field

from amplifier_kit.config import Config, Texts

__all__ = ["ModeConfig"]


class ModeConfig(Config):
    """The config keys of the module."""

    search_paths: Texts = Field((), description="Further folders with modes: paths, or `@namespace:folder`.")
    infrastructure_tools: Texts = Field(("mode", "todo"), description="Tools that every mode lets run.")

"""The config keys of the module."""

from typing import Any

from pydantic import Field

from amplifier_kit.config import Config, Paths, Text

__all__ = ["RoutingConfig"]


class RoutingConfig(Config):
    """The config keys of the module."""

    default_matrix: Text = Field("balanced", description="The matrix that says which models fit a role.")
    overrides: dict[str, Any] = Field(
        {}, description="Roles in place of those of the matrix; `base` among the candidates stands for the matrix's."
    )
    custom_routing_dirs: Paths = Field((), description="Folders with matrices, searched before the others.")

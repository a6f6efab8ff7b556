"""The config keys of tools that delegate work to child sessions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field, Strict, model_validator

from amplifier_kit.config import Config, Count, Seconds, expects

__all__ = ["EXCLUDE_TOOLS", "DelegationConfig", "ModuleNames"]

#: The description of the key, for tools that give it another default.
EXCLUDE_TOOLS: Final = "Tool modules that a child does not get; by default those that delegate."

_Deadline = Annotated[
    Seconds | None,
    BeforeValidator(lambda value: None if value == -1 else value),
    expects("a positive number of seconds, or null for no limit"),
]
ModuleNames = Annotated[tuple[str, ...], Strict(False), expects("a list of module names")]


class DelegationConfig(Config):
    """The limits of child sessions; a tool sets the default of `exclude_tools`."""

    timeout: _Deadline = Field(3600.0, description="Seconds that a child may take; null or -1 for no limit.")
    heartbeat_interval: _Deadline = Field(
        30.0, description="Seconds between signs of life while a child works; null or -1 for none."
    )
    max_parallel: Count = Field(10, description="Children of this session that may work at the same time.")
    max_recursion_depth: Annotated[int, Field(ge=0)] = Field(
        5, description="Sessions that may stand below the first one, one under the other."
    )
    response_limit: Annotated[int, Field(ge=1000)] = Field(
        100_000, description="Characters of an answer that are returned."
    )
    exclude_tools: ModuleNames | None = Field(None, description=EXCLUDE_TOOLS)
    inherit_tools: ModuleNames | None = Field(None, description="Tool modules that a child gets, and no others.")
    exclude_hooks: ModuleNames | None = Field(None, description="Hook modules that a child does not get.")
    inherit_hooks: ModuleNames | None = Field(None, description="Hook modules that a child gets, and no others.")

    @model_validator(mode="before")
    @classmethod
    def _let_inherited_tools_win(cls, data: Any) -> Any:
        """Exclude nothing by default where the tools that a child gets are named."""
        if isinstance(data, Mapping) and "inherit_tools" in data and "exclude_tools" not in data:
            return {**data, "exclude_tools": None}
        return data

    def tool_inheritance(self) -> dict[str, list[str]] | None:
        """Return what a child gets of the tools; None when it gets all."""
        return _inheritance(exclude_tools=self.exclude_tools, inherit_tools=self.inherit_tools)

    def hook_inheritance(self) -> dict[str, list[str]] | None:
        """Return what a child gets of the hooks; None when it gets all."""
        return _inheritance(exclude_hooks=self.exclude_hooks, inherit_hooks=self.inherit_hooks)


def _inheritance(**given: tuple[str, ...] | None) -> dict[str, list[str]] | None:
    named = {key: list(names) for key, names in given.items() if names is not None}
    return named or None

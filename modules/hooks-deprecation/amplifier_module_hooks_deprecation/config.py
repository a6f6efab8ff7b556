"""The config keys of the module."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, Strict, model_validator

from amplifier_kit.config import Config, Text, expects

__all__ = ["Deprecation", "DeprecationConfig"]

#: YAML reads a date as one.
_Date = Annotated[
    Text,
    BeforeValidator(lambda value: value.isoformat() if isinstance(value, date) else value),
    expects("a date or a text that is not empty"),
]


class Deprecation(Config):
    """One deprecated bundle."""

    bundle_name: Text = Field(description="The deprecated bundle.")
    message: Text = Field(description="Why it is deprecated.")
    replacement: Text | None = Field(None, description="The bundle to use in its place.")
    migration: Text | None = Field(None, description="How to change to it.")
    severity: Literal["info", "warning", "error"] = Field("warning", description="How it is shown.")
    sunset_date: _Date | None = Field(None, description="When it will be gone.")
    require_evidence: bool = Field(
        False, description="Whether the person is told only when a file of theirs names the bundle."
    )


class DeprecationConfig(Config):
    """Either the keys of one deprecation, or a list of them."""

    bundle_name: Text | None = Field(None, description="The deprecated bundle.")
    message: Text | None = Field(None, description="Why it is deprecated; needed with `bundle_name`.")
    replacement: Text | None = Field(None, description="The bundle to use in its place.")
    migration: Text | None = Field(None, description="How to change to it.")
    severity: Literal["info", "warning", "error"] = Field("warning", description="How it is shown.")
    sunset_date: _Date | None = Field(None, description="When it will be gone.")
    require_evidence: bool = Field(
        False, description="Whether the person is told only when a file of theirs names the bundle."
    )
    deprecations: Annotated[tuple[Deprecation, ...], Strict(False), expects("a list of deprecations")] = Field(
        (), description="Several deprecations, each with the keys above."
    )

    @model_validator(mode="after")
    def _check_pair(self) -> DeprecationConfig:
        if (self.bundle_name is None) != (self.message is None):
            raise ValueError("'bundle_name' and 'message' belong together")
        return self

    def all(self) -> tuple[Deprecation, ...]:
        """Return every deprecation."""
        if self.bundle_name is None:
            return self.deprecations
        keys: dict[str, Any] = {key: getattr(self, key) for key in Deprecation.model_fields}
        return (Deprecation(**keys), *self.deprecations)

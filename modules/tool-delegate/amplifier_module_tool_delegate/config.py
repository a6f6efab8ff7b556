"""The config: which parts of the tool are on, and the limits of child sessions."""

from typing import Annotated, Any

from pydantic import Field, model_validator

from amplifier_kit.config import Config
from amplifier_kit.engine.delegation.request import EXCLUDE_TOOLS, DelegationConfig, ModuleNames

__all__ = ["DelegateConfig", "Features"]

_Number = Annotated[int, Field(ge=0)]


class Feature(Config):
    """A part of the tool; true and false are short for `{enabled: ...}`."""

    enabled: bool = Field(True, description="Whether this part of the tool is on.")

    @model_validator(mode="before")
    @classmethod
    def _read_switch(cls, data: Any) -> Any:
        return {"enabled": data} if isinstance(data, bool) else data


class SelfDelegation(Feature):
    """Copies of a session."""

    max_depth: _Number = Field(3, description="How deep copies of a session may be nested.")


class ContextInheritance(Feature):
    """How much of the conversation a child gets."""

    max_turns: _Number = Field(10, description="Turns of the conversation that a child may get.")


class Features(Config):
    """The optional parts of the tool."""

    self_delegation: SelfDelegation = Field(default_factory=SelfDelegation.model_construct)
    session_resume: Feature = Field(default_factory=Feature.model_construct)
    context_inheritance: ContextInheritance = Field(default_factory=ContextInheritance.model_construct)
    provider_selection: Feature = Field(default_factory=Feature.model_construct)

    @property
    def self_depth(self) -> int:
        """Return how deep copies of a session may be nested; 0 for none."""
        return self.self_delegation.max_depth if self.self_delegation.enabled else 0

    @property
    def resumes(self) -> bool:
        return self.session_resume.enabled

    @property
    def max_turns(self) -> int:
        """Return how many turns a child may get; 0 for none."""
        return self.context_inheritance.max_turns if self.context_inheritance.enabled else 0

    @property
    def selects_provider(self) -> bool:
        return self.provider_selection.enabled


class Limits(DelegationConfig):
    """The limits of child sessions, which by default cannot delegate themselves."""

    exclude_tools: ModuleNames | None = Field(("tool-delegate",), description=EXCLUDE_TOOLS)


class DelegateConfig(Config):
    """The config of the module."""

    features: Features = Field(default_factory=Features.model_construct)
    settings: Limits = Field(default_factory=Limits.model_construct)

"""The config: which parts of the tool are on, and the limits of child sessions."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, model_validator

from amplifier_kit.config import Config
from amplifier_kit.engine.delegation.config import EXCLUDE_TOOLS, DelegationConfig, ModuleNames

__all__ = ["DelegateConfig", "Features"]

_Number = Annotated[int, Field(ge=0)]


class Feature(Config):
    """A part of the tool; true and false stand for `{enabled: ...}`."""

    enabled: bool = Field(True, description="Whether this part of the tool is on.")

    @model_validator(mode="before")
    @classmethod
    def _read_switch(cls, data: Any) -> Any:
        return {"enabled": data} if isinstance(data, bool) else data


class SelfDelegation(Feature):
    """Copies of a session."""

    max_depth: _Number = Field(3, description="Copies of itself that a session may start, one under the other.")


class ContextInheritance(Feature):
    """What a child learns of the conversation."""

    max_turns: _Number = Field(10, description="Turns of the conversation that a child may be given.")


class Features(Config):
    """What a model may ask for besides the work itself."""

    self_delegation: SelfDelegation = Field(default_factory=SelfDelegation.model_construct)
    session_resume: Feature = Field(default_factory=Feature.model_construct)
    context_inheritance: ContextInheritance = Field(default_factory=ContextInheritance.model_construct)
    provider_selection: Feature = Field(default_factory=Feature.model_construct)

    @property
    def self_depth(self) -> int:
        """Return how deep copies of a session may be nested; 0 when it may start none."""
        return self.self_delegation.max_depth if self.self_delegation.enabled else 0

    @property
    def resumes(self) -> bool:
        """Tell whether a child session may be resumed."""
        return self.session_resume.enabled

    @property
    def max_turns(self) -> int:
        """Return how many turns a child may be given; 0 when it is given none."""
        return self.context_inheritance.max_turns if self.context_inheritance.enabled else 0

    @property
    def selects_provider(self) -> bool:
        """Tell whether the model may choose the model of a child."""
        return self.provider_selection.enabled


class Limits(DelegationConfig):
    """The limits of child sessions, which by default cannot delegate themselves."""

    exclude_tools: ModuleNames | None = Field(("tool-delegate",), description=EXCLUDE_TOOLS)


class DelegateConfig(Config):
    """The config of the module."""

    features: Features = Field(default_factory=Features.model_construct)
    settings: Limits = Field(default_factory=Limits.model_construct)

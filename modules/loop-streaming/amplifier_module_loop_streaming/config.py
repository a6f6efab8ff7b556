"""The config keys of this loop beyond those that all loops share."""

from typing import Annotated, Any, Final

from pydantic import Field, Strict, model_validator

from amplifier_kit.config import Config, Count, expects
from amplifier_kit.engine.loop.config import Limit, LoopConfig

__all__ = ["Preference", "StreamingConfig"]


class Preference(Config):
    """A model to judge with: a provider ('*' for any) and a glob of model ids."""

    provider: str = "*"
    model: str = "*"

    @classmethod
    def is_unset(cls, key: str, value: Any) -> bool:
        """Return whether a value leaves a key at its default: null and an empty text do."""
        return value is None or value == ""

    @model_validator(mode="before")
    @classmethod
    def _read_glob(cls, data: Any) -> Any:
        """Read a text as a model glob for any provider."""
        return {"model": data} if isinstance(data, str) and data else data


#: Small and quick models, tried in this order.
_PREFERENCES: Final = tuple(
    Preference.model_construct(provider=provider, model=model)
    for provider, model in (
        ("anthropic", "claude-haiku-*"),
        ("openai", "gpt-*-mini*"),
        ("gemini", "gemini-*-flash*"),
        ("github-copilot", "*-mini*"),
        ("ollama", "*"),
    )
)

_Number = Annotated[float, Field(ge=0)]
_Preferences = Annotated[
    tuple[Preference, ...],
    Strict(False),
    expects("a list of model globs, or of mappings with a provider and a model glob"),
]


class StreamingConfig(LoopConfig):
    """All config keys of the loop; those of the goal loop begin with `goal_`."""

    stream_delay: _Number = Field(0.0, description="Seconds to wait per word of an answer that came in one piece.")
    min_delay_between_calls_ms: _Number = Field(0.0, description="Milliseconds that must lie between two model calls.")
    goal_stall_threshold: Count = Field(3, description="Turns without a tool call before the goal counts as stalled.")
    goal_model_role: str = Field("fast", description="Role of the model that judges whether the goal is met.")
    goal_provider_preferences: _Preferences = Field(
        _PREFERENCES, description="Models to judge with when no resolver knows the role, best first."
    )
    goal_max_transcript_messages: Count = Field(40, description="Messages of the conversation that the judge reads.")
    goal_tool_content_clip_chars: Count = Field(2000, description="Characters of one tool result that the judge reads.")
    goal_transcript_char_budget: Count = Field(60_000, description="Characters that the judge reads in all.")
    goal_busy_stall_window: Annotated[int, Field(ge=2)] = Field(
        3, description="Similar reasons in a row before the goal counts as stalled."
    )
    goal_busy_stall_min_overlap: _Number = Field(0.5, description="Share of words that makes two reasons similar.")
    goal_summary_max_reasons: Count = Field(20, description="Reasons that are kept for the summary.")
    goal_default_cap: Limit = Field(50, description="Turns for a goal that names no cap itself; -1 for no limit.")

    @classmethod
    def is_unset(cls, key: str, value: Any) -> bool:
        """Return whether a value leaves a key at its default."""
        return super().is_unset(key, value) or (key == "goal_model_role" and value == "")

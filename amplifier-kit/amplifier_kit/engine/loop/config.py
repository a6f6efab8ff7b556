"""The config keys that all loops share; a tool's timeout is decided here (`LoopConfig.timeout_of`)."""

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from amplifier_kit.config import Config, Count, expects

#: The value of `max_iterations` for no limit.
UNLIMITED: Final = -1

Limit = Annotated[Count | Literal[-1], expects("a positive whole number, or -1 for no limit")]
#: `.inf` is accepted for no limit, as null is.
_Seconds = Annotated[float, Field(gt=0), expects("a positive number of seconds")]
_Repetitions = Annotated[int, Field(ge=2), expects("a whole number of at least 2")]


class LoopConfig(Config):
    """The config keys that all loops share."""

    max_iterations: Limit = Field(
        100, description="Model calls in one turn before the model is asked to sum up; -1 for no limit."
    )
    default_provider: str | None = Field(
        None, description="Provider to use, by the name it is mounted under; null for the one of the lowest priority."
    )
    extended_thinking: bool = Field(False, description="Ask the model to think before it answers.")
    reasoning_effort: str | None = Field(None, description="How much the model should think, in the provider's words.")
    tool_timeout: _Seconds | None = Field(600.0, description="Seconds that one tool call may take; null for no limit.")
    tool_timeouts: dict[str, _Seconds | None] = Field(
        default_factory=dict, description="The same for single tools, by name."
    )
    heartbeat_interval: _Seconds | None = Field(
        30.0, description="Seconds between signs of life while something runs long; null for none."
    )
    loop_guard_warn: _Repetitions | None = Field(
        3, description="Repetitions of the same calls with the same results before the model is warned; null for never."
    )
    loop_guard_stop: _Repetitions | None = Field(
        6, description="Repetitions of the same calls with the same results before the turn ends; null for never."
    )

    @classmethod
    def is_unset(cls, key: str, value: Any) -> bool:
        """Return whether a value leaves a key at its default: null, and an empty text where text is expected."""
        return value is None or (value == "" and key in ("default_provider", "reasoning_effort"))

    def is_limit_reached(self, iterations: int) -> bool:
        """Return whether a turn that has made this many model calls may make no more."""
        return self.max_iterations != UNLIMITED and iterations >= self.max_iterations

    def timeout_of(self, tool_name: str, tool: Any) -> float | None:
        """Return how many seconds a call of a tool may take, None for no limit.

        That is its entry in `tool_timeouts`, else the tool's own `deadline` attribute, else `tool_timeout`.
        """
        if tool_name in self.tool_timeouts:
            return self.tool_timeouts[tool_name]
        own = getattr(tool, "deadline", self.tool_timeout)
        if own is None or (isinstance(own, int | float) and not isinstance(own, bool) and own > 0):
            return own
        return self.tool_timeout

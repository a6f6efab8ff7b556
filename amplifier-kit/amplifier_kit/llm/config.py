"""The config keys that all providers share, and the environment variables behind some of them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final

from pydantic import BeforeValidator, Field

from amplifier_kit.config import Config, expects

# -- types of values, which wizards and `${NAME}` may store as text --


_SWITCHES: Final = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}


def to_switch(value: Any) -> Any:
    """Return the boolean for a word such as `yes` or `off`; anything else unchanged."""
    return value if isinstance(value, bool) else _SWITCHES.get(str(value).strip().lower(), value)


def to_number(value: Any) -> Any:
    """Return the number that a text holds; anything else unchanged."""
    if not isinstance(value, str):
        return value
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value


def _name(value: Any) -> Any:
    if isinstance(value, str):
        return value.strip()
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


Switch = Annotated[bool, BeforeValidator(to_switch)]
#: A whole number of at least 0.
Whole = Annotated[int, BeforeValidator(to_number), Field(ge=0)]
PositiveWhole = Annotated[int, BeforeValidator(to_number), Field(ge=1)]
AnyWhole = Annotated[int, BeforeValidator(to_number)]
Number = Annotated[
    float, BeforeValidator(to_number), Field(ge=0, allow_inf_nan=False), expects("a number of at least 0")
]
PositiveNumber = Annotated[
    float, BeforeValidator(to_number), Field(gt=0, allow_inf_nan=False), expects("a number above 0")
]
#: None leaves the temperature to the service.
Temperature = Annotated[Number | None, expects("a number of at least 0, or null")]
#: Text; a number is accepted as its digits.
Name = Annotated[str, BeforeValidator(_name)]


class ProviderConfig(Config):
    """The config keys that all providers share. Blank text leaves a key at its default, as null does."""

    #: Keys of apps, and of published providers, that have no meaning here.
    tolerated_keys: ClassVar[frozenset[str]] = frozenset(
        {"id", "instance_id", "debug", "raw_debug", "debug_truncate_length", "warmup_retries"}
    )

    default_model: Name = Field("", description="The model, unless a request names another.")
    model: Name | None = Field(None, description="The same as `default_model`.")
    priority: AnyWhole = Field(100, description="The provider with the lowest priority is used by default.")
    timeout: PositiveNumber = Field(600.0, description="Seconds to connect and to send.")
    stream_idle_timeout: PositiveNumber = Field(
        300.0, description="Seconds without data before a stream counts as broken."
    )
    use_streaming: Switch = Field(True, description="Emit `llm:stream_*` events while an answer arrives.")
    raw: Switch = Field(
        False, description="Put requests and responses into `llm:request` and `llm:response`, without secrets."
    )
    filtered: Switch = Field(True, description="Leave models that do not chat out of the list of models.")
    max_retries: Whole = Field(5, description="Further attempts after errors that may pass.")
    min_retry_delay: Number = Field(1.0, description="Seconds before the first retry; they grow with each.")
    max_retry_delay: Number = Field(
        60.0, description="Longest delay before a retry; a service that asks for a longer one is not asked again."
    )
    retry_jitter: Switch = Field(True, description="Vary the delays at random.")
    overloaded_delay_multiplier: Number = Field(
        10.0, description="Factor for the delay after a service reported that it is overloaded."
    )
    max_concurrent_requests: Whole = Field(
        5, description="Requests at the same time in the whole process; 0 for no limit."
    )
    throttle_threshold: Number = Field(
        0.02, description="Remaining share of a rate limit below which requests are delayed; 0 for never."
    )
    throttle_delay: Number = Field(1.0, description="Seconds of that delay.")
    circuit_breaker_threshold: Whole = Field(
        5, description="Failed requests in a row after which further ones fail at once; 0 for never."
    )
    circuit_breaker_cooldown: Number = Field(30.0, description="Seconds until the service is tried again.")
    structured_output_retries: Whole = Field(
        2, description="Further attempts at an answer that does not fit the output schema."
    )
    send_session_id: Switch = Field(False, description="Send the session's id to the service.")
    context_window: Whole | None = Field(None, description="Tokens of the context window; null for the model's.")
    max_output_tokens: Whole | None = Field(None, description="Tokens of the longest answer; null for the model's.")

    @classmethod
    def is_unset(cls, key: str, value: Any) -> bool:
        """Return whether a value leaves a key at its default: null and blank text do."""
        return value is None or (isinstance(value, str) and not value.strip())

    def is_given(self, key: str) -> bool:
        return key in self.model_fields_set and getattr(self, key) is not None

    @property
    def chosen_model(self) -> str:
        """The model to use: `default_model`, else `model`, else the provider's default."""
        return self.model if self.model and not self.is_given("default_model") else self.default_model


# -- the environment --


def env_or_config(
    config: Mapping[str, Any], key: str, names: Sequence[str] = (), *, env_wins: bool = False
) -> str | None:
    """Return the text under a config key, else the value of the first variable of `names` that is set, else None.

    A value that is still `${NAME}`, because the variable was unset when the plan was made, counts as missing.
    """
    given = config.get(key)
    text = str(given).strip() if given is not None else ""
    if text.startswith("${") and text.endswith("}"):
        text = ""
    found = next((value.strip() for name in names if (value := os.environ.get(name, "")).strip()), "")
    return ((found or text) if env_wins else (text or found)) or None


#: A shorter key may be the value of an unrelated variable by chance.
_SHORTEST_KEY: Final = 8


def name_of_key(key: str | None, names: Sequence[str]) -> str | None:
    """Return the variable that holds an API key: one of `names`, else any other; None when no variable holds it.

    Without a key, return the variable that should hold one.
    """
    if key is None:
        return names[0] if names else None
    holding = sorted(name for name, value in os.environ.items() if value.strip() == key)
    own = next((name for name in names if name in holding), None)
    return own or (holding[0] if holding and len(key) >= _SHORTEST_KEY else None)

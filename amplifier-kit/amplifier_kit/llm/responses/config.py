"""The config keys of services that speak the Responses API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from amplifier_kit.config import expects
from amplifier_kit.llm.config import (
    Name,
    Number,
    PositiveNumber,
    PositiveWhole,
    ProviderConfig,
    Switch,
    Temperature,
    to_switch,
)
from amplifier_kit.llm.responses.models import EFFORTS


def _as_reasoning(value: Any) -> Any:
    return value if isinstance(value, Mapping) else {"effort": value}


def _check_effort(reasoning: dict[str, Any]) -> dict[str, Any]:
    if reasoning.get("effort") not in (None, *EFFORTS):
        raise ValueError(f"unknown effort {reasoning['effort']!r}")
    return reasoning


_Reasoning = Annotated[
    dict[str, Any],
    BeforeValidator(_as_reasoning),
    AfterValidator(_check_effort),
    expects(f"one of {', '.join(EFFORTS)}, or a mapping with such an `effort`"),
]
Chaining = Annotated[
    Literal["auto"] | bool,
    BeforeValidator(lambda value: value if value == "auto" else to_switch(value)),
    expects("auto, true or false"),
]
Retention = Literal["in_memory", "24h"]


class ResponsesConfig(ProviderConfig):
    max_tokens: PositiveWhole = Field(
        4096, description="Tokens of the longest response; an answer may take several responses."
    )
    temperature: Temperature = Field(None, description="Sampling temperature, for models that do not think.")
    reasoning: _Reasoning = Field(
        default_factory=dict,
        description="How much to think, or the service's own `{effort, summary, ...}`; a request's effort wins.",
    )
    reasoning_summary: Literal["auto", "concise", "detailed"] | None = Field(
        "detailed", description="How thinking is summarized; null for no summary."
    )
    truncation: Literal["auto", "disabled"] | None = Field(
        None, description="auto drops the oldest messages when the window is full, disabled is an error then."
    )
    enable_state: Switch = Field(False, description="Let the service store responses.")
    enable_response_chaining: Chaining = Field(
        "auto", description="Continue from stored responses instead of sending the history; auto for thinking models."
    )
    prompt_cache_key: Name | None = Field(None, description="Name by which the service finds the prompt cache.")
    prompt_cache_retention: Retention | None = Field(
        None, description="How long prompt caches are kept; null for the service's default."
    )
    safety_identifier: Name | None = Field(
        None, description="Stable name of your user, for the service's abuse detection."
    )
    poll_interval: Number = Field(5.0, description="Seconds between polls of a response that runs in the background.")
    background_timeout: PositiveNumber = Field(1800.0, description="Seconds after which such a response is cancelled.")
    enable_long_context: Switch = Field(
        False, description="Use the larger context window of models that have one; its tokens cost more."
    )

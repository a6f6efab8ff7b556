"""The config keys of providers that speak chat completions."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, Strict

from amplifier_kit.config import expects
from amplifier_kit.llm.config import AnyWhole, Name, Number, PositiveNumber, ProviderConfig, Switch, Temperature, Whole

_StopTexts = Annotated[
    tuple[Annotated[str, Field(min_length=1)], ...],
    Strict(False),
    BeforeValidator(lambda value: [value] if isinstance(value, str) else value),
    expects("text or a list of texts that are not empty"),
]


class ChatConfig(ProviderConfig):
    tolerated_keys: ClassVar[frozenset[str]] = ProviderConfig.tolerated_keys - {"warmup_retries"}

    timeout: PositiveNumber = Field(
        300.0, description="Seconds to connect and to send, and for an answer that is not streamed."
    )
    max_retries: Whole = Field(3, description="Further attempts after errors that may pass.")
    max_retry_delay: Number = Field(
        30.0, description="Longest delay before a retry; a server that asks for a longer one is not asked again."
    )
    temperature: Temperature = Field(0.7, description="Sampling temperature; null for the server's default.")
    max_tokens: Whole = Field(4096, description="Tokens of the longest answer; 0 for the server's default.")
    top_p: Temperature = Field(None, description="Nucleus sampling; null for the server's default.")
    stop: _StopTexts = Field((), description="Texts at which an answer ends.")
    seed: AnyWhole | None = Field(None, description="Seed for sampling.")
    parallel_tool_calls: Switch = Field(True, description="Let the model make several tool calls at once.")
    reasoning_effort: Name | None = Field(
        None, description="How much the model should think, in the server's words; a request's effort wins."
    )
    send_reasoning: Switch = Field(True, description="Send thinking back with the message that it belongs to.")
    think_tags: Switch = Field(True, description="Read `<think>` at the beginning of a text as thinking.")
    include_usage: Switch = Field(True, description="Ask for token counts in streams.")
    structured_output: Literal["auto", "json_schema", "json_object", "tool", "prompt"] = Field(
        "auto", description="How to ask for an output schema; auto begins with the first way that the server accepts."
    )
    warmup_retries: Whole = Field(10, description="Further attempts while a server reports that it is still starting.")
    free: Switch = Field(False, description="Requests cost nothing.")
    price_list: Name | None = Field(None, description="The service's name in the price list of genai-prices.")
    # Headers and fields may hold secrets: error messages show neither.
    extra_body: dict[str, Any] = Field(
        default_factory=dict, repr=False, description="Further fields of each request, as the server defines them."
    )
    extra_headers: dict[str, Annotated[str, BeforeValidator(str)]] = Field(
        default_factory=dict, repr=False, description="Further headers of each request; they are masked in logs."
    )

    @classmethod
    def is_unset(cls, key: str, value: Any) -> bool:
        """Return whether a value leaves a key at its default; blank text may be a stop sequence."""
        return value is None or value == "" if key == "stop" else super().is_unset(key, value)

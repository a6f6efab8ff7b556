"""The config keys of the provider."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BeforeValidator, Field, Strict

from amplifier_kit.config import expects
from amplifier_kit.llm.config import Name, Number, PositiveWhole, ProviderConfig, Switch, Temperature, Whole, to_number

DEFAULT_MODEL: Final = "claude-sonnet-4-6"


def _as_list(value: Any) -> Any:
    items = value.split(",") if isinstance(value, str) else value
    return [str(item).strip() for item in items if str(item).strip()] if isinstance(items, list | tuple) else value


class AnthropicConfig(ProviderConfig):
    """The config keys of the provider."""

    #: The published provider keeps state in files; this one keeps it in memory.
    tolerated_keys: ClassVar[frozenset[str]] = ProviderConfig.tolerated_keys | {
        "rate_limit_state_path",
        "persist_fallback_state",
        "fallback_state_path",
    }

    api_key: Name | None = Field(None, repr=False, description="The key; ANTHROPIC_API_KEY by default.")
    base_url: Name | None = Field(
        None, description="Address of the service; ANTHROPIC_BASE_URL by default, else Anthropic's."
    )
    default_model: Name = Field(DEFAULT_MODEL, description="The model, unless a request names another.")
    max_tokens: PositiveWhole | None = Field(None, description="Tokens of the longest answer; null for the model's.")
    temperature: Temperature = Field(
        0.7, description="For models that take one, when they do not think; null for the service's default."
    )
    enable_prompt_caching: Switch = Field(True, description="Mark the parts of a prompt that the service can cache.")
    enable_web_search: Switch = Field(False, description="Give the model Anthropic's web search.")
    web_search_max_uses: PositiveWhole | None = Field(None, description="Searches per answer; null for no limit.")
    web_search_user_location: dict[str, Any] | None = Field(
        None, description="`city`, `region`, `country` and `timezone` for searches."
    )
    enable_1m_context: Switch = Field(
        True, description="Ask for a window of a million tokens where a model needs asking."
    )
    beta_headers: Annotated[
        tuple[str, ...], Strict(False), BeforeValidator(_as_list), expects("text with commas or a list of texts")
    ] = Field((), description="Further beta features.")
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = Field(
        None, description="How much effort the model makes; a request's effort wins."
    )
    speed: Literal["standard", "fast"] | None = Field(None, description="Speed of answers, for models that offer it.")
    thinking_type: Literal["adaptive", "enabled", "disabled"] = Field(
        "adaptive", description="adaptive (with a budget for older models), enabled (always with a budget) or disabled."
    )
    thinking_display: Literal["summarized", "omitted"] = Field(
        "summarized", description="How thinking is shown, for models that decide themselves how much to think."
    )
    thinking_budget_tokens: Annotated[int, BeforeValidator(to_number), Field(ge=1024)] = Field(
        16_000, description="Tokens for thinking, for models that need a budget."
    )
    thinking_budget_buffer: PositiveWhole = Field(
        8192, description="Tokens left for the answer when the budget would take them all."
    )
    task_budget_tokens: PositiveWhole | None = Field(
        None, description="Tokens for the whole task, which the model knows of; null for no limit."
    )
    fallback_on_overload: Switch = Field(False, description="Use a smaller model while this one is overloaded.")
    fallback_retry_count: Whole = Field(1, description="Further attempts before that.")
    fallback_cooldown_seconds: Number = Field(1800.0, description="Seconds for which the smaller model is used.")
    fallback_sonnet_model: Name = Field("claude-sonnet-4-6", description="The model in place of the largest ones.")
    fallback_haiku_model: Name = Field("claude-haiku-4-5", description="The model in place of Sonnet.")
    refusal_fallback_enabled: Switch = Field(True, description="Ask another model when this one refuses.")
    refusal_fallback_model: Name | None = Field(None, description="That model; null for none.")

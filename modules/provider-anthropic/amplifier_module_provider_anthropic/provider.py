"""The provider: its client, its calls, its models, and what it does when a model is overloaded or refuses."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from amplifier_core import ChatRequest, ConfigField, ModelInfo
from amplifier_core.llm_errors import ContentFilterError, LLMError, ProviderUnavailableError
from amplifier_core.message_models import ResponseFormatJsonSchema
from amplifier_kit.llm import (
    ANTHROPIC,
    Answer,
    LLMCall,
    LLMProvider,
    LLMResponse,
    Mode,
    Tokens,
    closed_schema,
    env_or_config,
    http_client,
    import_in_thread,
)
from amplifier_module_provider_anthropic.config import AnthropicConfig
from amplifier_module_provider_anthropic.messages import RAW_CONTENT
from amplifier_module_provider_anthropic.models import abilities_of, model_info
from amplifier_module_provider_anthropic.payload import build_payload
from amplifier_module_provider_anthropic.stream import OWN_BLOCKS, Reading

__all__ = ["EVENTS", "AnthropicProvider"]

logger = logging.getLogger(__name__)

FALLBACK_EVENT: Final = "provider:fallback"
CLOUDFLARE_EVENT: Final = "provider:cloudflare_challenge"
EVENTS: Final = (FALLBACK_EVENT, CLOUDFLARE_EVENT)

_BASE_URL: Final = "https://api.anthropic.com"
_OVERLOADED: Final = 529
_MOST_PAUSES: Final = 5


class AnthropicProvider(LLMProvider):
    """Answer through Anthropic's Messages API."""

    id = "anthropic"
    display_name = "Anthropic"
    wire = ANTHROPIC
    vendor = "anthropic"
    structured: ClassVar[Mode] = "native"
    key_names = ("ANTHROPIC_API_KEY",)
    config_model = AnthropicConfig
    settings: AnthropicConfig

    def __init__(self, config: Mapping[str, Any], coordinator: Any = None, *, api_key: str) -> None:
        """Read the config; raises ConfigError, which names each wrong value."""
        base_url = env_or_config(config, "base_url", ("ANTHROPIC_BASE_URL",)) or _BASE_URL
        super().__init__(config, coordinator, api_key=api_key, base_url=base_url)
        #: Overloaded models, and until when another one answers in their place.
        self._replaced: dict[str, float] = {}

    # -- the service --

    async def connect(self) -> Any:
        """Return an SDK client that does not retry by itself."""
        anthropic = await import_in_thread("anthropic")
        _hush_warnings()
        assert self.base_url is not None
        http = await http_client(self.base_url, timeout=self.settings.timeout, idle=self.settings.stream_idle_timeout)
        return anthropic.AsyncAnthropic(
            api_key=self.api_key,
            base_url=self.base_url.rstrip("/").removesuffix("/v1"),
            max_retries=0,
            timeout=http.timeout,
            http_client=http,
        )

    async def disconnect(self, client: Any) -> None:
        """Close the client and its connections."""
        await client.close()

    def payload(self, call: LLMCall) -> dict[str, Any]:
        """Return the arguments of `messages.create`."""
        return build_payload(call, self.settings)

    async def attempt(self, client: Any, payload: dict[str, Any], answer: Answer, call: LLMCall) -> None:
        """Stream one answer; a message that Anthropic's own tools paused is gone on with."""
        _warn_of_retirement(call.model)
        messages, kept, tokens = payload["messages"], [], None
        for number in range(_MOST_PAUSES + 1):
            reading = Reading(answer, number)
            async with await client.messages.create(**{**payload, "messages": messages}, stream=True) as stream:
                answer.headers = dict(stream.response.headers)
                await reading.read(stream)
            if not reading.is_complete or reading.stop_reason is None:
                return  # cut short, which the answer knows by itself
            tokens = _sum(tokens, reading.tokens())
            kept += reading.blocks
            if reading.stop_reason != "pause_turn":
                break
            messages = [*messages, {"role": "assistant", "content": reading.blocks}]
        answer.tokens = tokens
        answer.metadata["anthropic:stop_reason"] = reading.stop_reason
        if any(block["type"] not in OWN_BLOCKS for block in kept):
            answer.metadata[RAW_CONTENT] = kept
        await answer.finish(reading.finish_reason)

    # -- models --

    def model_info(self, model: str) -> ModelInfo:
        """Describe a model by its name."""
        return model_info(model, long_context=self.settings.enable_1m_context)

    async def fetch_models(self, client: Any) -> list[ModelInfo]:
        """Ask for the models; what the service says of their limits wins over what is known."""
        found = []
        async for listed in client.models.list(limit=100):
            if getattr(listed, "lifecycle", "active") == "retired":
                continue
            info = model_info(listed.id, long_context=self.settings.enable_1m_context, display_name=listed.display_name)
            told = {
                "context_window": getattr(listed, "max_input_tokens", None),
                "max_output_tokens": getattr(listed, "max_tokens", None),
            }
            found.append(info.model_copy(update={key: value for key, value in told.items() if value}))
        return found

    def shape_mode(self, request: ChatRequest) -> Mode:
        """Give the schema to models that take one; others get a tool for the answer, as do schemas left open."""
        wanted = request.response_format
        if not abilities_of(request.model or self.model).takes_schema:
            return "tool"
        try:
            closed_schema(wanted.json_schema if isinstance(wanted, ResponseFormatJsonSchema) else None)
        except ValueError:
            return "tool"
        return "native"

    def retries_for(self, error: LLMError) -> int:
        """Try an overloaded model less often when another one can answer in its place."""
        if self.settings.fallback_on_overload and error.status_code == _OVERLOADED:
            return min(self.settings.fallback_retry_count, self.settings.max_retries)
        return super().retries_for(error)

    def config_fields(self) -> list[ConfigField]:
        """Return what a wizard asks for."""
        return [
            ConfigField(
                id="api_key",
                display_name="API key",
                field_type="secret",
                prompt="Enter your Anthropic API key",
                env_var="ANTHROPIC_API_KEY",
            ),
            ConfigField(
                id="base_url",
                display_name="Base URL",
                prompt="Address of the service",
                env_var="ANTHROPIC_BASE_URL",
                required=False,
                default=_BASE_URL,
            ),
        ]

    # -- another model in its place --

    async def complete(self, request: ChatRequest, **options: Any) -> LLMResponse:
        """Return the model's answer, or raise an LLMError.

        With `fallback_on_overload`, a smaller model answers in place of an overloaded one for a while; with a
        `refusal_fallback_model`, that one is asked when the model refuses. Each is told by `provider:fallback`.
        """
        model = request.model or self.model
        if self._replaced.get(model, 0.0) > time.monotonic():
            return await self._in_place_of(model, self._smaller(model), "overloaded", request, options)
        try:
            return await super().complete(request, **options)
        except ContentFilterError as error:
            other = self.settings.refusal_fallback_model
            if not self.settings.refusal_fallback_enabled or other is None or other == model:
                raise
            logger.warning("%s refused (%s); %s is asked instead", model, error, other)
            return await self._in_place_of(model, other, "refusal", request, options)
        except ProviderUnavailableError as error:
            await self._tell_challenge(error, model)
            smaller = self._smaller(model)
            if not self.settings.fallback_on_overload or error.status_code != _OVERLOADED or smaller == model:
                raise
            self._replaced[model] = time.monotonic() + self.settings.fallback_cooldown_seconds
            return await self._in_place_of(model, smaller, "overloaded", request, options)

    async def _in_place_of(
        self, model: str, other: str, reason: str, request: ChatRequest, options: dict[str, Any]
    ) -> LLMResponse:
        told: dict[str, Any] = {"provider": self.name, "model": model, "fallback_model": other, "reason": reason}
        if reason == "overloaded":
            told["cooldown_seconds"] = round(max(0.0, self._replaced[model] - time.monotonic()))
        await self.emit(FALLBACK_EVENT, told)
        return await super().complete(request.model_copy(update={"model": other}), **options)

    def _smaller(self, model: str) -> str:
        if "haiku" in model:
            return model
        return self.settings.fallback_haiku_model if "sonnet" in model else self.settings.fallback_sonnet_model

    async def _tell_challenge(self, error: LLMError, model: str) -> None:
        if error.status_code == 403:
            await self.emit(CLOUDFLARE_EVENT, {"provider": self.name, "model": model, "error_message": str(error)})


_told_of: Final[set[str]] = set()


def _hush_warnings() -> None:
    """Keep the SDK from warning of models at every call: we say it once, where the user sees it."""
    import warnings

    warnings.filterwarnings("ignore", r"The model '.*' is deprecated", DeprecationWarning)
    warnings.filterwarnings("ignore", r"Using Claude with .* and 'thinking\.type=enabled' is deprecated", UserWarning)


def _warn_of_retirement(model: str) -> None:
    """Say once per process that a model will be gone, as far as the SDK knows."""
    import sys

    known = getattr(sys.modules.get("anthropic.resources.messages.messages"), "DEPRECATED_MODELS", {})
    if model in known and model not in _told_of:
        _told_of.add(model)
        logger.warning("anthropic: the model %s is retired on %s; choose a newer one", model, known[model])


def _sum(so_far: Tokens | None, more: Tokens) -> Tokens:
    """Add up what the messages of one answer took."""
    if so_far is None:
        return more
    names = {*so_far.priced, *more.priced}
    return Tokens(
        prompt=so_far.prompt + more.prompt,
        output=so_far.output + more.output,
        cache_read=(so_far.cache_read or 0) + (more.cache_read or 0),
        cache_write=(so_far.cache_write or 0) + (more.cache_write or 0),
        reasoning=(so_far.reasoning or 0) + (more.reasoning or 0),
        priced={name: so_far.priced.get(name, 0) + more.priced.get(name, 0) for name in names},
    )

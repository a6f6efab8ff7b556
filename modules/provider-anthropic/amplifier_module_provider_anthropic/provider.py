"""The provider: its client, its calls, its models, and the fallback for models that are overloaded or refuse."""

from __future__ import annotations

import logging
import sys
import time
import warnings
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from amplifier_core import ChatRequest, ConfigField, ModelInfo
from amplifier_core.llm_errors import ContentFilterError, LLMError, ProviderUnavailableError
from amplifier_core.message_models import ResponseFormatJsonSchema
from amplifier_kit.llm.client import http_client, import_in_thread
from amplifier_kit.llm.config import env_or_config
from amplifier_kit.llm.errors import ANTHROPIC
from amplifier_kit.llm.provider import LLMProvider, key_field, url_field
from amplifier_kit.llm.request import LLMCall
from amplifier_kit.llm.response import Answer, LLMResponse
from amplifier_kit.llm.structured_output import Mode, closed_schema
from amplifier_module_provider_anthropic.config import AnthropicConfig
from amplifier_module_provider_anthropic.models import abilities_of, model_info
from amplifier_module_provider_anthropic.request import RAW_CONTENT, build_payload
from amplifier_module_provider_anthropic.response import OWN_BLOCKS, StreamReader

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
        #: Overloaded models, and the time until which another one answers in their place.
        self._replaced: dict[str, float] = {}

    # -- the service --

    async def connect(self) -> Any:
        """Return an SDK client that does not retry by itself."""
        anthropic = await import_in_thread("anthropic")
        _ignore_sdk_warnings()
        assert self.base_url is not None
        http = await http_client(self.base_url, timeout=self.settings.timeout, idle=self.settings.stream_idle_timeout)
        return anthropic.AsyncAnthropic(
            api_key=self.api_key,
            base_url=self.base_url.rstrip("/").removesuffix("/v1"),
            max_retries=0,
            timeout=http.timeout,
            http_client=http,
        )

    def payload(self, call: LLMCall) -> dict[str, Any]:
        """Return the arguments of `messages.create`."""
        return build_payload(call, self.settings)

    async def attempt(self, client: Any, payload: dict[str, Any], answer: Answer, call: LLMCall) -> None:
        """Stream one answer; a message that was paused by a tool at Anthropic's is continued."""
        _warn_of_retirement(call.model)
        messages: list[Any] = payload["messages"]
        blocks: list[Any] = []
        tokens = None
        for number in range(_MOST_PAUSES + 1):
            reader = StreamReader(answer, number)
            async with await client.messages.create(**{**payload, "messages": messages}, stream=True) as stream:
                answer.headers = dict(stream.response.headers)
                await reader.read(stream)
            if not reader.is_complete or reader.stop_reason is None:
                return  # incomplete, which `Answer.response` reports
            tokens = reader.tokens() if tokens is None else tokens + reader.tokens()
            blocks += reader.blocks
            if reader.stop_reason != "pause_turn":
                break
            messages = [*messages, {"role": "assistant", "content": reader.blocks}]
        answer.tokens = tokens
        answer.metadata["anthropic:stop_reason"] = reader.stop_reason
        if any(block["type"] not in OWN_BLOCKS for block in blocks):
            answer.metadata[RAW_CONTENT] = blocks
        await answer.finish(reader.finish_reason)

    # -- models --

    def model_info(self, model: str) -> ModelInfo:
        """Describe a model by its name."""
        return model_info(model, long_context=self.settings.enable_1m_context)

    async def fetch_models(self, client: Any) -> list[ModelInfo]:
        """Fetch the models, with the limits that the service reports."""
        found = []
        async for listed in client.models.list(limit=100):
            if getattr(listed, "lifecycle", "active") == "retired":
                continue
            info = model_info(listed.id, long_context=self.settings.enable_1m_context, display_name=listed.display_name)
            limits = {
                "context_window": getattr(listed, "max_input_tokens", None),
                "max_output_tokens": getattr(listed, "max_tokens", None),
            }
            found.append(info.model_copy(update={key: value for key, value in limits.items() if value}))
        return found

    def shape_mode(self, request: ChatRequest) -> Mode:
        """Send the schema to models that accept one; use a tool for the answer for others, and for open schemas."""
        wanted = request.response_format
        if not abilities_of(request.model or self.model).takes_schema:
            return "tool"
        try:
            closed_schema(wanted.json_schema if isinstance(wanted, ResponseFormatJsonSchema) else None)
        except ValueError:
            return "tool"
        return "native"

    def retries_for(self, error: LLMError) -> int:
        """Retry an overloaded model less often when another one can answer in its place."""
        if self.settings.fallback_on_overload and error.status_code == _OVERLOADED:
            return min(self.settings.fallback_retry_count, self.settings.max_retries)
        return super().retries_for(error)

    def config_fields(self) -> list[ConfigField]:
        """Return the fields that a setup wizard asks for."""
        return [
            key_field("Enter your Anthropic API key", "ANTHROPIC_API_KEY"),
            url_field("Address of the service", "ANTHROPIC_BASE_URL", _BASE_URL),
        ]

    # -- fallback to another model --

    async def complete(self, request: ChatRequest, **options: Any) -> LLMResponse:
        """Return the model's answer, or raise an LLMError.

        With `fallback_on_overload`, a smaller model answers in place of an overloaded one for a while; with a
        `refusal_fallback_model`, that one answers when the model refuses. Both emit `provider:fallback`.
        """
        model = request.model or self.model
        if self._replaced.get(model, 0.0) > time.monotonic():
            return await self._fall_back(model, self._smaller(model), "overloaded", request, options)
        try:
            return await super().complete(request, **options)
        except ContentFilterError as error:
            other = self.settings.refusal_fallback_model
            if not self.settings.refusal_fallback_enabled or other is None or other == model:
                raise
            logger.warning("%s refused (%s); using %s instead", model, error, other)
            return await self._fall_back(model, other, "refusal", request, options)
        except ProviderUnavailableError as error:
            if error.status_code == 403:  # the page of a gateway
                await self.emit(CLOUDFLARE_EVENT, {"provider": self.name, "model": model, "error_message": str(error)})
            smaller = self._smaller(model)
            if not self.settings.fallback_on_overload or error.status_code != _OVERLOADED or smaller == model:
                raise
            self._replaced[model] = time.monotonic() + self.settings.fallback_cooldown_seconds
            return await self._fall_back(model, smaller, "overloaded", request, options)

    async def _fall_back(
        self, model: str, other: str, reason: str, request: ChatRequest, options: dict[str, Any]
    ) -> LLMResponse:
        data: dict[str, Any] = {"provider": self.name, "model": model, "fallback_model": other, "reason": reason}
        if reason == "overloaded":
            data["cooldown_seconds"] = round(max(0.0, self._replaced[model] - time.monotonic()))
        await self.emit(FALLBACK_EVENT, data)
        return await super().complete(request.model_copy(update={"model": other}), **options)

    def _smaller(self, model: str) -> str:
        if "haiku" in model:
            return model
        return self.settings.fallback_haiku_model if "sonnet" in model else self.settings.fallback_sonnet_model


_warned_of: Final[set[str]] = set()


def _ignore_sdk_warnings() -> None:
    """Ignore the SDK's warnings about models, which it repeats with every call: `_warn_of_retirement` warns once."""
    warnings.filterwarnings("ignore", r"The model '.*' is deprecated", DeprecationWarning)
    warnings.filterwarnings("ignore", r"Using Claude with .* and 'thinking\.type=enabled' is deprecated", UserWarning)


def _warn_of_retirement(model: str) -> None:
    """Warn once per process that a model will be retired, as far as the SDK knows."""
    known = getattr(sys.modules.get("anthropic.resources.messages.messages"), "DEPRECATED_MODELS", {})
    if model in known and model not in _warned_of:
        _warned_of.add(model)
        logger.warning("anthropic: the model %s is retired on %s; choose a newer one", model, known[model])

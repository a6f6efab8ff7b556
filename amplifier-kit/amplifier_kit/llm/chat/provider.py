"""A provider for any server that speaks chat completions; modules give it a name and defaults."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from amplifier_core import ChatRequest, ModelInfo, capabilities
from amplifier_core.llm_errors import InvalidRequestError, LLMError
from amplifier_core.message_models import ResponseFormatJsonSchema
from amplifier_kit.llm.chat.request import ORIGIN, ChatConfig, chat_payload
from amplifier_kit.llm.chat.response import read_chat
from amplifier_kit.llm.client import list_server_models, server_client, server_url
from amplifier_kit.llm.errors import OPENAI, WarmingUpError, Wire
from amplifier_kit.llm.provider import LLMProvider
from amplifier_kit.llm.request import LLMCall
from amplifier_kit.llm.response import Answer, LLMResponse
from amplifier_kit.llm.structured_output import Mode

logger = logging.getLogger(__name__)

# -- models --


_WINDOW_KEYS: Final = ("max_model_len", "context_length", "context_window", "max_context_length")
_OUTPUT_KEYS: Final = ("max_completion_tokens", "max_output_tokens")
#: Parts of the names of models that do not chat.
_NOT_CHAT: Final = ("embed", "rerank", "whisper", "tts", "moderation")


def describe_model(
    model: str, *, context_window: int, max_output_tokens: int, listed: Mapping[str, Any] = {}
) -> ModelInfo:
    """Describe a model; the limits in the server's list of models, `listed`, win over the given ones."""
    window = _limit(listed, _WINDOW_KEYS) or _limit(listed.get("meta"), ("n_ctx", "n_ctx_train")) or context_window
    longest = _limit(listed, _OUTPUT_KEYS) or _limit(listed.get("top_provider"), _OUTPUT_KEYS) or max_output_tokens
    able = [capabilities.TOOLS, capabilities.STREAMING, capabilities.JSON_MODE]
    architecture = listed.get("architecture")
    if isinstance(architecture, Mapping) and "image" in (architecture.get("input_modalities") or ()):
        able.append(capabilities.VISION)
    return ModelInfo(
        id=model,
        display_name=str(listed.get("name") or model),
        context_window=window,
        max_output_tokens=min(longest, window),
        capabilities=able,
    )


def _limit(facts: Any, keys: tuple[str, ...]) -> int | None:
    values = [facts.get(key) for key in keys] if isinstance(facts, Mapping) else []
    return next((value for value in values if isinstance(value, int) and value > 0), None)


def is_chat_model(model: str) -> bool:
    """Return whether a model chats, judged by its name."""
    return not any(part in model.lower() for part in _NOT_CHAT)


# -- the provider --


#: Errors are those of OpenAI; thinking is not.
CHAT: Final = OPENAI._replace(name=ORIGIN, is_self_hosted=True)

#: Phrases of servers that refuse the response format of a request, not the request.
_FORMAT_REFUSED: Final = (
    "response_format",
    "json_schema",
    "json_object",
    "json schema",
    "grammar",
    "guided",
    "structured output",
)
#: The way to ask for an output schema after one that the server refuses.
_NEXT: Final = {"json_schema": "json_object", "json_object": "prompt"}
_MODES: Final[dict[str, Mode]] = {
    "json_schema": "native",
    "json_object": "prompt",
    "tool": "tool",
    "prompt": "prompt",
}


class ChatProvider(LLMProvider):
    wire: ClassVar[Wire] = CHAT
    structured: ClassVar[Mode] = "native"
    has_json_mode = True
    config_model: ClassVar[type[ChatConfig]] = ChatConfig
    settings: ChatConfig
    #: The prefix of the keys in metadata.
    prefix: ClassVar[str] = "chat"
    #: Limits of unknown models.
    context_window: ClassVar[int] = 32_768
    max_output_tokens: ClassVar[int] = 4096

    def __init__(
        self,
        config: Mapping[str, Any],
        coordinator: Any = None,
        *,
        base_url: str,
        api_key: str | None = None,
        name: str | None = None,
    ) -> None:
        url = server_url(base_url)
        super().__init__(config, coordinator, api_key=api_key, base_url=url, name=name)
        self.is_free = self.settings.free
        self.vendor = self.settings.price_list
        self.redactor.add_live_values(self.settings.extra_headers.values())
        #: How to ask each model for an output schema, once it refused another way.
        self._forms: dict[str, str] = {}
        self._known: dict[str, ModelInfo] = {}

    async def connect(self) -> Any:
        """Return an SDK client that does not retry by itself."""
        assert self.base_url is not None
        settings = self.settings
        return await server_client(
            self.base_url,
            api_key=self.api_key,
            timeout=settings.timeout,
            idle=settings.stream_idle_timeout if settings.use_streaming else settings.timeout,
            headers=settings.extra_headers,
        )

    def payload(self, call: LLMCall) -> dict[str, Any]:
        in_words = call.shape is not None and call.shape.mode == "prompt" and not call.request.tools
        json_mode = in_words and self._form(call.model) == "json_object"
        return chat_payload(call, self.settings, origin=self.wire.name, json_mode=json_mode)

    async def attempt(self, client: Any, payload: dict[str, Any], answer: Answer, call: LLMCall) -> None:
        """Read one answer; with `use_streaming` false it is not streamed."""
        await read_chat(client, payload, answer, self.settings, self.prefix)

    def retries_for(self, error: LLMError) -> int:
        """Return more retries for a server that is still starting."""
        if isinstance(error, WarmingUpError):
            return max(self.settings.warmup_retries, self.settings.max_retries)
        return super().retries_for(error)

    # -- models --

    def model_info(self, model: str) -> ModelInfo:
        """Describe a model, by the server's list if it was fetched."""
        return self._known.get(model) or self._describe(model, {})

    def _describe(self, model: str, listed: Mapping[str, Any]) -> ModelInfo:
        limits = {"context_window": self.context_window, "max_output_tokens": self.max_output_tokens}
        return describe_model(model, listed=listed, **limits)

    async def fetch_models(self, client: Any) -> list[ModelInfo]:
        """Fetch the models; `filtered` leaves out those that do not chat."""
        listed = {str(facts.get("id") or ""): facts for facts in await list_server_models(client)}
        found = [
            self._describe(model, facts)
            for model, facts in listed.items()
            if is_chat_model(model) or not self.settings.filtered
        ]
        self._known = {model.id: model for model in found}
        return found

    # -- structured output --

    def shape_mode(self, request: ChatRequest) -> Mode:
        """Send the schema to servers that accept one; with tools, add one for the answer: a schema bars tool calls."""
        form = self._form(request.model or self.model)
        if form == "json_schema" and self.settings.structured_output == "auto" and request.tools:
            return "tool"
        if form == "json_object" and not isinstance(request.response_format, ResponseFormatJsonSchema):
            return "native"
        return _MODES[form]

    async def complete(self, request: ChatRequest, **options: Any) -> LLMResponse:
        """Return the model's answer; raises an LLMError.

        When a server refuses the way of asking for an output schema, the next way is tried and used from then on,
        unless `structured_output` names one.
        """
        model = request.model or self.model
        while True:
            form = self._form(model)
            try:
                return await super().complete(request, **options)
            except InvalidRequestError as error:
                wanted = request.response_format is not None and request.response_format.type != "text"
                is_settled = self.settings.structured_output != "auto" or form not in _NEXT or not error.status_code
                if not wanted or is_settled or not any(phrase in str(error).lower() for phrase in _FORMAT_REFUSED):
                    raise
                self._forms[model] = _NEXT[form]
                logger.info("%s: %s does not accept %s (%s); trying %s", self.name, model, form, error, _NEXT[form])

    def _form(self, model: str) -> str:
        if self.settings.structured_output != "auto":
            return self.settings.structured_output
        return self._forms.get(model, "json_schema")

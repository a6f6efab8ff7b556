"""A provider for any server that speaks chat completions; modules give it a name and defaults."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final

from amplifier_core import ChatRequest, ModelInfo, capabilities
from amplifier_core.llm_errors import InvalidRequestError, LLMError
from amplifier_core.message_models import ResponseFormatJsonSchema
from amplifier_kit.llm.chat.config import ChatConfig
from amplifier_kit.llm.chat.errors import WarmingUpError, clearer_error, refuses_format
from amplifier_kit.llm.chat.request import ORIGIN, chat_payload
from amplifier_kit.llm.chat.response import read_chat
from amplifier_kit.llm.client import http_client, import_in_thread
from amplifier_kit.llm.errors import OPENAI, Wire
from amplifier_kit.llm.provider import LLMProvider
from amplifier_kit.llm.request import LLMCall
from amplifier_kit.llm.response import Answer, LLMResponse
from amplifier_kit.llm.structured_output import Mode

__all__ = ["CHAT", "NO_KEY", "ChatProvider", "chat_client", "describe", "is_for_chat", "listed_models", "server_url"]

logger = logging.getLogger(__name__)

# -- the SDK's client --


#: The key for servers that need no key: the SDK insists on one.
NO_KEY: Final = "not-needed"

_ENDPOINT: Final = "/chat/completions"


def server_url(given: str) -> str:
    """Return the address for the SDK: with `/v1` when there is no path, and without the path of the call."""
    url = given.strip().rstrip("/").removesuffix(_ENDPOINT).rstrip("/")
    _, mark, rest = url.partition("://")
    return f"{url}/v1" if mark and "/" not in rest else url


async def chat_client(
    base_url: str,
    *,
    api_key: str | None = None,
    timeout: float = 300.0,
    idle: float | None = None,
    headers: Mapping[str, str] | None = None,
) -> Any:
    """Return an `AsyncOpenAI` client for the server at `base_url` that does not retry; close it after use.

    `timeout` limits connecting and sending, `idle` the wait for the next byte. Variables for OpenAI's own service (key,
    organization, project, headers) have no effect here.
    """
    openai = await import_in_thread("openai")
    http = await http_client(base_url, timeout=timeout, idle=idle)
    key = api_key or NO_KEY
    client = openai.AsyncOpenAI(
        api_key=key,
        base_url=base_url,
        max_retries=0,
        timeout=http.timeout,
        http_client=http,
        default_headers={**_cancelled_headers(openai.omit, key), **(headers or {})},
    )
    client.organization = client.project = None
    return client


def _cancelled_headers(omit: Any, key: str) -> dict[str, Any]:
    """Return headers that cancel those of the environment."""
    lines = os.environ.get("OPENAI_CUSTOM_HEADERS", "").split("\n")
    names = [line.partition(":")[0].strip() for line in lines if ":" in line]
    return {name: f"Bearer {key}" if name.lower() == "authorization" else omit for name in names}


# -- models --


_WINDOWS: Final = ("max_model_len", "context_length", "context_window", "max_context_length")
_LONGEST: Final = ("max_completion_tokens", "max_output_tokens")
#: Parts of the names of models that do not chat.
_OTHERS: Final = ("embed", "rerank", "whisper", "tts", "moderation")


def describe(model: str, *, context_window: int, max_output_tokens: int, said: Mapping[str, Any] = {}) -> ModelInfo:
    """Describe a model; the facts of the server's list, `said`, win over the given limits."""
    window = (
        _first_number(said, _WINDOWS) or _first_number(_inner(said, "meta"), ("n_ctx", "n_ctx_train")) or context_window
    )
    longest = (
        _first_number(said, _LONGEST) or _first_number(_inner(said, "top_provider"), _LONGEST) or max_output_tokens
    )
    able = [capabilities.TOOLS, capabilities.STREAMING, capabilities.JSON_MODE]
    if "image" in (_inner(said, "architecture").get("input_modalities") or ()):
        able.append(capabilities.VISION)
    return ModelInfo(
        id=model,
        display_name=str(said.get("name") or model),
        context_window=window,
        max_output_tokens=min(longest, window),
        capabilities=able,
    )


async def listed_models(client: Any) -> list[dict[str, Any]]:
    """Return the models that the server lists, as mappings."""
    return [listed.model_dump() async for listed in client.models.list()]


def is_for_chat(model: str) -> bool:
    """Whether a model chats, judged by its name."""
    name = model.lower()
    return not any(part in name for part in _OTHERS)


def _inner(said: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    inner = said.get(key)
    return inner if isinstance(inner, Mapping) else {}


def _first_number(said: Mapping[str, Any], keys: tuple[str, ...]) -> int | None:
    for key in keys:
        value = said.get(key)
        if isinstance(value, int) and value > 0:
            return value
    return None


# -- the provider --


#: Errors are those of OpenAI; thinking is not.
CHAT: Final = replace(OPENAI, name=ORIGIN)

#: The way to ask for an output schema after one that the server refuses.
_NEXT: Final = {"json_schema": "json_object", "json_object": "prompt"}
_MODES: Final[dict[str, Mode]] = {
    "json_schema": "native",
    "json_object": "prompt",
    "tool": "tool",
    "prompt": "prompt",
}


class ChatProvider(LLMProvider):
    """A provider for a server that speaks chat completions."""

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
        model: str | None = None,
        api_key: str | None = None,
        name: str | None = None,
    ) -> None:
        """Read the config; raises ConfigError, which names each wrong value."""
        url = server_url(base_url)
        super().__init__(config, coordinator, model=model, api_key=api_key, base_url=url, name=name)
        self.is_free = self.settings.free
        self.vendor = self.settings.price_list
        for value in self.settings.extra_headers.values():
            self.scrubber.add(value)
        #: How to ask each model for an output schema, once it refused another way.
        self._forms: dict[str, str] = {}
        self._known: dict[str, ModelInfo] = {}

    async def connect(self) -> Any:
        """Return an SDK client that does not retry by itself."""
        assert self.base_url is not None
        settings = self.settings
        idle = settings.stream_idle_timeout if settings.use_streaming else settings.timeout
        return await chat_client(
            self.base_url,
            api_key=self.api_key,
            timeout=settings.timeout,
            idle=idle,
            headers=self.settings.extra_headers,
        )

    async def disconnect(self, client: Any) -> None:
        """Close the client and its connections."""
        await client.close()

    def payload(self, call: LLMCall) -> dict[str, Any]:
        """Return the arguments of `chat.completions.create`."""
        in_words = call.shape is not None and call.shape.mode == "prompt" and not call.request.tools
        json_mode = in_words and self._form(call.model) == "json_object"
        return chat_payload(call, self.settings, origin=self.wire.name, json_mode=json_mode)

    async def attempt(self, client: Any, payload: dict[str, Any], answer: Answer, call: LLMCall) -> None:
        """Read one answer; with `use_streaming` false it is not streamed."""
        try:
            await read_chat(
                client,
                payload,
                answer,
                streamed=self.settings.use_streaming,
                include_usage=self.settings.include_usage,
                think_tags=self.settings.think_tags,
                prefix=self.prefix,
            )
        except Exception as error:
            clearer = clearer_error(error, self.endpoint)
            if clearer is None:
                raise
            raise clearer from error

    def retries_for(self, error: LLMError) -> int:
        """Return more retries for a server that is still starting."""
        if isinstance(error, WarmingUpError):
            return max(self.settings.warmup_retries, self.settings.max_retries)
        return super().retries_for(error)

    # -- models --

    def model_info(self, model: str) -> ModelInfo:
        """Describe a model, by the server's list if it was fetched."""
        known = self._known.get(model)
        return known or describe(model, context_window=self.context_window, max_output_tokens=self.max_output_tokens)

    async def fetch_models(self, client: Any) -> list[ModelInfo]:
        """Fetch the models; `filtered` leaves out those that do not chat."""
        found = []
        for said in await listed_models(client):
            model = str(said.get("id") or "")
            if self.settings.filtered and not is_for_chat(model):
                continue
            limits = {"context_window": self.context_window, "max_output_tokens": self.max_output_tokens}
            found.append(describe(model, said=said, **limits))
        self._known = {model.id: model for model in found}
        return found

    # -- structured output --

    def shape_mode(self, request: ChatRequest) -> Mode:
        """Send the schema to servers that accept one; with tools, a tool for the answer, since a schema bars calls."""
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
                if not wanted or is_settled or not refuses_format(error):
                    raise
                self._forms[model] = _NEXT[form]
                logger.info("%s: %s does not accept %s (%s); trying %s", self.name, model, form, error, _NEXT[form])

    def _form(self, model: str) -> str:
        if self.settings.structured_output != "auto":
            return self.settings.structured_output
        return self._forms.get(model, "json_schema")

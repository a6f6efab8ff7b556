"""A provider for any server that speaks chat completions; modules give it a name and their own defaults."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final

from amplifier_core import ChatRequest, ModelInfo
from amplifier_core.llm_errors import InvalidRequestError, LLMError
from amplifier_core.message_models import ResponseFormatJsonSchema
from amplifier_kit.llm.answer import Answer, LLMResponse
from amplifier_kit.llm.call import LLMCall
from amplifier_kit.llm.chat.client import chat_client, server_url
from amplifier_kit.llm.chat.config import ChatConfig
from amplifier_kit.llm.chat.messages import ORIGIN
from amplifier_kit.llm.chat.models import describe, is_for_chat, listed_models
from amplifier_kit.llm.chat.payload import chat_payload
from amplifier_kit.llm.chat.refusals import WarmingUpError, is_about_format, sharpened
from amplifier_kit.llm.chat.stream import read_chat
from amplifier_kit.llm.errors import OPENAI, Wire
from amplifier_kit.llm.provider import LLMProvider
from amplifier_kit.llm.structured import Mode

__all__ = ["CHAT", "ChatProvider"]

logger = logging.getLogger(__name__)

#: The errors are OpenAI's; its thinking is not.
CHAT: Final = replace(OPENAI, name=ORIGIN)

#: What is tried after a way to ask for a form that the server does not know.
_NEXT: Final = {"json_schema": "json_object", "json_object": "prompt"}
_MODES: Final[dict[str, Mode]] = {
    "json_schema": "native",
    "json_object": "prompt",
    "tool": "tool",
    "prompt": "prompt",
}


class ChatProvider(LLMProvider):
    """Answer through a server that speaks chat completions."""

    wire: ClassVar[Wire] = CHAT
    structured: ClassVar[Mode] = "native"
    has_json_mode = True
    config_model: ClassVar[type[ChatConfig]] = ChatConfig
    settings: ChatConfig
    #: What the keys of the metadata begin with.
    prefix: ClassVar[str] = "chat"
    #: Limits of models that nothing is known of.
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
        """Take a config and where the server is; raises ValueError for a value that cannot be used."""
        url = server_url(base_url)
        super().__init__(config, coordinator, model=model, api_key=api_key, base_url=url, name=name)
        self.is_free = self.settings.free
        self.vendor = self.settings.price_list
        for value in self.settings.extra_headers.values():
            self.scrubber.add(value)
        #: How each model is asked for a form, once it refused another way.
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
        """Read one answer; with `use_streaming` false it is asked for in one piece."""
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
            clearer = sharpened(error, self.endpoint)
            if clearer is None:
                raise
            raise clearer from error

    def retries_for(self, error: LLMError) -> int:
        """Be patient with a server that says it is still starting."""
        if isinstance(error, WarmingUpError):
            return max(self.settings.warmup_retries, self.settings.max_retries)
        return super().retries_for(error)

    # -- models --

    def model_info(self, model: str) -> ModelInfo:
        """Describe a model by what the server said of it, if it was asked."""
        known = self._known.get(model)
        return known or describe(model, context_window=self.context_window, max_output_tokens=self.max_output_tokens)

    async def fetch_models(self, client: Any) -> list[ModelInfo]:
        """Ask for the models; `filtered` leaves out those that do not chat."""
        found = []
        for said in await listed_models(client):
            model = str(said.get("id") or "")
            if self.settings.filtered and not is_for_chat(model):
                continue
            limits = {"context_window": self.context_window, "max_output_tokens": self.max_output_tokens}
            found.append(describe(model, said=said, **limits))
        self._known = {model.id: model for model in found}
        return found

    # -- forms --

    def shape_mode(self, request: ChatRequest) -> Mode:
        """Give the schema to servers that take one; next to tools, a tool for the answer, since a schema bars calls."""
        form = self._form(request.model or self.model)
        if form == "json_schema" and self.settings.structured_output == "auto" and request.tools:
            return "tool"
        if form == "json_object" and not isinstance(request.response_format, ResponseFormatJsonSchema):
            return "native"
        return _MODES[form]

    async def complete(self, request: ChatRequest, **options: Any) -> LLMResponse:
        """Return the model's answer, or raise an LLMError.

        A server that refuses the way in which an output schema is asked for is asked in another way, and from then on
        in that one, unless `structured_output` names one.
        """
        model = request.model or self.model
        while True:
            form = self._form(model)
            try:
                return await super().complete(request, **options)
            except InvalidRequestError as error:
                wanted = request.response_format is not None and request.response_format.type != "text"
                is_settled = self.settings.structured_output != "auto" or form not in _NEXT or not error.status_code
                if not wanted or is_settled or not is_about_format(error):
                    raise
                self._forms[model] = _NEXT[form]
                logger.info("%s: %s does not take %s (%s); %s is tried", self.name, model, form, error, _NEXT[form])

    def _form(self, model: str) -> str:
        if self.settings.structured_output != "auto":
            return self.settings.structured_output
        return self._forms.get(model, "json_schema")

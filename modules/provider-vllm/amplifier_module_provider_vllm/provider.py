"""The provider for vLLM: the Responses API, or chat completions, and what chat templates need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final

from amplifier_core import ChatRequest, ConfigField, ModelInfo
from amplifier_core.llm_errors import LLMError, NotFoundError
from amplifier_kit.llm.chat.provider import CHAT, ChatProvider, describe_model, is_chat_model
from amplifier_kit.llm.client import list_server_models, server_client, server_url
from amplifier_kit.llm.errors import OPENAI, WarmingUpError, Wire, read_failure
from amplifier_kit.llm.provider import key_field, model_field, url_field
from amplifier_kit.llm.request import Conversation, Image, LLMCall, Result, Text, Turn, instruction_text
from amplifier_kit.llm.response import Answer
from amplifier_kit.llm.responses.models import Abilities
from amplifier_kit.llm.responses.provider import ResponsesProvider
from amplifier_kit.llm.responses.response import ResponseReader
from amplifier_kit.llm.structured_output import Mode
from amplifier_module_provider_vllm.config import DEFAULT_MODEL, KEY_NAMES, URL_NAMES, VLLMConfig

# --- chat templates ---


def plain_turns(conversation: Conversation, *, keeps_roles: bool) -> Conversation:
    """Return a conversation with images in user turns, and late instructions as well, unless `keeps_roles`."""
    turns: list[Turn] = []
    images: list[Text | Image] = []
    for turn in conversation.turns:
        if turn.role == "tool":
            turns.append(_without_images(turn, images))
            continue
        if images:
            turns.append(Turn("user", tuple(images)))
            images = []
        if not keeps_roles and turn.role in ("system", "developer"):
            turn = Turn("user", (Text(instruction_text(turn)),))
        turns.append(turn)
    if images:
        turns.append(Turn("user", tuple(images)))
    return replace(conversation, turns=tuple(turns))


def plain_items(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the items with assistant messages of other services as plain text, as vLLM requires without an id."""
    return [
        {**item, "content": "".join(part.get("text", "") for part in item["content"])}
        if item.get("role") == "assistant" and "id" not in item
        else item
        for item in items
    ]


def _without_images(turn: Turn, images: list[Text | Image]) -> Turn:
    parts = []
    for part in turn.parts:
        if isinstance(part, Result) and part.images:
            images += [Text(f"Images from {part.name or 'the tool'}:"), *part.images]
            part = part._replace(parts=tuple(inner for inner in part.parts if isinstance(inner, Text)))
        parts.append(part)
    return replace(turn, parts=tuple(parts))


# --- the Responses API ---

#: Limits of models, unless the server or the config has others.
CONTEXT_WINDOW: Final = 128_000
MAX_OUTPUT_TOKENS: Final = 32_768

_HARMONY: Final = "gpt-oss"
#: Messages of servers about an unknown address, unlike those about an unknown model.
_NO_ROUTE: Final = ("not found", "method not allowed", "file not found")


class VLLMProvider(ResponsesProvider):
    """Answer through the Responses API of a vLLM server."""

    id = "vllm"
    display_name = "vLLM"
    # The errors are OpenAI's, but OpenAI's service cannot read this server's reasoning.
    wire: ClassVar[Wire] = OPENAI._replace(name="vllm", is_self_hosted=True)
    prefix: ClassVar[str] = "vllm"
    key_names = KEY_NAMES
    config_model = VLLMConfig
    settings: VLLMConfig

    def __init__(
        self, config: Mapping[str, Any], coordinator: Any = None, *, base_url: str, api_key: str | None = None
    ) -> None:
        """Read the config; raises ConfigError, which names each wrong value."""
        super().__init__(config, coordinator, api_key=api_key, base_url=server_url(base_url))
        self.is_free = self.settings.free
        self._known: dict[str, ModelInfo] = {}

    async def connect(self) -> Any:
        """Return an SDK client that does not retry by itself."""
        assert self.base_url is not None
        settings = self.settings
        return await server_client(
            self.base_url, api_key=self.api_key, timeout=settings.timeout, idle=settings.stream_idle_timeout
        )

    # -- the request --

    def abilities(self, model: str) -> Abilities:
        """Return the abilities of a model by its name, within the limits of the server."""
        able = super().abilities(model)
        longest = self.settings.max_output_tokens or MAX_OUTPUT_TOKENS
        return able._replace(context_window=CONTEXT_WINDOW, max_output=longest, patches=False, caches_long=False)

    def payload(self, call: LLMCall) -> dict[str, Any]:
        """Return the arguments of `responses.create`."""
        turns = plain_turns(call.conversation, keeps_roles=_HARMONY in call.model.lower())
        payload = super().payload(replace(call, conversation=turns))
        payload["input"] = plain_items(payload["input"])
        # Unlike OpenAI's own service, vLLM accepts these for models that think.
        temperature = call.request.temperature if call.request.temperature is not None else self.settings.temperature
        sampling = {"temperature": temperature, "top_p": call.request.top_p}
        return payload | {name: value for name, value in sampling.items() if value is not None}

    # -- the response --

    async def attempt(self, client: Any, payload: dict[str, Any], answer: Answer, call: LLMCall) -> None:
        """Stream one answer; raises NotFoundError for a server without a Responses API."""
        try:
            await super().attempt(client, payload, answer, call)
        except Exception as error:
            failure = read_failure(error)
            if failure.status not in (404, 405) or failure.message.lower() not in _NO_ROUTE:
                raise
            raise NotFoundError(
                f"{self.name}: {failure.status} there is no Responses API at {self.base_url}. Check base_url, or set "
                f"`api: chat`, then run `amplifier provider test {self.endpoint.name_in_commands}`",
                status_code=failure.status,
            ) from error

    def retries_for(self, error: LLMError) -> int:
        """Return more retries for a server that is still starting."""
        if isinstance(error, WarmingUpError):
            return max(self.settings.warmup_retries, self.settings.max_retries)
        return super().retries_for(error)

    def shape_mode(self, request: ChatRequest) -> Mode:
        """Send the schema to the server; with tools, use a tool for the answer, since a schema bars tool calls."""
        return "tool" if request.tools else super().shape_mode(request)

    def _is_continued(self, call: LLMCall, readers: list[ResponseReader]) -> bool:
        """Never continue an answer at its limit: the template would begin a new turn."""
        return False

    # -- models --

    def model_info(self, model: str) -> ModelInfo:
        """Describe a model, by the server's list if it was fetched, else by its name."""
        return self._known.get(model) or super().model_info(model)

    async def fetch_models(self, client: Any) -> list[ModelInfo]:
        """Fetch the models, with the limits that the server reports."""
        found = []
        for listed in await list_server_models(client):
            model = str(listed.get("id") or "")
            if self.settings.filtered and not is_chat_model(model):
                continue
            info = describe_model(
                model, context_window=CONTEXT_WINDOW, max_output_tokens=MAX_OUTPUT_TOKENS, listed=listed
            )
            limits = {"context_window": info.context_window, "max_output_tokens": info.max_output_tokens}
            found.append(super().model_info(model).model_copy(update=limits))
        self._known = {model.id: model for model in found}
        return found

    def config_fields(self) -> list[ConfigField]:
        """Return the fields that a setup wizard asks for."""
        return wizard_fields()


def wizard_fields() -> list[ConfigField]:
    """Return the fields that a setup wizard asks for."""
    return [
        url_field("Address of the server, as http://localhost:8000/v1", URL_NAMES[0]),
        key_field("Key of the server, if it needs one", KEY_NAMES[0], required=False),
        model_field(DEFAULT_MODEL),
    ]


# --- chat completions ---


class VLLMChatProvider(ChatProvider):
    """Answer through the chat completions of a vLLM server."""

    id = "vllm"
    display_name = "vLLM"
    # Reasoning of other servers, and of this one's Responses API, cannot be sent back here.
    wire: ClassVar[Wire] = CHAT._replace(name="vllm-chat")
    prefix: ClassVar[str] = "vllm"
    key_names = KEY_NAMES
    config_model = VLLMConfig
    settings: VLLMConfig
    context_window = CONTEXT_WINDOW
    max_output_tokens = MAX_OUTPUT_TOKENS

    def __init__(
        self, config: Mapping[str, Any], coordinator: Any = None, *, base_url: str, api_key: str | None = None
    ) -> None:
        """Read the config; raises ConfigError, which names each wrong value."""
        super().__init__(config, coordinator, base_url=base_url, api_key=api_key)
        effort = self.settings.reasoning_effort or self.settings.reasoning.get("effort")
        self.settings = self.settings.model_copy(update={"reasoning_effort": effort})

    def config_fields(self) -> list[ConfigField]:
        """Return the fields that a setup wizard asks for."""
        return wizard_fields()

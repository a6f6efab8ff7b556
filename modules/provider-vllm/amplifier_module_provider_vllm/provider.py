"""The provider over vLLM's Responses API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final

from amplifier_core import ChatRequest, ConfigField, ModelInfo
from amplifier_core.llm_errors import LLMError, NotFoundError
from amplifier_kit.llm import Answer, LLMCall, Mode, Wire
from amplifier_kit.llm.chat import (
    WarmingUpError,
    chat_client,
    clearer_error,
    describe,
    is_for_chat,
    listed_models,
    server_url,
)
from amplifier_kit.llm.errors import read_failure
from amplifier_kit.llm.responses import RESPONSES, Abilities, ResponsesProvider
from amplifier_kit.llm.responses.response import ResponseReader
from amplifier_module_provider_vllm.config import DEFAULT_MODEL, KEY_NAMES, URL_NAMES, VLLMConfig
from amplifier_module_provider_vllm.plain import plain_items, plain_turns

__all__ = ["VLLMProvider", "wizard_fields"]

#: Limits of models, unless the server or the config tells others.
CONTEXT_WINDOW: Final = 128_000
MAX_OUTPUT_TOKENS: Final = 32_768

_HARMONY: Final = "gpt-oss"
#: What servers say of an address that they do not have, unlike of a model that they do not have.
_NO_ROUTE: Final = ("not found", "method not allowed", "file not found")


class VLLMProvider(ResponsesProvider):
    """Answer through the Responses API of a vLLM server."""

    id = "vllm"
    display_name = "vLLM"
    # The errors are OpenAI's; what it thinks is for no service of theirs.
    wire: ClassVar[Wire] = replace(RESPONSES, name="vllm")
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
        return await chat_client(
            self.base_url, api_key=self.api_key, timeout=settings.timeout, idle=settings.stream_idle_timeout
        )

    # -- what is sent --

    def abilities(self, model: str) -> Abilities:
        """Return what a model can do: what is known of its name, within the limits of the server."""
        able = super().abilities(model)
        longest = self.settings.max_output_tokens or MAX_OUTPUT_TOKENS
        return replace(able, context_window=CONTEXT_WINDOW, max_output=longest, patches=False, caches_long=False)

    def payload(self, call: LLMCall) -> dict[str, Any]:
        """Return the arguments of `responses.create`."""
        turns = plain_turns(call.conversation, keeps_roles=_HARMONY in call.model.lower())
        payload = super().payload(replace(call, conversation=turns))
        payload["input"] = plain_items(payload["input"])
        # Unlike OpenAI's own service, vLLM takes these for models that think.
        temperature = call.request.temperature if call.request.temperature is not None else self.settings.temperature
        sampling = {"temperature": temperature, "top_p": call.request.top_p}
        return payload | {name: value for name, value in sampling.items() if value is not None}

    # -- asking --

    async def attempt(self, client: Any, payload: dict[str, Any], answer: Answer, call: LLMCall) -> None:
        """Stream one answer; what a gateway says while the server starts is told apart from other refusals."""
        try:
            await super().attempt(client, payload, answer, call)
        except Exception as error:
            clearer = clearer_error(error, self.endpoint) or self._without_responses(error)
            if clearer is None:
                raise
            raise clearer from error

    def _without_responses(self, error: Exception) -> LLMError | None:
        """Return what to do about a server that does not know the address of the call at all."""
        failure = read_failure(error)
        if failure.status not in (404, 405) or failure.message.lower() not in _NO_ROUTE:
            return None
        return NotFoundError(
            f"{self.name}: {failure.status} there is no Responses API at {self.base_url}. Check base_url, or set "
            f"`api: chat`, then run `amplifier provider test {self.endpoint.called}`",
            status_code=failure.status,
        )

    def retries_for(self, error: LLMError) -> int:
        """Be patient with a server that says it is still starting."""
        if isinstance(error, WarmingUpError):
            return max(self.settings.warmup_retries, self.settings.max_retries)
        return super().retries_for(error)

    def shape_mode(self, request: ChatRequest) -> Mode:
        """Give the schema to the server; next to tools, a tool for the answer, since a schema bars calls."""
        return "tool" if request.tools else super().shape_mode(request)

    def _is_continued(self, call: LLMCall, readings: list[ResponseReader]) -> bool:
        """Leave an answer at its limit as it is: a template would make a new turn of what is gone on with."""
        return False

    # -- models --

    def model_info(self, model: str) -> ModelInfo:
        """Describe a model by what the server said of it, if it was asked, else by its name."""
        return self._known.get(model) or super().model_info(model)

    async def fetch_models(self, client: Any) -> list[ModelInfo]:
        """Ask for the models; what the server says of their limits wins over what is known."""
        found = []
        for said in await listed_models(client):
            model = str(said.get("id") or "")
            if self.settings.filtered and not is_for_chat(model):
                continue
            told = describe(model, context_window=CONTEXT_WINDOW, max_output_tokens=MAX_OUTPUT_TOKENS, said=said)
            limits = {"context_window": told.context_window, "max_output_tokens": told.max_output_tokens}
            found.append(super().model_info(model).model_copy(update=limits))
        self._known = {model.id: model for model in found}
        return found

    def config_fields(self) -> list[ConfigField]:
        """Return what a wizard asks for."""
        return wizard_fields()


def wizard_fields() -> list[ConfigField]:
    """Return what a wizard asks for."""
    return [
        ConfigField(
            id="base_url",
            display_name="Base URL",
            prompt="Address of the server, as http://localhost:8000/v1",
            env_var=URL_NAMES[0],
        ),
        ConfigField(
            id="api_key",
            display_name="API key",
            field_type="secret",
            prompt="Key of the server, if it wants one",
            env_var=KEY_NAMES[0],
            required=False,
        ),
        ConfigField(
            id="default_model",
            display_name="Model",
            prompt="Name of the model",
            required=False,
            default=DEFAULT_MODEL,
        ),
    ]

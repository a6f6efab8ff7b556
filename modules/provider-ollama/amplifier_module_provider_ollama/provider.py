"""The provider: its client, its calls, its models, and how it gets a model that is not there."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from amplifier_core import ChatRequest, ConfigField, ModelInfo
from amplifier_core.llm_errors import StreamError
from amplifier_kit.llm import (
    OLLAMA,
    Answer,
    LLMCall,
    LLMProvider,
    Mode,
    capture_responses,
    env_or_config,
    http_options,
    import_in_thread,
    proxy_errors,
    record_response,
)
from amplifier_module_provider_ollama.config import OllamaConfig, host_of
from amplifier_module_provider_ollama.models import GUESSED_WINDOW, describe, length_of
from amplifier_module_provider_ollama.payload import build_payload
from amplifier_module_provider_ollama.refusal import Refusal
from amplifier_module_provider_ollama.sdk import imported_sdk
from amplifier_module_provider_ollama.stream import read_lines

__all__ = ["EVENTS", "OllamaProvider"]

logger = logging.getLogger(__name__)

PULL_EVENT: Final = "provider:pull"
EVENTS: Final = (PULL_EVENT,)


class OllamaProvider(LLMProvider):
    """Answer through an Ollama server."""

    id = "ollama"
    display_name = "Ollama"
    wire = OLLAMA
    url_name = "host"
    is_free = True
    structured: ClassVar[Mode] = "native"
    has_json_mode = True
    config_model = OllamaConfig
    settings: OllamaConfig

    def __init__(self, config: Mapping[str, Any], coordinator: Any = None, *, api_key: str | None = None) -> None:
        """Read the config; raises ConfigError, which names each wrong value."""
        key = api_key or env_or_config(config, "api_key", ("OLLAMA_API_KEY",))
        super().__init__(config, coordinator, api_key=key, base_url=host_of(config))
        if self.settings.raw_debug:
            self.settings = self.settings.model_copy(update={"raw": True})
        #: The windows that models were loaded with, None for one that the server does not say.
        self._windows: dict[str, int | None] = {}
        self._thoughtless: set[str] = set()
        self._pulling: dict[str, asyncio.Lock] = {}
        self._pulled: list[str] = []
        if self.settings.send_session_id:
            logger.warning("ollama: send_session_id does nothing, since the server has no field for it")

    # -- the service --

    async def connect(self) -> Any:
        """Return an SDK client; it is built on the older `httpx`, and retries nothing."""
        ollama = await imported_sdk()
        httpx = await import_in_thread("httpx")
        assert self.base_url is not None
        settings = self.settings
        with proxy_errors():
            return ollama.AsyncClient(
                host=self.base_url,
                headers={"authorization": f"Bearer {self.api_key}"} if self.api_key else None,
                event_hooks={"response": [record_response]},
                **http_options(httpx, self.base_url, timeout=settings.timeout, idle=settings.stream_idle_timeout),
            )

    async def disconnect(self, client: Any) -> None:
        """Close the client and its connections."""
        await client.close()

    def payload(self, call: LLMCall) -> dict[str, Any]:
        """Return the body of `POST /api/chat`."""
        return build_payload(call, self.settings)

    async def attempt(self, client: Any, payload: dict[str, Any], answer: Answer, call: LLMCall) -> None:
        """Stream one answer; without thinking from a model that cannot, and after a pull where that is wanted."""
        if call.model in self._thoughtless:
            payload = _without_thinking(payload)
        try:
            await self._stream(client, payload, answer)
        except Refusal as refusal:
            if refusal.is_about_thinking and payload.get("think"):
                self._thoughtless.add(call.model)
                await self._stream(client, _without_thinking(payload), answer)
            elif refusal.is_unknown_model and self.settings.auto_pull:
                await self._pull(client, call.model)
                await self._stream(client, payload, answer)
            else:
                if refusal.is_overflow:
                    await self._learn_window(client, call.model)
                raise
        if answer.is_finished:
            await self._learn_window(client, call.model)

    async def _stream(self, client: Any, payload: dict[str, Any], answer: Answer) -> None:
        async with capture_responses() as heard:
            try:
                # Not `client.chat()`: the SDK's types lose nested parts of tool schemas and the ids of calls, and take
                # the text of an image for the name of a file that is then read and sent.
                lines = await client._request(dict, "POST", "/api/chat", json=payload, stream=True)
                await read_lines(lines, answer)
            except Exception as error:
                if type(error).__name__ == "ResponseError":
                    raise Refusal.of(error, heard.headers) from error
                raise
            answer.headers = heard.headers

    # -- models --

    def model_info(self, model: str) -> ModelInfo:
        """Describe a model by its name; its window is the one asked for, else the one it was loaded with."""
        window = self.settings.num_ctx or self._windows.get(model) or GUESSED_WINDOW
        return describe(model, window=window, output=self.settings.max_tokens)

    async def fetch_models(self, client: Any) -> list[ModelInfo]:
        """Ask for the models that are there, and for what each can do."""
        listed = [model.model for model in (await client.list()).models if model.model]
        return list(await asyncio.gather(*(self._described(client, name) for name in listed)))

    async def _described(self, client: Any, model: str) -> ModelInfo:
        try:
            shown = await client.show(model)
        except Exception as error:
            logger.warning("ollama: it is not known what %s can do: %s", model, error)
            return self.model_info(model)
        longest = length_of(shown.modelinfo or {})
        window = self.settings.num_ctx or self._windows.get(model) or longest or GUESSED_WINDOW
        return describe(model, window=window, output=self.settings.max_tokens, able=shown.capabilities)

    async def _learn_window(self, client: Any, model: str) -> None:
        """Ask once with what window the server loaded a model, unless the config says which to use."""
        if self.settings.num_ctx or self.settings.context_window or model in self._windows:
            return
        self._windows[model] = None
        try:
            loaded = (await client._request(dict, "GET", "/api/ps")).get("models") or ()
        except Exception as error:
            logger.warning(
                "ollama: the server does not say how large the window of %s is; set num_ctx: %s", model, error
            )
            return
        lengths = {item.get("model"): item.get("context_length") for item in loaded}
        length = lengths.get(model, lengths.get(f"{model}:latest"))
        self._windows[model] = length if isinstance(length, int) and length > 0 else None

    def shape_mode(self, request: ChatRequest) -> Mode:
        """Give the schema to the server, unless there are tools: with a schema a model can call none."""
        return "prompt" if request.tools else "native"

    # -- pulling --

    async def _pull(self, client: Any, model: str) -> None:
        """Have the server get a model, once however many calls wait for it."""
        before = self._pulled.count(model)
        async with self._pulling.setdefault(model, asyncio.Lock()):
            if self._pulled.count(model) == before:
                await self._pull_now(client, model)
                self._pulled.append(model)

    async def _pull_now(self, client: Any, model: str) -> None:
        logger.info("ollama: %s is not there and is pulled", model)
        told, status = None, None
        async with capture_responses() as heard:
            try:
                async for progress in await client.pull(model, stream=True):
                    status = progress.status
                    percent = round(100 * (progress.completed or 0) / progress.total) if progress.total else None
                    if (status, percent) != told:
                        told = (status, percent)
                        facts = {"provider": self.name, "model": model, "status": status, "percent": percent}
                        await self.emit(PULL_EVENT, facts)
            except Exception as error:
                if type(error).__name__ == "ResponseError":
                    raise Refusal.of(error, heard.headers) from error
                raise
        if status != "success":
            raise StreamError(f"{self.name}: the pull of {model} ended before it was complete")

    def config_fields(self) -> list[ConfigField]:
        """Return what a wizard asks for."""
        return [
            ConfigField(
                id="host",
                display_name="Host",
                prompt="Address of the Ollama server",
                env_var="OLLAMA_HOST",
                required=False,
                default=self.base_url,
            )
        ]


def _without_thinking(payload: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in payload.items() if key != "think"}

"""The provider: its client, its calls, its models, and pulling of missing models."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, ClassVar, Final

from amplifier_core import ChatRequest, ConfigField, ModelInfo, capabilities
from amplifier_core.llm_errors import StreamError
from amplifier_kit.llm.client import capture_responses, http_options, import_in_thread, proxy_errors, record_response
from amplifier_kit.llm.config import env_or_config
from amplifier_kit.llm.errors import OLLAMA
from amplifier_kit.llm.provider import LLMProvider, url_field
from amplifier_kit.llm.request import LLMCall
from amplifier_kit.llm.response import Answer
from amplifier_kit.llm.structured_output import Mode
from amplifier_module_provider_ollama.config import OllamaConfig, host_of
from amplifier_module_provider_ollama.messages import OllamaError, build_payload, read_lines

logger = logging.getLogger(__name__)

PULL_EVENT: Final = "provider:pull"
EVENTS: Final = (PULL_EVENT,)

#: The window of a model until the server reports it.
_GUESSED_WINDOW: Final = 32_768


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
        #: The windows that models were loaded with; None when the server does not report one.
        self._windows: dict[str, int | None] = {}
        self._thoughtless: set[str] = set()
        self._pulling: dict[str, asyncio.Lock] = {}
        self._pulled: list[str] = []
        if self.settings.send_session_id:
            logger.warning("ollama: send_session_id has no effect, since the server has no field for it")

    # -- the service --

    async def connect(self) -> Any:
        """Return an SDK client; it is built on the older `httpx`, and retries nothing."""
        ollama = await _import_sdk()
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

    def payload(self, call: LLMCall) -> dict[str, Any]:
        """Return the body of `POST /api/chat`."""
        return build_payload(call, self.settings)

    async def attempt(self, client: Any, payload: dict[str, Any], answer: Answer, call: LLMCall) -> None:
        """Stream one answer; without thinking if the model cannot, and after a pull if `auto_pull` is set."""
        if call.model in self._thoughtless:
            payload = _without_thinking(payload)
        try:
            await self._stream(client, payload, answer)
        except OllamaError as error:
            if error.is_about_thinking and payload.get("think"):
                self._thoughtless.add(call.model)
                await self._stream(client, _without_thinking(payload), answer)
            elif error.is_unknown_model and self.settings.auto_pull:
                await self._pull(client, call.model)
                await self._stream(client, payload, answer)
            else:
                if error.is_overflow:
                    await self._learn_window(client, call.model)
                raise
        if answer.is_finished:
            await self._learn_window(client, call.model)

    async def _stream(self, client: Any, payload: dict[str, Any], answer: Answer) -> None:
        async with capture_responses() as captured:
            try:
                # Not `client.chat()`: the SDK's types lose nested parts of tool schemas and the ids of calls, and
                # mistake the data of an image for the name of a file, which is then read and sent.
                lines = await client._request(dict, "POST", "/api/chat", json=payload, stream=True)
                await read_lines(lines, answer)
            except Exception as error:
                if type(error).__name__ == "ResponseError":
                    raise OllamaError.of(error, captured.headers) from error
                raise
            answer.headers = captured.headers

    # -- models --

    def model_info(self, model: str) -> ModelInfo:
        """Describe a model by its name; its window is the configured one, else the one it was loaded with."""
        window = self.settings.num_ctx or self._windows.get(model) or _GUESSED_WINDOW
        return _describe(model, window=window, output=self.settings.max_tokens)

    async def fetch_models(self, client: Any) -> list[ModelInfo]:
        """Fetch the installed models and their capabilities."""
        listed = [model.model for model in (await client.list()).models if model.model]
        return list(await asyncio.gather(*(self._show(client, name) for name in listed)))

    async def _show(self, client: Any, model: str) -> ModelInfo:
        try:
            shown = await client.show(model)
        except Exception as error:
            logger.warning("ollama: the capabilities of %s are unknown: %s", model, error)
            return self.model_info(model)
        longest = _context_length(shown.modelinfo or {})
        window = self.settings.num_ctx or self._windows.get(model) or longest or _GUESSED_WINDOW
        return _describe(model, window=window, output=self.settings.max_tokens, able=shown.capabilities)

    async def _learn_window(self, client: Any, model: str) -> None:
        """Fetch once the window that the server loaded a model with, unless the config sets it."""
        if self.settings.num_ctx or self.settings.context_window or model in self._windows:
            return
        self._windows[model] = None
        try:
            loaded = (await client._request(dict, "GET", "/api/ps")).get("models") or ()
        except Exception as error:
            logger.warning("ollama: the context window of %s is unknown; set num_ctx: %s", model, error)
            return
        lengths = {item.get("model"): item.get("context_length") for item in loaded}
        length = lengths.get(model, lengths.get(f"{model}:latest"))
        self._windows[model] = length if isinstance(length, int) and length > 0 else None

    def shape_mode(self, request: ChatRequest) -> Mode:
        """Send the schema to the server, unless there are tools, which a model cannot call with a schema."""
        return "prompt" if request.tools else "native"

    # -- pulling --

    async def _pull(self, client: Any, model: str) -> None:
        """Let the server download a model, only once for all calls that wait for it."""
        before = self._pulled.count(model)
        async with self._pulling.setdefault(model, asyncio.Lock()):
            if self._pulled.count(model) == before:
                await self._pull_now(client, model)
                self._pulled.append(model)

    async def _pull_now(self, client: Any, model: str) -> None:
        logger.info("ollama: pulling the missing model %s", model)
        shown, status = None, None
        async with capture_responses() as captured:
            try:
                async for progress in await client.pull(model, stream=True):
                    status = progress.status
                    percent = round(100 * (progress.completed or 0) / progress.total) if progress.total else None
                    if (status, percent) != shown:
                        shown = (status, percent)
                        facts = {"provider": self.name, "model": model, "status": status, "percent": percent}
                        await self.emit(PULL_EVENT, facts)
            except Exception as error:
                if type(error).__name__ == "ResponseError":
                    raise OllamaError.of(error, captured.headers) from error
                raise
        if status != "success":
            raise StreamError(f"{self.name}: the pull of {model} ended before it was complete")

    def config_fields(self) -> list[ConfigField]:
        """Return the fields that a setup wizard asks for."""
        return [url_field("Address of the Ollama server", "OLLAMA_HOST", self.base_url, id="host", name="Host")]


def _without_thinking(payload: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in payload.items() if key != "think"}


def _describe(model: str, *, window: int, output: int, able: list[str] | None = None) -> ModelInfo:
    """Describe a model; `able` has the capabilities that the server reports, None when they are unknown."""
    named = {"tools": capabilities.TOOLS, "vision": capabilities.VISION, "thinking": capabilities.THINKING}
    found = [capability for name, capability in named.items() if name in (able if able is not None else ["tools"])]
    return ModelInfo(
        id=model,
        display_name=model,
        context_window=window,
        max_output_tokens=min(output, window),
        capabilities=[capabilities.STREAMING, capabilities.JSON_MODE, capabilities.LOCAL, *found],
    )


def _context_length(info: Mapping[str, Any]) -> int | None:
    """Return the longest window that a model was trained for, from the details of `show`."""
    lengths = [value for key, value in info.items() if key.endswith(".context_length") and isinstance(value, int)]
    return max(lengths, default=None)


# -- the SDK, which creates a client for the proxies of the environment while it is imported --


async def _import_sdk() -> Any:
    """Return the SDK; raises ConfigurationError when it is not installed.

    A proxy that the SDK cannot use for its own client does not matter: ours handles proxies itself.
    """
    try:
        return await import_in_thread("ollama")
    except (ImportError, ValueError):
        # Not in a thread, so that no process starts with this environment meanwhile. Nearly all of it is imported by
        # now.
        with _no_proxies():
            return import_module("ollama")


@contextmanager
def _no_proxies() -> Iterator[None]:
    before = {name: os.environ.get(name) for name in ("NO_PROXY", "no_proxy")}
    os.environ.update(dict.fromkeys(before, "*"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value

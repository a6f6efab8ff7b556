"""The provider: its client, its calls and its models."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from typing import Any, ClassVar, Final, NamedTuple

from pydantic import ValidationError

from amplifier_core import ChatRequest, ConfigField, ModelInfo
from amplifier_core.llm_errors import InvalidRequestError
from amplifier_kit.engine.usage import UsageValueError
from amplifier_kit.llm import (
    GEMINI,
    Answer,
    LLMCall,
    LLMProvider,
    Mode,
    capture_responses,
    env_or_config,
    http_client,
    import_in_thread,
    record_response,
)
from amplifier_module_provider_gemini.config import GeminiConfig
from amplifier_module_provider_gemini.models import abilities_of, model_info
from amplifier_module_provider_gemini.payload import build_payload
from amplifier_module_provider_gemini.quota import refused
from amplifier_module_provider_gemini.stream import Reading

__all__ = ["EVENTS", "GeminiProvider"]

logger = logging.getLogger(__name__)

THINKING_EVENT: Final = "thinking:final"
EVENTS: Final = (THINKING_EVENT,)

_BASE_URL: Final = "https://generativelanguage.googleapis.com"
_VERSION: Final = "v1beta"


class _Client(NamedTuple):
    """The SDK's client with the HTTP clients that it was given: it does not close what it did not make."""

    sdk: Any
    types: Any
    http: Any
    unused: Any


class GeminiProvider(LLMProvider):
    """Answer through Google's Gemini API."""

    id = "gemini"
    display_name = "Google Gemini"
    wire = GEMINI
    vendor = "google"
    structured: ClassVar[Mode] = "native"
    has_json_mode = True
    key_names = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
    config_model = GeminiConfig
    settings: GeminiConfig

    def __init__(self, config: Mapping[str, Any], coordinator: Any = None, *, api_key: str) -> None:
        """Read the config; raises ConfigError, which names each wrong value."""
        base_url = env_or_config(config, "base_url", ("GOOGLE_GEMINI_BASE_URL",)) or _BASE_URL
        super().__init__(config, coordinator, api_key=api_key, base_url=base_url)
        if self.settings.send_session_id:
            logger.warning("gemini: send_session_id does nothing, since the service has no field for it")

    # -- the service --

    async def connect(self) -> _Client:
        """Return an SDK client that does not retry by itself, for the Gemini API whatever the environment says."""
        _hush_warnings()
        genai = await import_in_thread("google.genai", needs="google-genai")
        assert self.base_url is not None
        limits: dict[str, Any] = {}

        async def limit(request: Any) -> None:
            # The SDK takes the timeouts of our client away. Its own timeout is no help: it tells the service to give
            # up on the whole answer after that time.
            request.extensions["timeout"] = limits

        http = await http_client(
            self.base_url,
            timeout=self.settings.timeout,
            idle=self.settings.stream_idle_timeout,
            event_hooks={"request": [limit], "response": [record_response]},
        )
        limits.update(http.timeout.as_dict())
        return await asyncio.to_thread(self._made, genai, http)

    def _made(self, genai: Any, http: Any) -> _Client:
        """Make the client, which takes a while. Without a client for threads the SDK makes one of the environment."""
        import httpx2

        assert self.base_url is not None
        unused = httpx2.Client(trust_env=False, verify=False)
        options = genai.types.HttpOptions(
            base_url=self.base_url.rstrip("/").removesuffix(f"/{_VERSION}"),
            api_version=_VERSION,
            httpx_async_client=http,
            httpx_client=unused,
        )
        return _Client(
            genai.Client(vertexai=False, api_key=self.api_key, http_options=options), genai.types, http, unused
        )

    async def disconnect(self, client: _Client) -> None:
        """Close the client and its connections."""
        await client.sdk.aio.aclose()
        await client.http.aclose()
        client.unused.close()

    def payload(self, call: LLMCall) -> dict[str, Any]:
        """Return model, contents and config, in the JSON of the service."""
        return build_payload(call, self.settings)

    async def attempt(self, client: _Client, payload: dict[str, Any], answer: Answer, call: LLMCall) -> None:
        """Stream one answer."""
        contents, config = _typed(client.types, payload)
        reading = Reading(answer)
        try:
            async with capture_responses() as heard:
                chunks = await client.sdk.aio.models.generate_content_stream(
                    model=payload["model"], contents=contents, config=config
                )
                await reading.read(chunks)
                answer.headers = heard.headers
        except Exception as error:
            cause = error.__cause__ if type(error).__name__ == "ContinuationInterruptedError" else None
            failed = _usage_error(error) or (cause if isinstance(cause, Exception) else error)
            raise refused(failed, self.endpoint, call.model) from error
        if reading.thoughts and answer.is_finished:
            await self.emit(THINKING_EVENT, {"text": reading.thoughts})

    # -- models --

    def model_info(self, model: str) -> ModelInfo:
        """Describe a model by its name."""
        return model_info(model)

    async def fetch_models(self, client: _Client) -> list[ModelInfo]:
        """Ask for the models that can be talked to; what the service says of their limits wins over what is known."""
        found = []
        async for listed in await client.sdk.aio.models.list(config={"page_size": 1000}):
            if listed.supported_actions and "generateContent" not in listed.supported_actions:
                continue
            name = (listed.name or "").removeprefix("models/")
            limits = {"window": listed.input_token_limit, "output": listed.output_token_limit}
            found.append(model_info(name, display_name=listed.display_name, **limits))
        return found

    def shape_mode(self, request: ChatRequest) -> Mode:
        """Give the schema to the service; older models take none together with tools, and get a tool for the answer."""
        able = abilities_of(request.model or self.model)
        return "native" if able.is_third or not request.tools else "tool"

    def config_fields(self) -> list[ConfigField]:
        """Return what a wizard asks for."""
        return [
            ConfigField(
                id="api_key",
                display_name="API key",
                field_type="secret",
                prompt="Enter your Gemini API key",
                env_var=self.key_names[0],
            ),
            ConfigField(
                id="base_url",
                display_name="Base URL",
                prompt="Address of the service",
                env_var="GOOGLE_GEMINI_BASE_URL",
                required=False,
                default=_BASE_URL,
            ),
        ]


def _hush_warnings() -> None:
    """Keep Python from warning of the SDK's own source, which it does wherever that is not compiled yet."""
    import warnings

    warnings.filterwarnings("ignore", "invalid escape sequence", Warning, r".*google.genai")


def _typed(types: Any, payload: dict[str, Any]) -> tuple[list[Any], Any]:
    """Return contents and config as the SDK's own types: base64 becomes bytes on the way."""
    from pydantic import ValidationError

    try:
        contents = [types.Content.model_validate_json(json.dumps(content)) for content in payload["contents"]]
        return contents, types.GenerateContentConfig.model_validate_json(json.dumps(payload["config"]))
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"]))
        raise InvalidRequestError(f"gemini: the SDK does not take {where}: {error.errors()[0]['msg']}") from error


def _usage_error(error: Exception) -> UsageValueError | None:
    """Return which count it was that the SDK could not read, when it was one."""
    if not isinstance(error, ValidationError):
        return None
    for fault in error.errors(include_url=False):
        place = ".".join(map(str, fault["loc"]))
        if place.startswith("usage_metadata"):
            return UsageValueError(place, fault["input"])
    return None

"""The provider: its config, its client, its calls, its models and its errors."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final

from pydantic import Field, ValidationError

from amplifier_core import ChatRequest, ConfigField, ModelInfo
from amplifier_core.llm_errors import InvalidRequestError, LLMError, RateLimitError
from amplifier_kit.engine.usage import InvalidUsageError
from amplifier_kit.llm.client import capture_responses, http_client, import_in_thread, record_response
from amplifier_kit.llm.config import Name, PositiveWhole, ProviderConfig, Temperature, env_or_config
from amplifier_kit.llm.errors import GEMINI, Endpoint, to_llm_error
from amplifier_kit.llm.provider import LLMProvider, key_field, url_field
from amplifier_kit.llm.request import LLMCall
from amplifier_kit.llm.response import Answer
from amplifier_kit.llm.structured_output import Mode
from amplifier_kit.named_tuple import NamedTuple
from amplifier_module_provider_gemini.models import abilities_of, model_info
from amplifier_module_provider_gemini.request import build_payload
from amplifier_module_provider_gemini.response import StreamReader

logger = logging.getLogger(__name__)

THINKING_EVENT: Final = "thinking:final"
EVENTS: Final = (THINKING_EVENT,)

_BASE_URL: Final = "https://generativelanguage.googleapis.com"
_VERSION: Final = "v1beta"


class GeminiConfig(ProviderConfig):
    """The config keys of the provider."""

    api_key: Name | None = Field(None, repr=False, description="The key; GOOGLE_API_KEY or GEMINI_API_KEY by default.")
    base_url: Name | None = Field(
        None, description="Address of the service; GOOGLE_GEMINI_BASE_URL by default, else Google's."
    )
    default_model: Name = Field("gemini-2.5-flash", description="The model, unless a request names another.")
    max_tokens: PositiveWhole = Field(8192, description="Tokens of the longest answer, besides those for thinking.")
    temperature: Temperature = Field(
        0.7,
        description="Sampling temperature; null for the service's default, which Gemini 3 and later use unless one is "
        "given here.",
    )


class _Client(NamedTuple):
    """The SDK's client with its HTTP clients, which it does not close itself."""

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
            logger.warning("gemini: send_session_id has no effect, since the service has no field for it")

    # -- the service --

    async def connect(self) -> _Client:
        """Return an SDK client that does not retry by itself, for the Gemini API whatever the environment says."""
        _ignore_sdk_warnings()
        genai = await import_in_thread("google.genai", needs="google-genai")
        assert self.base_url is not None
        limits: dict[str, Any] = {}

        async def limit(request: Any) -> None:
            # The SDK removes the timeouts of our client. Its own timeout does not help: it makes the service give up
            # on the whole answer after that time.
            request.extensions["timeout"] = limits

        http = await http_client(
            self.base_url,
            timeout=self.settings.timeout,
            idle=self.settings.stream_idle_timeout,
            event_hooks={"request": [limit], "response": [record_response]},
        )
        limits.update(http.timeout.as_dict())
        return await asyncio.to_thread(self._create, genai, http)

    def _create(self, genai: Any, http: Any) -> _Client:
        """Create the client, which takes a while; without a synchronous HTTP client, the SDK reads the environment."""
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
        """Return model, contents and config, as the JSON of the service."""
        return build_payload(call, self.settings)

    async def attempt(self, client: _Client, payload: dict[str, Any], answer: Answer, call: LLMCall) -> None:
        """Stream one answer."""
        contents, config = _typed(client.types, payload)
        reader = StreamReader(answer)
        try:
            async with capture_responses() as captured:
                chunks = await client.sdk.aio.models.generate_content_stream(
                    model=payload["model"], contents=contents, config=config
                )
                await reader.read(chunks)
                answer.headers = captured.headers
        except Exception as error:
            cause = error.__cause__ if type(error).__name__ == "ContinuationInterruptedError" else None
            failed = _usage_error(error) or (cause if isinstance(cause, Exception) else error)
            raise _llm_error(failed, self.endpoint, call.model) from error
        if reader.thoughts and answer.is_finished:
            await self.emit(THINKING_EVENT, {"text": reader.thoughts})

    # -- models --

    def model_info(self, model: str) -> ModelInfo:
        """Describe a model by its name."""
        return model_info(model)

    async def fetch_models(self, client: _Client) -> list[ModelInfo]:
        """Fetch the models that generate content, with the limits that the service reports."""
        found = []
        async for listed in await client.sdk.aio.models.list(config={"page_size": 1000}):
            if listed.supported_actions and "generateContent" not in listed.supported_actions:
                continue
            name = (listed.name or "").removeprefix("models/")
            limits = {"window": listed.input_token_limit, "output": listed.output_token_limit}
            found.append(model_info(name, display_name=listed.display_name, **limits))
        return found

    def shape_mode(self, request: ChatRequest) -> Mode:
        """Send the schema to the service; with tools, older models get a tool for the answer instead."""
        able = abilities_of(request.model or self.model)
        return "native" if able.is_third or not request.tools else "tool"

    def config_fields(self) -> list[ConfigField]:
        """Return the fields that a setup wizard asks for."""
        return [
            key_field("Enter your Gemini API key", self.key_names[0]),
            url_field("Address of the service", "GOOGLE_GEMINI_BASE_URL", _BASE_URL),
        ]


def _ignore_sdk_warnings() -> None:
    """Ignore the warnings that Python shows while it compiles the SDK's source."""
    import warnings

    warnings.filterwarnings("ignore", "invalid escape sequence", Warning, r".*google.genai")


def _typed(types: Any, payload: dict[str, Any]) -> tuple[list[Any], Any]:
    """Return contents and config as the SDK's types, which turn base64 into bytes."""
    try:
        contents = [types.Content.model_validate_json(json.dumps(content)) for content in payload["contents"]]
        return contents, types.GenerateContentConfig.model_validate_json(json.dumps(payload["config"]))
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"]))
        raise InvalidRequestError(f"gemini: the SDK does not accept {where}: {error.errors()[0]['msg']}") from error


def _usage_error(error: Exception) -> InvalidUsageError | None:
    """Return the count that the SDK could not read, if that was the reason."""
    if not isinstance(error, ValidationError):
        return None
    for fault in error.errors(include_url=False):
        place = ".".join(map(str, fault["loc"]))
        if place.startswith("usage_metadata"):
            return InvalidUsageError(place, fault["input"])
    return None


def _llm_error(error: Exception, endpoint: Endpoint, model: str) -> LLMError:
    """Return the LLMError for an error of the SDK, with the delay in its details.

    Gemini reports rate limits and used-up quotas with the same text. A limit per minute is worth waiting for; one per
    day is not, though the service names a delay for that as well.
    """
    failed = to_llm_error(error, endpoint, model)
    if not isinstance(failed, RateLimitError) or failed.status_code != 429:
        return failed
    details = list(_details(error))
    delay = next((found for found in map(_delay, details) if found is not None), None)
    if delay is None or any(map(_is_daily, details)):
        return failed
    message = endpoint.scrub(f"{endpoint.provider}: 429 {getattr(error, 'message', None) or failed}")
    return RateLimitError(
        " ".join(message.split()),
        provider=endpoint.provider,
        model=model,
        status_code=429,
        retry_after=failed.retry_after if failed.retry_after is not None else delay,
    )


def _details(error: Exception) -> Iterator[Mapping[str, Any]]:
    body = getattr(error, "details", None)
    inner = body.get("error") if isinstance(body, Mapping) else None
    found = inner.get("details") if isinstance(inner, Mapping) else None
    for detail in found if isinstance(found, list) else ():
        if isinstance(detail, Mapping):
            yield detail


def _delay(detail: Mapping[str, Any]) -> float | None:
    """Return the seconds of a delay such as `34.07s`."""
    if not str(detail.get("@type", "")).endswith("google.rpc.RetryInfo"):
        return None
    try:
        return max(0.0, float(str(detail.get("retryDelay", "")).removesuffix("s")))
    except ValueError:
        return None


def _is_daily(detail: Mapping[str, Any]) -> bool:
    if not str(detail.get("@type", "")).endswith("google.rpc.QuotaFailure"):
        return False
    return any("PerDay" in str(one.get("quotaId", "")) for one in detail.get("violations") or ())

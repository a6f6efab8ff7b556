"""The base class of providers.

A provider subclasses `LLMProvider` and writes three things: the client, the payload of a call, and how the service's
stream feeds an `Answer`. Events, retries, limits, errors, costs and schemas are the same for all.
"""

from __future__ import annotations

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, ClassVar

from amplifier_core import ChatRequest, ConfigField, ModelInfo, ProviderInfo
from amplifier_core.correlation import new_request_id
from amplifier_core.events import LLM_REQUEST, LLM_RESPONSE, PROVIDER_RETRY, PROVIDER_TOOL_SEQUENCE_REPAIRED
from amplifier_core.llm_errors import InvalidToolCallError, LLMError, StreamError
from amplifier_core.message_models import ChatResponse, ToolCall, Usage
from amplifier_kit.config import read_config
from amplifier_kit.engine.pairing import repair_report
from amplifier_kit.engine.stream_events import STREAM_EVENTS
from amplifier_kit.engine.usage import UsageRecord
from amplifier_kit.guard.redaction.redactor import Redactor
from amplifier_kit.llm.client import time_limit
from amplifier_kit.llm.config import ProviderConfig, env_or_config, name_of_key
from amplifier_kit.llm.errors import Endpoint, Wire, to_llm_error
from amplifier_kit.llm.limits import limits_for
from amplifier_kit.llm.prices import CostLedger, priced_usage
from amplifier_kit.llm.request import LLMCall, read_conversation
from amplifier_kit.llm.response import Answer, LLMResponse
from amplifier_kit.llm.retry import CIRCUIT_EVENTS, CONCURRENCY_EVENT, Attempts
from amplifier_kit.llm.structured_output import Mode, OutputMismatchError, Shape, shape_of

#: The events that every provider contributes on `observability.events`, besides the kernel's.
PROVIDER_EVENTS = (*STREAM_EVENTS, CONCURRENCY_EVENT, *CIRCUIT_EVENTS)


class LLMProvider(ABC):
    """A provider that answers requests through one service."""

    #: The name to mount under, which is also the provider's name in events.
    id: ClassVar[str]
    display_name: ClassVar[str]
    wire: ClassVar[Wire]
    #: The price list's name for the service; None when there are no prices.
    vendor: str | None = None
    #: Whether calls cost nothing, as with a model on this machine.
    is_free: bool = False
    #: How to ask the service for an output schema, unless `shape_mode` decides otherwise.
    structured: ClassVar[Mode] = "prompt"
    has_json_mode: ClassVar[bool] = False
    #: Environment variables that hold the key, the first one first.
    key_names: ClassVar[tuple[str, ...]] = ()
    #: The config key of the address of the service.
    url_name: ClassVar[str] = "base_url"
    #: The config keys; a provider with more keys sets a subclass, and annotates `settings` with it.
    config_model: ClassVar[type[ProviderConfig]] = ProviderConfig
    settings: ProviderConfig

    def __init__(
        self,
        config: Mapping[str, Any],
        coordinator: Any = None,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        name: str | None = None,
    ) -> None:
        """Read the config; no SDK is imported and nothing is sent. Raises ConfigError, which names each wrong value.

        `name` is for services that a session may have several of.
        """
        self.name = name or self.id
        self.config = dict(config)
        self.settings = read_config(self.config_model, config, module=f"provider-{self.id}")
        self.priority = self.settings.priority
        self.model = self.settings.chosen_model
        self.api_key = api_key
        self.base_url = base_url
        self.coordinator = coordinator
        #: Masks secrets in everything that leaves the provider.
        self.redactor = Redactor([api_key] if api_key else [], rules=("secrets",))
        self.endpoint = Endpoint(
            provider=self.name,
            wire=self.wire,
            base_url=base_url,
            key_name=name_of_key(api_key, self.key_names),
            overloaded_multiplier=self.settings.overloaded_delay_multiplier,
            scrub=self.redactor.scrub_text,
            url_name=self.url_name,
            mounted_as=self._mounted_as,
        )
        self.account: tuple[Any, ...] = (self.name, base_url, hash(api_key))
        self.ledger = CostLedger()
        self._client: Any = None
        self._client_loop: asyncio.AbstractEventLoop | None = None
        self._connecting: asyncio.Lock | None = None
        self._repaired: set[Any] = set()

    def _mounted_as(self) -> str:
        mounted = self.coordinator.get("providers") if self.coordinator is not None else None
        return next((name for name, provider in (mounted or {}).items() if provider is self), self.name)

    # -- to be written by a provider --

    @abstractmethod
    async def connect(self) -> Any:
        """Import the SDK and return a new client with the SDK's own retries off."""

    async def disconnect(self, client: Any) -> None:
        await client.close()

    @abstractmethod
    def payload(self, call: LLMCall) -> dict[str, Any]:
        """Return the arguments of the SDK's call. A longer conversation must begin the same, for caches."""

    @abstractmethod
    async def attempt(self, client: Any, payload: dict[str, Any], answer: Answer, call: LLMCall) -> None:
        """Send the payload and feed the answer; call `answer.finish()` only when the service reported the end.

        Raises any exception of the SDK. The stream must be closed in any case.
        """

    @abstractmethod
    def model_info(self, model: str) -> ModelInfo:
        """Describe a model by its name, without a request."""

    @abstractmethod
    async def fetch_models(self, client: Any) -> list[ModelInfo]:
        """Ask the service for its models; raises any exception of the SDK."""

    def shape_mode(self, request: ChatRequest) -> Mode:
        """Return how to ask the service for the output schema of a request."""
        return self.structured

    def retries_for(self, error: LLMError) -> int:
        """Return how many retries an error is worth; a complete answer with an invalid tool call, only one."""
        most = 1 if isinstance(error, InvalidToolCallError) else self.settings.max_retries
        return min(most, self.settings.max_retries)

    def config_fields(self) -> list[ConfigField]:
        """Return the fields that a setup wizard asks for."""
        return []

    def price_model(self, call: LLMCall, answer: Answer) -> str:
        """Return the name of the model in the price list."""
        return answer.model or call.model

    # -- the published interface --

    def get_info(self) -> ProviderInfo:
        model = self.get_model_info()
        limits = {"context_window": model.context_window, "max_output_tokens": model.max_output_tokens}
        return ProviderInfo(
            id=self.id,
            display_name=self.display_name,
            credential_env_vars=list(self.key_names),
            capabilities=list(model.capabilities),
            defaults={"model": self.model, **limits},
            config_fields=self.config_fields(),
        )

    def get_model_info(self) -> ModelInfo:
        return self._limited(self.model_info(self.model))

    async def list_models(self) -> list[ModelInfo]:
        """Return the models that the service offers; raises an LLMError when it cannot be asked."""
        try:
            return await self._fetch_models()
        except StreamError:
            # The service may close a connection that was kept from an earlier call at any time: try again.
            return await self._fetch_models()

    async def _fetch_models(self) -> list[ModelInfo]:
        try:
            return [self._limited(model) for model in await self.fetch_models(await self.client())]
        except Exception as error:
            failed = to_llm_error(error, self.endpoint, None)
            if failed is error:
                raise
            raise failed from error

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        return list(response.tool_calls or [])

    async def close(self) -> None:
        """Close the client, if there is one; the provider can be used again afterwards."""
        client, self._client = self._client, None
        if client is not None and self._client_loop is asyncio.get_running_loop():
            await self.disconnect(client)

    async def complete(self, request: ChatRequest, **options: Any) -> LLMResponse:
        """Return the model's answer; raises an LLMError.

        Every call of the model is one `llm:request` and one `llm:response`, however many attempts it takes. A call
        whose answer does not fit the output schema is repeated; OutputMismatchError when that does not help.
        """
        shape = shape_of(request, self.shape_mode(request), has_json_mode=self.has_json_mode)
        if shape is None:
            return await self._ask(request, None, options)
        shape.fault(None)  # raises for an invalid schema before anything is sent
        asked = shape.asked(request)
        rounds = self.settings.structured_output_retries
        for number in range(1, rounds + 2):
            response, fault = shape.checked(await self._ask(asked, shape, options))
            if fault is None:
                return response
            if number <= rounds:
                retry = {
                    "provider": self.name,
                    "model": asked.model or self.model,
                    "attempt": number,
                    "max_retries": rounds,
                    "delay": 0.0,
                    "error_type": OutputMismatchError.__name__,
                    "error_message": fault,
                }
                await self.emit(PROVIDER_RETRY, retry)
                asked = shape.again(asked, response, fault)
        raise OutputMismatchError(
            f"{self.name}: the answer does not fit the output schema after {rounds + 1} attempts: {fault}",
            provider=self.name,
            model=asked.model or self.model,
        )

    # -- one call --

    async def _ask(self, request: ChatRequest, shape: Shape | None, options: dict[str, Any]) -> LLMResponse:
        call = self._call(request, shape, options)
        await self._emit_repairs(call)
        request_id = new_request_id()
        facts = {"provider": self.name, "model": call.model, "request_id": request_id}
        payload = self.payload(call)
        asked = {"message_count": len(request.messages), "tool_count": len(request.tools or ()), "stream": call.streams}
        await self.emit(LLM_REQUEST, {**facts, **asked, **self._raw(payload)})
        started = time.monotonic()
        attempts = Attempts(self, call, request_id)

        async def attempt(answer: Answer) -> None:
            client = await self.client()  # outside of the time limit: the first one imports the SDK
            async with time_limit(request.timeout):
                await self.attempt(client, payload, answer, call)

        async def emit_response(**outcome: Any) -> None:
            took = {"attempts": attempts.count, "duration_ms": round((time.monotonic() - started) * 1000)}
            await self.emit(LLM_RESPONSE, {**facts, **took, **outcome})

        try:
            answer = await attempts.make(attempt)
        except BaseException as error:
            failure = {"type": type(error).__name__, "message": self.redactor.scrub_text(str(error))}
            wasted = {"unpriced_attempts": 0, **await self._wasted(call, attempts)}
            await emit_response(status="error", error=failure, **wasted)
            raise
        response = answer.response()
        response.usage = await self._usage(call, answer)
        self.ledger.add(response.usage, call.model)
        outcome: dict[str, Any] = {"status": "ok", "finish_reason": answer.finish_reason}
        if response.usage is not None:
            outcome["usage"] = response.usage.model_dump(exclude_none=True)
        rate_limits = limits_for(self.account).throttle.learn(answer.headers)
        if rate_limits:
            outcome["rate_limits"] = {limit.dimension: limit._asdict() for limit in rate_limits}
        if self.settings.raw:
            outcome |= self._raw(response.model_dump(mode="json", exclude={"content_blocks"}, exclude_none=True))
        outcome |= await self._wasted(call, attempts, response.usage)
        await emit_response(**outcome)
        return response

    def _call(self, request: ChatRequest, shape: Shape | None, options: dict[str, Any]) -> LLMCall:
        wants_events = (request.metadata or {}).get("stream") is not False
        session_id = getattr(self.coordinator, "session_id", None) if self.settings.send_session_id else None
        return LLMCall(
            request=request,
            conversation=read_conversation(request.messages),
            model=request.model or self.model,
            streams=self.settings.use_streaming and wants_events,
            shape=shape,
            options=options,
            session_id=str(session_id) if session_id else None,
        )

    async def _usage(self, call: LLMCall, answer: Answer) -> Usage | None:
        if answer.tokens is None:
            return None
        if self.is_free:
            return answer.tokens.usage(Decimal(0))
        return await priced_usage(answer.tokens, self.price_model(call, answer), self.vendor)

    async def _wasted(self, call: LLMCall, attempts: Attempts, *known: Usage | None) -> dict[str, Any]:
        """Return the total usage of a call when failed attempts used tokens too; empty when none did.

        The usage is that of the answer, if it is known, and of the answers that could not be used; `unpriced_attempts`
        counts attempts of unknown usage.
        """
        lost = [await self._usage(call, answer) for answer in attempts.wasted]
        for usage in lost:
            self.ledger.add(usage, call.model)
        data: dict[str, Any] = {"unpriced_attempts": attempts.broken} if attempts.broken and not self.is_free else {}
        counted = [usage for usage in (*known, *lost) if usage is not None]
        if lost and len(counted) == len(known) + len(lost):
            data["usage"] = sum(map(UsageRecord.of_usage, counted), UsageRecord()).usage()
        return data

    # -- helpers --

    async def client(self) -> Any:
        """Return the client of this event loop; the first call creates it."""
        loop = asyncio.get_running_loop()
        if self._client is not None and self._client_loop is loop:
            return self._client
        if self._connecting is None or self._client_loop is not loop:
            self._connecting, self._client_loop, self._client = asyncio.Lock(), loop, None
        async with self._connecting:
            if self._client is None:
                self._client = await self.connect()
            return self._client

    @property
    def hooks(self) -> Any:
        """The session's hooks, None without a session."""
        return self.coordinator.hooks if self.coordinator is not None else None

    async def emit(self, event: str, data: dict[str, Any]) -> None:
        """Emit an event, if there is a session."""
        if self.coordinator is not None:
            await self.coordinator.hooks.emit(event, data)

    def _raw(self, payload: Any) -> dict[str, Any]:
        return {"raw": self.redactor.scrub(payload).value} if self.settings.raw else {}

    def _limited(self, model: ModelInfo) -> ModelInfo:
        """Return the model with the limits of the config, which win."""
        given = {
            "context_window": self.settings.context_window,
            "max_output_tokens": self.settings.max_output_tokens,
        }
        return model.model_copy(update={key: value for key, value in given.items() if value})

    async def _emit_repairs(self, call: LLMCall) -> None:
        news = [repair for repair in call.conversation.repairs if repair not in self._repaired]
        if not news:
            return
        self._repaired.update(news)
        await self.emit(PROVIDER_TOOL_SEQUENCE_REPAIRED, repair_report(self.name, news))


# -- mounting --


async def mount_provider(coordinator: Any, provider: LLMProvider, *events: str) -> Any:
    """Mount a provider with its contributions, `events` being further events that it emits; return the cleanup."""
    await coordinator.mount("providers", provider, name=provider.name)
    known = [*PROVIDER_EVENTS, *events]
    coordinator.register_contributor("observability.events", f"provider-{provider.name}", lambda: list(known))
    coordinator.register_contributor("session.cost", f"provider-{provider.name}", provider.ledger.contribution)
    return provider.close


async def mount_keyed_provider(
    coordinator: Any, config: Mapping[str, Any] | None, provider: type[LLMProvider], *events: str
) -> Any:
    """Mount a provider of a service that needs a key, and return the cleanup; without a key, warn and mount nothing.

    `provider` is its class. Raises ConfigError for a config value that cannot be used.
    """
    config = dict(config or {})
    key = env_or_config(config, "api_key", provider.key_names)
    if key is None:
        # By the module's logger: apps look for the reason there.
        logger, names = logging.getLogger(provider.__module__), " or ".join(provider.key_names)
        logger.warning("provider-%s is not mounted: it has no key; set %s or `api_key`", provider.id, names)
        return None
    return await mount_provider(coordinator, provider(config, coordinator, api_key=key), *events)


# -- fields that setup wizards ask for --


def key_field(prompt: str, env_var: str, *, required: bool = True) -> ConfigField:
    return ConfigField(
        id="api_key", display_name="API key", field_type="secret", prompt=prompt, env_var=env_var, required=required
    )


def url_field(
    prompt: str, env_var: str, default: str | None = None, *, id: str = "base_url", name: str = "Base URL"
) -> ConfigField:
    """Return the field for the address of the service; required without a default."""
    return ConfigField(
        id=id, display_name=name, prompt=prompt, env_var=env_var, required=default is None, default=default
    )


def model_field(default: str) -> ConfigField:
    return ConfigField(
        id="default_model", display_name="Model", prompt="Name of the model", required=False, default=default
    )

"""The base class of providers for services with the Responses API."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from amplifier_core import ChatRequest, ModelInfo
from amplifier_core.llm_errors import LLMError, LLMTimeoutError
from amplifier_kit.llm.client import plain_stream
from amplifier_kit.llm.errors import OPENAI, Wire, read_failure, to_llm_error
from amplifier_kit.llm.provider import LLMProvider
from amplifier_kit.llm.request import LLMCall
from amplifier_kit.llm.response import Answer
from amplifier_kit.llm.responses.models import Abilities, abilities_of, describe
from amplifier_kit.llm.responses.request import (
    Item,
    ResponsesConfig,
    build_payload,
    chain_key,
    digest_history,
    find_link,
    is_plain_object,
    items_of,
    output_key,
    reasoning_ids,
)
from amplifier_kit.llm.responses.response import ResponseReader
from amplifier_kit.llm.structured_output import Mode, shape_of

logger = logging.getLogger(__name__)

CONTINUATION_EVENT: Final = "provider:incomplete_continuation"
BACKGROUND_EVENT: Final = "provider:background_status"
CHAIN_EVENT: Final = "provider:response_chain_invalidated"
RESPONSES_EVENTS: Final = (CONTINUATION_EVENT, BACKGROUND_EVENT, CHAIN_EVENT)

_MOST_CONTINUATIONS: Final = 5
_LOST_RESPONSE: Final = "previous_response_not_found"
_UNREADABLE: Final = "invalid_encrypted_content"
_DATE: Final = re.compile(r"-\d{4}-\d\d-\d\d$")
#: Dated names with a separate price.
_PRICED_BY_DATE: Final = frozenset({"gpt-4o-2024-05-13"})
_NOT_CHAT: Final = re.compile(
    "embedding|whisper|tts|transcribe|dall-e|image|moderation|realtime|audio|sora|babbage|davinci|translate|-live|"
    "instruct|search-(preview|api)"
)


class ResponsesProvider(LLMProvider):
    """A provider for the Responses API; a subclass creates the client."""

    wire: ClassVar[Wire] = OPENAI
    structured: ClassVar[Mode] = "native"
    has_json_mode = True
    #: The prefix of the keys in metadata.
    prefix: ClassVar[str] = "openai"
    config_model: ClassVar[type[ResponsesConfig]] = ResponsesConfig
    settings: ResponsesConfig

    def __init__(
        self, config: Mapping[str, Any], coordinator: Any = None, *, api_key: str | None, base_url: str | None
    ) -> None:
        super().__init__(config, coordinator, api_key=api_key, base_url=base_url)
        #: Responses that the service no longer has, and reasoning that it cannot read.
        self._lost: set[str] = set()
        self._unreadable: set[str] = set()
        self._sends_everything = False

    # -- the request --

    def abilities(self, model: str) -> Abilities:
        """Return the abilities of a model; one with an unknown name thinks when the config has `reasoning`."""
        able = abilities_of(model)
        if able.is_known or not self.settings.reasoning:
            return able
        return able._replace(efforts=("low", "medium", "high"))

    def payload(self, call: LLMCall) -> dict[str, Any]:
        able = self.abilities(call.model)
        items = items_of(call.conversation, self.wire.name, self._unreadable)
        link = None
        if self._chains(able) and not self._sends_everything:
            link = find_link(call.conversation, items, self._chain_place(call), self.prefix, self._lost)
        capability = getattr(self.coordinator, "get_capability", None)
        return build_payload(
            call,
            self.settings,
            able,
            [item for turn in items[link.turns if link else 0 :] for item in turn],
            previous=link.response_id if link else None,
            stores=self.settings.enable_state or self._chains(able) or able.runs_in_background,
            patches_natively=capability is not None and capability("apply_patch.engine") == "native",
        )

    def drop_chain(self) -> None:
        """Send the whole history with the next request, whatever the service stores."""
        self._sends_everything = True

    def _chains(self, able: Abilities) -> bool:
        wanted = self.settings.enable_response_chaining
        return able.thinks if wanted == "auto" else wanted

    def _chain_place(self, call: LLMCall) -> str:
        return f"{self.name} {self.base_url} {call.model}"

    # -- the response --

    async def attempt(self, client: Any, payload: dict[str, Any], answer: Answer, call: LLMCall) -> None:
        """Stream one answer; a response that reached its token limit is continued."""
        if payload.get("previous_response_id") in self._lost:
            payload = self.payload(call)  # lost since the attempt before
        more: list[Item] = []
        readers: list[ResponseReader] = []
        while True:
            reader = ResponseReader(answer, self.wire.name, len(readers))
            payload = await self._respond(client, payload, more, reader, call)
            if not reader.is_complete:
                return  # `Answer.response` reports it
            readers.append(reader)
            if not self._is_continued(call, readers):
                break
            if reader.was_cut_inside:
                # The same limit would not be enough a second time.
                limit = self.abilities(call.model).max_output
                if payload["max_output_tokens"] >= limit:
                    break
                payload = {**payload, "max_output_tokens": limit}
                await reader.drop_cut_calls()
            more += reader.kept()
            data = {
                "provider": self.name,
                "response_id": reader.response_id,
                "reason": reader.incomplete_reason,
                "continuation_number": len(readers),
                "max_attempts": _MOST_CONTINUATIONS,
            }
            await self.emit(CONTINUATION_EVENT, data)
        await self._finish(answer, readers, call)

    async def _respond(
        self, client: Any, payload: dict[str, Any], more: list[Item], reader: ResponseReader, call: LLMCall
    ) -> dict[str, Any]:
        """Read one response; return the payload, which is a repaired one when the service refused the first."""
        while True:
            arguments = {**payload, "input": [*payload["input"], *more]}
            try:
                if payload.get("background"):
                    begun = await client.responses.create(**arguments, stream=False)
                else:
                    stream = await plain_stream(client.responses, **arguments)
                break
            except Exception as error:
                payload = await self._repair(error, payload, call)
        if payload.get("background"):
            ended = await self._wait(client, begun, call)
            await reader.end(ended.to_dict(mode="json", warnings=False))
        else:
            async with stream:
                reader.headers = dict(stream.response.headers)
                await reader.read(stream)
        return payload

    async def _wait(self, client: Any, response: Any, call: LLMCall) -> Any:
        """Return a response that runs in the background at the service, once it has ended.

        A failed poll is repeated, since the response still runs. Any exception cancels the response and is not
        retryable, because a retry would start from the beginning.
        """
        settings, started = self.settings, time.monotonic()
        facts = {"provider": self.name, "model": call.model, "response_id": response.id}
        status, failures = None, 0
        try:
            while True:
                elapsed = time.monotonic() - started
                if response.status != status:
                    status = response.status
                    await self.emit(BACKGROUND_EVENT, {**facts, "status": status, "elapsed": round(elapsed, 1)})
                if status not in ("queued", "in_progress"):
                    break
                if elapsed + settings.poll_interval > settings.background_timeout:
                    raise LLMTimeoutError(
                        f"the response {response.id} was not ready after {settings.background_timeout:.0f} s; raise "
                        "background_timeout",
                        retryable=False,
                    )
                await asyncio.sleep(settings.poll_interval)
                try:
                    response = await client.responses.retrieve(response.id)
                    failures = 0
                except Exception as error:
                    failures += 1
                    failed = to_llm_error(error, self.endpoint, call.model)
                    if not failed.retryable or failures > settings.max_retries:
                        failed.retryable = False
                        raise failed from error
                    logger.info("polling the response %s failed: %s", response.id, failed)
        except BaseException:
            try:
                await asyncio.wait_for(client.responses.cancel(response.id), 10)
            except Exception as error:
                logger.warning("%s: cannot cancel the response %s, which runs on: %r", self.name, response.id, error)
            raise
        if status == "cancelled":
            raise LLMError(f"{self.name}: the response {response.id} was cancelled at the service", retryable=False)
        return response

    async def _repair(self, error: Exception, payload: dict[str, Any], call: LLMCall) -> dict[str, Any]:
        """Return a payload without a lost response or unreadable reasoning; raise the error when it is another one."""
        failure = read_failure(error)
        previous = payload.get("previous_response_id")
        is_lost = _LOST_RESPONSE in failure.codes or "previous response" in failure.message.lower()
        if previous and is_lost and failure.status in (400, 404):
            self._lost.add(previous)
            data = {"provider": self.name, "model": call.model, "invalidated_id": previous}
            code = _LOST_RESPONSE if _LOST_RESPONSE in failure.codes else str(failure.status)
            await self.emit(CHAIN_EVENT, {**data, "error_code": code})
            return self.payload(call)
        sealed = reasoning_ids(payload["input"]) - self._unreadable
        if _UNREADABLE in failure.codes and sealed:
            self._unreadable |= sealed
            logger.warning("%s cannot read the reasoning of earlier answers; it is not sent", self.name)
            return self.payload(call)
        raise error

    def _is_continued(self, call: LLMCall, readers: list[ResponseReader]) -> bool:
        """Return whether the last response reached a token limit that the request did not set, and can be continued."""
        is_cut = readers[-1].incomplete_reason == "max_output_tokens" and readers[-1].refusal is None
        return is_cut and call.request.max_output_tokens is None and len(readers) <= _MOST_CONTINUATIONS

    async def _finish(self, answer: Answer, readers: list[ResponseReader], call: LLMCall) -> None:
        last = readers[-1]
        answer.headers = last.headers
        counted = [tokens for reader in readers if (tokens := reader.tokens()) is not None]
        answer.tokens = sum(counted[1:], counted[0]) if counted else None
        answer.refusal = last.refusal or last.incomplete_reason
        facts = {
            "response_id": last.response_id or None,
            "status": last.status,
            "incomplete_reason": last.incomplete_reason,
            "reasoning_items": [name for reader in readers for name in reader.reasoning_ids] or None,
            "continuation_count": len(readers) - 1 or None,
        }
        answer.metadata |= {f"{self.prefix}:{key}": value for key, value in facts.items() if value is not None}
        if any(reader.has_hosted for reader in readers):
            answer.metadata[output_key(self.wire.name)] = [item for reader in readers for item in reader.items]
        reason = last.finish_reason
        if reason == "stop" and any(reader.calls for reader in readers):
            reason = "tool_use"
        await answer.finish(reason)
        self._sends_everything = False
        if self._chains(self.abilities(call.model)) and len(readers) == 1 and last.status == "completed":
            response = answer.response()
            before = [item for turn in items_of(call.conversation, self.wire.name, self._unreadable) for item in turn]
            calls = [(made.id, made.name, made.arguments) for made in response.tool_calls or ()]
            answer.metadata[chain_key(self.prefix)] = digest_history(
                self._chain_place(call), before, response.text or "", calls
            )

    # -- models and structured output --

    def model_info(self, model: str) -> ModelInfo:
        return describe(model, self.abilities(model), long_context=self.settings.enable_long_context)

    async def fetch_models(self, client: Any) -> list[ModelInfo]:
        """Fetch the models; with `filtered`, only those that answer in text."""
        listed = [model async for model in client.models.list()]
        names = [model.id for model in listed if not self.settings.filtered or self.is_chat_model(model)]
        return [self.model_info(name) for name in names]

    def is_chat_model(self, listed: Any) -> bool:
        """Return whether a model of the service's list answers in text."""
        return _NOT_CHAT.search(listed.id.lower()) is None

    def shape_mode(self, request: ChatRequest) -> Mode:
        """Send the schema to models that accept one; ask others in words, and for schemas that are not of an object."""
        shape = shape_of(request, "native", has_json_mode=True)
        fits = shape is None or is_plain_object(shape.json_schema)
        return "native" if fits and self.abilities(request.model or self.model).takes_schema else "prompt"

    def price_model(self, call: LLMCall, answer: Answer) -> str:
        """Return the model's name without its date, since the price list has few dated names."""
        name = answer.model or call.model
        return name if name in _PRICED_BY_DATE else _DATE.sub("", name)

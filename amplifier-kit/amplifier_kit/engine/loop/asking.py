"""Ask a provider: build the request, make sure it is sound, call, and report what came back.

Every `provider:request` is followed by one `provider:response` or one `provider:error`, in one span. Nothing is tried
again here but a request that was too long, once, with a view that is surely smaller: providers know which errors pass.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from amplifier_core.events import (
    CONTENT_BLOCK_END,
    CONTENT_BLOCK_START,
    PROVIDER_ERROR,
    PROVIDER_REQUEST,
    PROVIDER_RESPONSE,
    PROVIDER_TOOL_SEQUENCE_REPAIRED,
)
from amplifier_core.llm_errors import ContextLengthError, LLMError
from amplifier_core.message_models import ChatRequest, ResponseFormatJson, ResponseFormatJsonSchema
from amplifier_kit.awaitable import maybe_await
from amplifier_kit.engine.loop.config import LoopConfig
from amplifier_kit.engine.loop.host import Host
from amplifier_kit.engine.loop.injection import with_injections
from amplifier_kit.engine.loop.reply import Reply, block_dict, checked_usage, read_reply
from amplifier_kit.engine.loop.request import Choice, build_messages, build_tools, view_of
from amplifier_kit.engine.loop.watch import Watch
from amplifier_kit.engine.pairing import Repair, repair_pairing, tool_call_ids
from amplifier_kit.engine.tasks import Crashed, Stopped, run_bounded, run_to_end
from amplifier_kit.engine.tokens import estimate_all

__all__ = ["Asker", "LoopMemory", "RequestDenied"]

#: The capability of an app that wants answers in a form: a ResponseFormatJson or a ResponseFormatJsonSchema.
RESPONSE_FORMAT: Final = "session.response_format"
#: How much of what was too long may be in the view that is tried instead.
_SHRINK: Final = 0.6
_DROPPED: Final = {"type": "cancelled", "msg": "the call was dropped"}


class RequestDenied(Exception):
    """Report that a hook denied a request to the provider."""


@dataclass(slots=True)
class LoopMemory:
    """Hold what a loop remembers from turn to turn of its session."""

    #: Repairs already reported; a lost result stays lost, and is news once.
    repaired: set[Repair] = field(default_factory=set)
    #: When the last model call ended, on the monotonic clock.
    last_request: float | None = None


class Asker:
    """Ask providers on behalf of one turn."""

    #: Whether blocks are also reported when the response has no `content_blocks` of its own.
    reports_plain_blocks: bool = False
    #: Whether stored messages carry their thinking block separately too.
    keeps_thinking: bool = False

    def __init__(
        self,
        host: Host,
        config: LoopConfig,
        watch: Watch,
        memory: LoopMemory,
        *,
        context: Any,
        tools: Mapping[str, Any],
    ) -> None:
        self.host = host
        self.config = config
        self.tools = tools
        self.memory = memory
        self._watch = watch
        self._context = context
        #: The exception that the last exchange ended in, if any.
        self.failure: BaseException | None = None
        self._is_reported = False

    async def ask(self, choice: Choice, number: int, **facts: Any) -> Reply:
        """Return the model's answer to the conversation so far.

        Raises RequestDenied when a hook says no, Stopped when the session must stop at once, and whatever the context
        or the provider raises, after reporting it.
        """
        self.failure = None
        self._is_reported = False
        with self.host.span(f"provider:{choice.name}"):
            try:
                return await self._asked(choice, {"provider": choice.name, "iteration": number, **facts})
            except (asyncio.CancelledError, Stopped):
                if not self._is_reported:
                    await run_to_end(self._report_dropped, choice)
                raise
            except Crashed as error:
                self.failure = error
                if not self._is_reported:
                    await self._report_failure(choice, error)
                raise

    async def _asked(self, choice: Choice, payload: dict[str, Any]) -> Reply:
        started = time.monotonic()
        verdict = await self.host.ask(PROVIDER_REQUEST, payload)
        if verdict.action == "deny":
            reason = verdict.reason or "no reason given"
            await self._report(choice, {"type": "denied", "msg": reason}, status="denied")
            raise RequestDenied(reason)
        with self._watch.running(f"provider:{choice.name}", choice.name):
            response, reply, usage = await run_bounded(self._exchange, choice, stop=self._watch.at_once)
        self.memory.last_request = time.monotonic()
        answered = {"provider": choice.name, "usage": usage, "tool_calls": bool(reply.calls)}
        duration = round((time.monotonic() - started) * 1000, 3)
        self._is_reported = True
        await self.host.ask(PROVIDER_RESPONSE, {**answered, "duration_ms": duration})
        await self._report_blocks(response, usage)
        return reply

    async def _exchange(self, choice: Choice) -> tuple[Any, Reply, dict[str, Any] | None]:
        """Build the request, call the provider and read its answer, in a task that may be dropped."""
        try:
            injected = self.host.injections.take()
            messages = with_injections(await self._view(choice), injected)
            try:
                response = await self._complete_by(choice, messages)
            except ContextLengthError:
                # The estimate was too low: once, with a view that is surely smaller. A request that cannot be made
                # smaller is not sent again.
                smaller = with_injections(
                    await self._view(choice, max(1, int(estimate_all(messages) * _SHRINK))), injected
                )
                if estimate_all(smaller) >= estimate_all(messages):
                    raise
                messages = smaller
                response = await self._complete_by(choice, messages)
            taken = (call_id for message in messages for call_id in tool_call_ids(message))
            reply = await read_reply(choice.provider, response, taken, keep_thinking=self.keeps_thinking)
            return response, reply, checked_usage(response, choice.name)
        except asyncio.CancelledError:
            # In this task, where the provider's own events have left the id of the request.
            await run_to_end(self._report_dropped, choice)
            raise
        except Exception as error:
            self.failure = error
            await self._report_failure(choice, error)
            raise

    def _request(self, messages: list[dict[str, Any]]) -> ChatRequest:
        return ChatRequest(
            messages=build_messages(messages),
            tools=build_tools(self.tools),
            reasoning_effort=self.config.reasoning_effort,
            response_format=self._form(),
        )

    def _form(self) -> ResponseFormatJson | ResponseFormatJsonSchema | None:
        """Return the form that answers must have, when the app wants one."""
        wanted = self.host.capability(RESPONSE_FORMAT)
        return wanted if isinstance(wanted, ResponseFormatJson | ResponseFormatJsonSchema) else None

    async def _view(self, choice: Choice, token_budget: int | None = None) -> list[dict[str, Any]]:
        """Return the messages of the request: the context's view, made sound."""
        with self.host.acting("context"):
            view = await view_of(self._context, choice.provider, token_budget)
        sound, repairs = repair_pairing(view)
        news = [repair for repair in repairs if repair not in self.memory.repaired]
        if news:
            self.memory.repaired.update(news)
            await self._report_repairs(choice, news)
        return sound

    async def _complete_by(self, choice: Choice, messages: list[dict[str, Any]]) -> Any:
        with self.host.acting("providers", choice.name):
            return await self._complete(choice.provider, self._request(messages))

    async def _complete(self, provider: Any, request: ChatRequest) -> Any:
        """Call the provider; loops that stream override this."""
        options = {"extended_thinking": True} if self.config.extended_thinking else {}
        return await maybe_await(provider.complete(request, **options))

    async def _report_repairs(self, choice: Choice, repairs: list[Repair]) -> None:
        calls = [
            {"tool_call_id": repair.tool_call_id, "tool_name": repair.tool_name, "kind": repair.kind}
            for repair in repairs
            if repair.kind != "unclosed_turn"
        ]
        payload: dict[str, Any] = {"provider": choice.name, "repair_count": len(calls), "repairs": calls}
        if len(calls) < len(repairs):
            payload["synthetic_assistant_count"] = len(repairs) - len(calls)
        await self.host.emit(PROVIDER_TOOL_SEQUENCE_REPAIRED, payload)

    async def _report_failure(self, choice: Choice, error: Exception) -> None:
        facts: dict[str, Any] = {}
        if isinstance(error, LLMError):
            facts = {"retryable": error.retryable, "status_code": error.status_code}
        await self._report(choice, {"type": type(error).__name__, "msg": str(error)}, **facts)

    async def _report_dropped(self, choice: Choice) -> None:
        await self._report(choice, _DROPPED, status="cancelled")

    async def _report(self, choice: Choice, error: dict[str, str], **facts: Any) -> None:
        self._is_reported = True
        await self.host.ask(PROVIDER_ERROR, {"provider": choice.name, "error": error, **facts})

    async def _report_blocks(self, response: Any, usage: dict[str, Any] | None) -> None:
        blocks = getattr(response, "content_blocks", None)
        if not isinstance(blocks, list | tuple) and self.reports_plain_blocks:
            content = getattr(response, "content", None)
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if not isinstance(blocks, list | tuple):
            return
        for index, block in enumerate(map(block_dict, blocks)):
            place = {"block_index": index, "total_blocks": len(blocks)}
            await self.host.emit(CONTENT_BLOCK_START, {"block_type": block.get("type"), **place})
            ended = {**place, "block": block}
            await self.host.emit(CONTENT_BLOCK_END, ended if usage is None else {**ended, "usage": usage})

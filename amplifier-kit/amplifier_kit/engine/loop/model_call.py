"""Call a model: build the request, repair its tool-call pairs, call the provider, and emit the events about it.

Every `provider:request` is followed by one `provider:response` or one `provider:error`, in one span. A request that is
too long is retried once with a smaller view; all other retries are the provider's.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import field
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
from amplifier_kit.engine.context.token_budget import estimate_all
from amplifier_kit.engine.loop.config import LoopConfig
from amplifier_kit.engine.loop.monitor import TurnMonitor
from amplifier_kit.engine.loop.reply import Reply, block_dict, checked_usage, read_reply
from amplifier_kit.engine.loop.request import Choice, build_messages, build_tools, inject, request_view
from amplifier_kit.engine.loop.session import TurnSession
from amplifier_kit.engine.pairing import Repair, repair_pairing, repair_report, tool_call_ids
from amplifier_kit.engine.tasks import Crashed, Stopped, run_bounded, run_to_end
from amplifier_kit.struct import Struct

#: The capability of an app that wants answers in a form: a ResponseFormatJson or a ResponseFormatJsonSchema.
RESPONSE_FORMAT: Final = "session.response_format"
#: The size of the second view of a request that was too long, as a share of the first.
_SHRINK: Final = 0.6


class RequestDenied(Exception):
    """A hook denied a request to the provider."""


class LoopMemory(Struct):
    """What a loop remembers from turn to turn of its session."""

    #: Repairs already reported: a lost result stays lost, and is reported once.
    repaired: set[Repair] = field(default_factory=set)
    #: When the last model call ended, on the monotonic clock.
    last_request: float | None = None
    #: Content blocks, such as images, that belong to the next prompt.
    attachments: list[dict[str, Any]] = field(default_factory=list)


class ModelCaller:
    #: Whether blocks are also reported when the response has no `content_blocks`.
    reports_plain_blocks: bool = False
    #: Whether stored messages also have their thinking block as a separate key.
    keeps_thinking: bool = False

    def __init__(
        self,
        session: TurnSession,
        config: LoopConfig,
        monitor: TurnMonitor,
        memory: LoopMemory,
        *,
        context: Any,
        tools: Mapping[str, Any],
    ) -> None:
        self.session = session
        self.config = config
        self.tools = tools
        self.memory = memory
        self.monitor = monitor
        self._context = context
        #: The exception of the last call, if it failed.
        self.failure: BaseException | None = None
        self._is_closed = False

    async def call(self, choice: Choice, number: int, **facts: Any) -> Reply:
        """Return the model's answer to the conversation so far.

        Raises RequestDenied when a hook denies, Stopped when the session must stop at once, and whatever the context or
        the provider raises, after reporting it.
        """
        self.failure = None
        self._is_closed = False
        with self.session.span(f"provider:{choice.name}"):
            try:
                return await self._call(choice, {"provider": choice.name, "iteration": number, **facts})
            except (asyncio.CancelledError, Stopped):
                await run_to_end(self._report_cancelled, choice)
                raise
            except Crashed as error:
                self.failure = error
                if not self._is_closed:
                    await self._report_failure(choice, error)
                raise

    async def _call(self, choice: Choice, payload: dict[str, Any]) -> Reply:
        started = time.monotonic()
        verdict = await self.session.emit_and_apply(PROVIDER_REQUEST, payload)
        if verdict.action == "deny":
            reason = verdict.reason or "no reason given"
            await self._report_error(choice, {"type": "denied", "msg": reason}, status="denied")
            raise RequestDenied(reason)
        with self.monitor.running(f"provider:{choice.name}", choice.name):
            response, reply, usage = await run_bounded(self._exchange, choice, stop=self.monitor.immediate_stop)
        self.memory.last_request = time.monotonic()
        self._is_closed = True
        answered = {
            "provider": choice.name,
            "usage": usage,
            "tool_calls": bool(reply.calls),
            "duration_ms": round((time.monotonic() - started) * 1000, 3),
        }
        await self.session.emit_and_apply(PROVIDER_RESPONSE, answered)
        await self._report_blocks(response, usage)
        return reply

    async def _exchange(self, choice: Choice) -> tuple[Any, Reply, dict[str, Any] | None]:
        """Build the request, call the provider and read its answer, in a task that may be cancelled.

        Failures are reported in this task, in which the provider's own events have set the id of the request.
        """
        try:
            injected = self.session.take_injections()
            messages = inject(await self._build_view(choice), injected)
            try:
                response = await self._complete_by(choice, messages)
            except ContextLengthError:
                # The estimate was too low. A request that cannot be made smaller is not sent again.
                budget = max(1, int(estimate_all(messages) * _SHRINK))
                smaller = inject(await self._build_view(choice, budget), injected)
                if estimate_all(smaller) >= estimate_all(messages):
                    raise
                messages = smaller
                response = await self._complete_by(choice, messages)
            taken = (call_id for message in messages for call_id in tool_call_ids(message))
            reply = await read_reply(choice.provider, response, taken, keep_thinking=self.keeps_thinking)
            return response, reply, checked_usage(response, choice.name)
        except asyncio.CancelledError:
            await run_to_end(self._report_cancelled, choice)
            raise
        except Exception as error:
            self.failure = error
            await self._report_failure(choice, error)
            raise

    async def _build_view(self, choice: Choice, token_budget: int | None = None) -> list[dict[str, Any]]:
        """Return the context's messages for a request, with every tool call paired with its result."""
        with self.session.acting("context"):
            view = await request_view(self._context, choice.provider, token_budget)
        paired, repairs = repair_pairing(view)
        unreported = [repair for repair in repairs if repair not in self.memory.repaired]
        if unreported:
            self.memory.repaired.update(unreported)
            await self.session.emit(PROVIDER_TOOL_SEQUENCE_REPAIRED, repair_report(choice.name, unreported))
        return paired

    async def _complete_by(self, choice: Choice, messages: list[dict[str, Any]]) -> Any:
        wanted = self.session.capability(RESPONSE_FORMAT)
        request = ChatRequest(
            messages=build_messages(messages),
            tools=build_tools(self.tools),
            reasoning_effort=self.config.reasoning_effort,
            response_format=wanted if isinstance(wanted, ResponseFormatJson | ResponseFormatJsonSchema) else None,
        )
        with self.session.acting("providers", choice.name):
            return await self._complete(choice.provider, request)

    async def _complete(self, provider: Any, request: ChatRequest) -> Any:
        """Call the provider; loops that stream override this."""
        options = {"extended_thinking": True} if self.config.extended_thinking else {}
        return await maybe_await(provider.complete(request, **options))

    # -- events --

    async def _report_failure(self, choice: Choice, error: Exception) -> None:
        facts: dict[str, Any] = {}
        if isinstance(error, LLMError):
            facts = {"retryable": error.retryable, "status_code": error.status_code}
        await self._report_error(choice, {"type": type(error).__name__, "msg": str(error)}, **facts)

    async def _report_cancelled(self, choice: Choice) -> None:
        await self._report_error(choice, {"type": "cancelled", "msg": "the call was cancelled"}, status="cancelled")

    async def _report_error(self, choice: Choice, error: dict[str, str], **facts: Any) -> None:
        """Emit provider:error, unless the call has its closing event already."""
        if not self._is_closed:
            self._is_closed = True
            await self.session.emit_and_apply(PROVIDER_ERROR, {"provider": choice.name, "error": error, **facts})

    async def _report_blocks(self, response: Any, usage: dict[str, Any] | None) -> None:
        blocks = getattr(response, "content_blocks", None)
        if not isinstance(blocks, list | tuple) and self.reports_plain_blocks:
            content = getattr(response, "content", None)
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if not isinstance(blocks, list | tuple):
            return
        for index, block in enumerate(map(block_dict, blocks)):
            place = {"block_index": index, "total_blocks": len(blocks)}
            await self.session.emit(CONTENT_BLOCK_START, {"block_type": block.get("type"), **place})
            ended = {**place, "block": block}
            await self.session.emit(CONTENT_BLOCK_END, ended if usage is None else {**ended, "usage": usage})

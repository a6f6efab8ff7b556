"""Turns of the streaming loop, and messages that steer them."""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

from amplifier_core.events import CONTENT_BLOCK_DELTA, CONTENT_BLOCK_END, CONTENT_BLOCK_START
from amplifier_core.message_models import ChatRequest, ChatResponse, TextBlock
from amplifier_kit.awaitable import maybe_await
from amplifier_kit.engine.loop.model_call import LoopMemory, ModelCaller
from amplifier_kit.engine.loop.reply import Reply
from amplifier_kit.engine.loop.request import Choice, choose_provider
from amplifier_kit.engine.loop.turn import Outcome, Turn
from amplifier_kit.struct import FrozenStruct
from amplifier_module_loop_streaming.config import StreamingConfig

if TYPE_CHECKING:
    from amplifier_module_loop_streaming.goal import GoalLoop

# --- steering ---


LIMIT: Final = 100


class SteeringQueueFull(RuntimeError):
    """The queue is full until the next model call."""


class Steer(FrozenStruct):
    """One queued message."""

    content: str
    metadata: dict[str, Any]


class SteeringQueue:
    """A first-in, first-out queue. Calling it adds a message; it is the capability `session.steer`."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._queue: deque[Steer] = deque()

    def __call__(self, content: str, metadata: Mapping[str, Any] | None = None) -> int:
        """Queue a message for the next model call; return how many are queued.

        Raises ValueError for anything but a text that is not blank, SteeringQueueFull when the queue is full.
        """
        if not isinstance(content, str) or not content.strip():
            raise ValueError(f"session.steer: content must be a text that is not blank, got {content!r}")
        if len(self._queue) >= self._limit:
            raise SteeringQueueFull(
                f"session.steer: {self._limit} messages are queued already; try again after the next step"
            )
        self._queue.append(Steer(content, dict(metadata or {})))
        return len(self._queue)

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def waiting(self) -> tuple[str, ...]:
        """Return the queued messages, oldest first."""
        return tuple(steer.content for steer in self._queue)

    def take(self) -> Steer | None:
        """Remove and return the oldest message, None when the queue is empty."""
        return self._queue.popleft() if self._queue else None

    def clear(self) -> None:
        """Remove all messages."""
        self._queue.clear()


# --- turns ---


NAME: Final = "loop-streaming"
STEERING_INJECTED: Final = "orchestrator:steering_injected"
GOAL_PROGRESS: Final = "orchestrator:goal_progress"
RATE_LIMIT_DELAY: Final = "orchestrator:rate_limit_delay"
PINNED: Final = "pinned_provider"

_TOKEN: Final = re.compile(r"\s+|\S+")


def tokens(text: str) -> list[str]:
    """Return words and the white space between them; joined they are the text."""
    return _TOKEN.findall(text)


class StreamingModelCaller(ModelCaller):
    """Stream the answer of a provider that has `stream`; report the blocks of all others."""

    reports_plain_blocks = True
    keeps_thinking = True
    delay = 0.0
    _has_streamed = False

    async def call(self, choice: Choice, number: int, **facts: Any) -> Reply:
        """Call the model, and delay an answer that came in one piece as long as its words would take."""
        reply = await super().call(choice, number, **facts)
        if self.delay and reply.text and not reply.calls and not self._has_streamed:
            words = sum(not token.isspace() for token in tokens(reply.text))
            await self.monitor.pause(words * self.delay)
        return reply

    async def _complete(self, provider: Any, request: ChatRequest) -> Any:
        stream = getattr(provider, "stream", None)
        self._has_streamed = callable(stream)
        if not callable(stream):
            return await super()._complete(provider, request)
        pieces: list[str] = []
        calls: list[Any] = []
        usage: Any = None
        place = {"block_type": "text", "block_index": 0}
        async for piece in await maybe_await(stream(request, tools=list(self.tools.values()))):
            calls += piece.get("tool_calls") or []
            usage = piece.get("usage") or usage
            text = piece.get("content")
            if not text or piece.get("block_type", "text") != "text":
                continue
            if not pieces:
                await self.session.emit(CONTENT_BLOCK_START, {**place, "total_blocks": 1})
            await self.session.emit(CONTENT_BLOCK_DELTA, {**place, "sequence": len(pieces), "text": text})
            pieces.append(text)
            if self.delay and not text.isspace():
                await asyncio.sleep(self.delay)
        blocks = [TextBlock(text="".join(pieces))] if pieces else []
        if blocks:
            ended = {"block_index": 0, "total_blocks": 1, "block": blocks[0].model_dump()}
            await self.session.emit(CONTENT_BLOCK_END, ended)
        return ChatResponse(content=blocks, tool_calls=calls or None, usage=usage)

    async def _report_blocks(self, response: Any, usage: dict[str, Any] | None) -> None:
        if not self._has_streamed:
            await super()._report_blocks(response, usage)


class StreamingTurn(Turn):
    """Run one turn, or several for a goal; iterations count from 1."""

    name: ClassVar[str] = NAME
    first_iteration: ClassVar[int] = 1
    model_caller_type: ClassVar[type[ModelCaller]] = StreamingModelCaller
    model_caller: StreamingModelCaller

    def __init__(
        self, config: StreamingConfig, memory: LoopMemory, steering: SteeringQueue, *, context: Any, **parts: Any
    ) -> None:
        super().__init__(config, memory, context=context, **parts)
        self._streaming = config
        self._steering = steering
        self._context = context
        self._goal_loop: GoalLoop | None = None
        self.model_caller.delay = config.stream_delay

    async def run(self, prompt: str) -> str:
        """Return the answer; messages queued before the turn, or during one that was cancelled, are dropped."""
        self._steering.clear()
        try:
            return await super().run(prompt)
        finally:
            if self.was_cancelled:
                self._steering.clear()

    def choose(self) -> Choice:
        """Return the provider that the user has pinned, else the one of the lowest priority.

        Raises RuntimeError when the pinned one is not mounted: the user wants no other.
        """
        pinned = self.session.state.get(PINNED)
        choice = choose_provider(self.providers, pinned or self.config.default_provider)
        if pinned and not choice.is_wanted:
            mounted = ", ".join(self.providers)
            raise RuntimeError(f"The pinned provider {pinned!r} is not mounted; mounted are: {mounted}")
        return choice

    async def before_request(self) -> None:
        """Wait for the minimum delay since the last model call, then store queued messages."""
        await self._wait_min_delay()
        while (steer := self._steering.take()) is not None:
            metadata = {"source": "steering", **steer.metadata}
            await self.session.store({"role": "user", "content": steer.content, "metadata": metadata})
            injected = {
                "orchestrator": NAME,
                "content": steer.content,
                "iteration": self.first_iteration + self.requests,
                "queued_remaining": len(self._steering),
                "metadata": steer.metadata,
            }
            await self.session.emit(STEERING_INJECTED, injected)

    def wants_more(self) -> bool:
        """Return whether messages were queued while the model answered."""
        return bool(len(self._steering))

    async def answer(self, choice: Choice) -> Outcome:
        """Answer once, or work until the session's goal is met."""
        if not self.session.state.get("goal"):
            return await self.converse(choice)
        # Imported here because few sessions have a goal.
        from amplifier_module_loop_streaming.goal import GoalLoop, find_goal
        from amplifier_module_loop_streaming.judge import Judge

        goal = find_goal(self.session.state)
        if goal is None:
            return await self.converse(choice)
        judge = Judge(self.session, self._streaming, self.providers, choice)
        self._goal_loop = GoalLoop(self, goal, self._streaming, judge)
        return await self._goal_loop.run(choice, self.monitor.immediate_stop)

    async def history(self) -> list[dict[str, Any]]:
        """Return the conversation so far."""
        messages: list[dict[str, Any]] = await maybe_await(self._context.get_messages())
        return messages

    def completion_facts(self) -> dict[str, Any]:
        """Return the progress towards a goal."""
        goal = self._goal_loop.goal if self._goal_loop is not None else {}
        used, continued = goal.get("turns_used", 0), goal.get("continuations", 0)
        return {"goal_turn": used, "goal_final": True, "continuations": continued}

    async def _wait_min_delay(self) -> None:
        configured = self._streaming.min_delay_between_calls_ms
        last = self.model_caller.memory.last_request
        if not configured or last is None:
            return
        elapsed = (time.monotonic() - last) * 1000
        if elapsed >= configured:
            return
        delay = {"delay_ms": configured - elapsed, "configured_ms": configured, "elapsed_ms": elapsed}
        number = self.first_iteration + self.requests
        await self.session.emit(RATE_LIMIT_DELAY, {**delay, "iteration": number})
        await self.monitor.pause((configured - elapsed) / 1000)

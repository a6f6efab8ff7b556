"""Assemble the system part of a request, each time from its sources: instructions are never stored or summarised."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from inspect import iscoroutinefunction
from typing import Any

from amplifier_kit.awaitable import maybe_await
from amplifier_kit.engine.context.ledger import Message
from amplifier_kit.engine.context.token_budget import ContextConfig, estimate_all
from amplifier_kit.struct import FrozenStruct
from amplifier_kit.threads import in_thread


class SystemPart(FrozenStruct):
    """The messages in front of every request."""

    messages: list[Message]
    tokens: int


class Instructions:
    """The sources of the system part: factory, standing texts, stored messages, fragments."""

    def __init__(self, settings: ContextConfig, coordinator: Any) -> None:
        self._settings = settings
        self._coordinator = coordinator
        #: Held by every thread until it ends, also after its deadline.
        self._free_threads = asyncio.Semaphore(settings.instruction_callback_max_workers)
        #: Returns the instructions; with it, stored system messages are left out.
        self.factory: Callable[[], Any] | None = None
        #: System messages that are part of every request, such as memory files.
        self.standing: list[Message] = []

    async def assemble(self, stored: Iterable[Message]) -> SystemPart:
        """Return the system part for a ledger with these stored system messages.

        Raises what the factory or a filter raises, TimeoutError when one takes too long, TypeError when one returns no
        text and LookupError for an unknown filter: a request without its instructions is never built.
        """
        # Not `get_context()`, which finds sessions by id: two may share one, and this one may still be starting.
        fragments = render_fragments(getattr(self._coordinator, "fragments", None) or {})
        if self.factory is None:
            messages = [*self.standing, *stored, *_system(fragments)]
        else:
            text = await self._call("The system prompt factory", self.factory)
            for name in self._settings.instruction_filters:
                text = await self._call(f"The instruction filter {name!r}", self._filter(name), text)
            messages = [*_system("\n\n".join(filter(None, (text, fragments)))), *self.standing]
        return SystemPart(messages, estimate_all(messages))

    def _filter(self, name: str) -> Callable[..., Any]:
        found = self._coordinator.get_capability(name) if self._coordinator is not None else None
        if not callable(found):
            raise LookupError(
                f"The instruction filter {name!r} is offered by no module of this session: mount one that registers "
                "that capability, or remove it from instruction_filters"
            )
        offered: Callable[..., Any] = found
        return offered

    async def _call(self, what: str, callback: Callable[..., Any], *arguments: Any) -> str:
        seconds = self._settings.instruction_callback_timeout_s
        try:
            async with asyncio.timeout(seconds) as deadline:
                if iscoroutinefunction(callback):
                    text = await callback(*arguments)
                else:
                    text = await maybe_await(await self._in_thread(callback, *arguments))
        except TimeoutError as error:
            if not deadline.expired():
                raise
            raise TimeoutError(
                f"{what} did not answer within {seconds:g} s, and no request is built without its instructions: make "
                "it faster, or raise instruction_callback_timeout_s"
            ) from error
        if text is not None and not isinstance(text, str):
            raise TypeError(f"{what} must return a text, got {type(text).__name__}")
        return text or ""

    async def _in_thread(self, callback: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function that may block in a thread, with the caller's contextvars."""
        loop = asyncio.get_running_loop()

        def call() -> Any:
            try:
                return callback(*arguments)
            finally:
                if not loop.is_closed():
                    loop.call_soon_threadsafe(self._free_threads.release)

        await self._free_threads.acquire()
        return await in_thread(call, grace=0)


def render_fragments(fragments: Mapping[str, Any]) -> str:
    """Return all fragments as one text, in the order of their keys; text as it is, everything else as JSON."""
    if not fragments:
        return ""
    from html import escape

    texts = []
    for key, value in sorted(fragments.items()):
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
        texts.append(f'<context-fragment key="{escape(key)}">\n{text}\n</context-fragment>')
    return "\n\n".join(texts)


def _system(text: str) -> list[Message]:
    return [{"role": "system", "content": text}] if text else []

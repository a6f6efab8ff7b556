"""Assemble the system part of a request anew each time: instructions are derived, never remembered or summarised."""

from __future__ import annotations

import asyncio
import contextvars
import json
from collections.abc import Callable, Iterable, Mapping
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, NamedTuple

from amplifier_kit.awaitable import maybe_await
from amplifier_kit.engine.context.config import ContextConfig
from amplifier_kit.engine.context.messages import Message
from amplifier_kit.engine.tokens import estimate_all

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

__all__ = ["Instructions", "SystemPart"]

Factory = Callable[[], Any]


class SystemPart(NamedTuple):
    """Hold the messages that stand in front of every request."""

    messages: list[Message]
    tokens: int


class Instructions:
    """Bring together what the system part consists of: factory, standing texts, stored messages, fragments."""

    def __init__(self, settings: ContextConfig, coordinator: Any) -> None:
        self._settings = settings
        self._coordinator = coordinator
        self._pool: ThreadPoolExecutor | None = None
        #: Gives the instructions; with it, stored system messages no longer count.
        self.factory: Factory | None = None
        #: System messages that hold whatever else changes, such as memory files.
        self.standing: list[Message] = []

    async def assemble(self, stored: Iterable[Message]) -> SystemPart:
        """Return the system part for a ledger with these stored system messages.

        Raises what the factory or a filter raises, TimeoutError when one takes too long, TypeError when one gives no
        text and LookupError for a filter that nobody offers: a request without its instructions is never built.
        """
        fragments = render_fragments(fragments_of(self._coordinator))
        if self.factory is None:
            messages = [*self.standing, *stored, *_system(fragments)]
        else:
            text = await self._text(self.factory)
            messages = [*_system("\n\n".join(filter(None, (text, fragments)))), *self.standing]
        return SystemPart(messages, estimate_all(messages))

    def close(self) -> None:
        """Let go of the threads, waiting for none of them."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None

    async def _text(self, factory: Factory) -> str:
        text = _checked("The system prompt factory", await self._call("The system prompt factory", factory))
        for name in self._settings.instruction_filters:
            what = f"The instruction filter {name!r}"
            offered = self._coordinator.get_capability(name) if self._coordinator is not None else None
            if not callable(offered):
                raise LookupError(
                    f"{what} is offered by no module of this session: mount one that registers that capability, or "
                    "take it out of instruction_filters"
                )
            text = _checked(what, await self._call(what, offered, text))
        return text

    async def _call(self, what: str, callback: Callable[..., Any], *arguments: Any) -> Any:
        seconds = self._settings.instruction_callback_timeout_s
        try:
            async with asyncio.timeout(seconds) as deadline:
                if iscoroutinefunction(callback):
                    return await callback(*arguments)
                return await maybe_await(await self._in_thread(callback, *arguments))
        except TimeoutError as error:
            if not deadline.expired():
                raise
            raise TimeoutError(
                f"{what} did not answer within {seconds:g} s, and no request is built without its instructions: make "
                "it faster, or raise instruction_callback_timeout_s"
            ) from error

    async def _in_thread(self, callback: Callable[..., Any], *arguments: Any) -> Any:
        """Call what may block in a thread, with the caller's contextvars."""
        if self._pool is None:
            from concurrent.futures import ThreadPoolExecutor  # factories are coroutine functions as a rule

            workers = self._settings.instruction_callback_max_workers
            self._pool = ThreadPoolExecutor(workers, thread_name_prefix="instructions")
        context = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(self._pool, lambda: context.run(callback, *arguments))


def fragments_of(coordinator: Any) -> Mapping[str, Any]:
    """Return the context fragments of the coordinator's session, read-only.

    The system call `get_context()` finds sessions by id or by what is running; a context manager has its very
    coordinator, also in a session that is still starting or shares its id with another.
    """
    view: Mapping[str, Any] = getattr(coordinator, "fragments", None) or {}
    return view


def render_fragments(fragments: Mapping[str, Any]) -> str:
    """Return all fragments as one text, in the order of their keys; text as it is, everything else as JSON."""
    return "\n\n".join(
        f'<context-fragment key="{_escaped(key)}">\n{_fragment_text(fragments[key])}\n</context-fragment>'
        for key in sorted(fragments)
    )


def _escaped(key: str) -> str:
    return key.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")


def _fragment_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)


def _system(text: str) -> list[Message]:
    return [{"role": "system", "content": text}] if text else []


def _checked(what: str, text: Any) -> str:
    if text is None:
        return ""
    if not isinstance(text, str):
        raise TypeError(f"{what} must give a text, got {type(text).__name__}")
    return text

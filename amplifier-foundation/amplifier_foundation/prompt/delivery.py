"""Bring the system prompt of a session to its context, and see to it that no request of a turn leaves without it.

A context gets the prompt in one of two ways: as a factory, which it asks at every request, or, where it takes none, as
a system message in front of the conversation. Contexts and loops are modules of others, and a model that is asked
without its instructions answers all the same; so requests are checked at two places. The messages that a context gives
for a request must contain the prompt. Where a loop asks for no such messages in a turn, or the context's method cannot
be replaced, the provider is the second place: a request with the user's message and no system message is not sent.

Not seen: a loop that removes the prompt from the messages it was given, one that builds its requests from something
else and adds a system message of its own, and providers that are mounted after the session began.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from contextvars import ContextVar
from typing import Any, ClassVar, Final

from amplifier_foundation.errors import FoundationError
from amplifier_foundation.prompt.system_prompt import SystemPrompt
from amplifier_kit.awaitable import maybe_await

__all__ = ["PromptDelivery", "SystemPromptMissingError"]

_INSTRUCTING: Final = ("system", "developer")
#: Fields in which loops may put instructions besides messages.
_FIELDS: Final = ("system", "system_prompt", "instructions", "system_instruction")
#: How many texts of the factory are remembered: a context may keep one that has changed since.
_REMEMBERED: Final = 8
#: Whether a context is at work: what it asks a model, such as a summary, is its own business.
_in_context: ContextVar[bool] = ContextVar("in_context", default=False)


class SystemPromptMissingError(FoundationError):
    """A request would have gone to the model without the system prompt of its session."""

    code: ClassVar[str] = "system_prompt_missing"


class PromptDelivery:
    """Give one session's context its system prompt, and watch what becomes of it."""

    def __init__(self, prompt: SystemPrompt, plan: Mapping[str, Any]) -> None:
        """Deliver `prompt`; `plan` says which modules are at work, for the error to name, and how they are set up."""
        self._prompt = prompt
        self._session = plan["session"] if isinstance(plan.get("session"), Mapping) else {}
        self._has_filters = any(
            isinstance(part, Mapping) and isinstance(config := part.get("config"), Mapping) and _filters(config)
            for part in (self._session.get("context"), plan.get("context"))
        )
        self._rendered: deque[str] = deque(maxlen=_REMEMBERED)
        self._undo: list[Callable[[], None]] = []
        self._user_text = ""
        self._has_view = False
        #: Why the running turn must fail, whatever its loop makes of the error.
        self.failure: SystemPromptMissingError | None = None

    async def render(self) -> str:
        """Return the system prompt as of now: the factory that contexts are given."""
        text = await self._prompt()
        if text in self._rendered:
            self._rendered.remove(text)
        self._rendered.append(text)
        return text

    async def give(self, context: Any, messages: Sequence[dict[str, Any]] = ()) -> list[dict[str, Any]]:
        """Let a context have the prompt; return the messages it is to begin with, after an instruction if need be."""
        setter = getattr(context, "set_system_prompt_factory", None)
        if callable(setter):
            # Asked at every request, so that the instruction is never summarised away and edits take effect.
            await maybe_await(setter(self.render))
            return list(messages)
        text = await self.render()
        return [*([{"role": "system", "content": text}] if text else []), *messages]

    # -- watching --

    def watch(self, coordinator: Any) -> None:
        """Look at what the context gives and what the providers are asked, until `close()`."""
        self._replace(coordinator.get("context"), "get_messages_for_request", self._checked_view)
        for provider in list((coordinator.get("providers") or {}).values()):
            self._replace(provider, "complete", self._checked_call)
            self._replace(provider, "stream", self._checked_stream)

    def close(self) -> None:
        """Look no more."""
        while self._undo:
            self._undo.pop()()

    def begin_turn(self, prompt: str) -> None:
        """Take that a turn begins with these words of the user."""
        self._user_text, self._has_view, self.failure = prompt.strip(), False, None

    def _replace(self, part: Any, name: str, made: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        """Put a method of one object in place of its own."""
        own = getattr(part, name, None)
        if not callable(own):
            return
        before = vars(part).get(name) if hasattr(part, "__dict__") else None
        mine = made(own)
        try:
            setattr(part, name, mine)
        except (AttributeError, TypeError):  # it has slots, or does not let itself be changed
            return

        def restore() -> None:
            if vars(part).get(name) is not mine:
                return  # somebody else has put another one in its place, which calls ours
            if before is None:
                delattr(part, name)
            else:
                setattr(part, name, before)

        self._undo.append(restore)

    def _checked_view(self, own: Callable[..., Any]) -> Callable[..., Any]:
        async def get_messages_for_request(*arguments: Any, **options: Any) -> Any:
            token = _in_context.set(True)
            try:
                view = await maybe_await(own(*arguments, **options))
            finally:
                _in_context.reset(token)
            await self._require(_texts(view), is_view=True)
            self._has_view = True
            return view

        return get_messages_for_request

    def _checked_call(self, own: Callable[..., Any]) -> Callable[..., Any]:
        async def complete(request: Any, *arguments: Any, **options: Any) -> Any:
            await self._look_at(request)
            return await maybe_await(own(request, *arguments, **options))

        return complete

    def _checked_stream(self, own: Callable[..., Any]) -> Callable[..., Any]:
        async def stream(request: Any, *arguments: Any, **options: Any) -> AsyncIterator[Any]:
            await self._look_at(request)
            pieces = await maybe_await(own(request, *arguments, **options))
            if not hasattr(pieces, "aclose"):
                async for piece in pieces:
                    yield piece
                return
            async with aclosing(pieces):
                async for piece in pieces:
                    yield piece

        return stream

    async def _look_at(self, request: Any) -> None:
        """Refuse a request that is the user's conversation without any instruction, unless the context has shown it."""
        if self._has_view or _in_context.get() or not self._user_text:
            return
        messages = [_plain(message) for message in getattr(request, "messages", None) or ()]
        is_instructed = any(message.get("role") in _INSTRUCTING for message in messages)
        if is_instructed or any(getattr(request, name, None) for name in _FIELDS):
            return
        said = (_text(message).strip() for message in messages if message.get("role") == "user")
        if self._user_text in said:
            await self._require(_texts(messages), is_view=False)

    async def _require(self, texts: Sequence[str], *, is_view: bool) -> None:
        """Raise SystemPromptMissingError unless the prompt is in these texts of messages."""
        if any(text and any(text in one for one in texts) for text in reversed(self._rendered)):
            return
        if not (await self.render()).strip():
            return
        together = "".join("".join(text.split()) for text in texts)
        wanted = ["".join(text.split()) for text in self._rendered]
        # In several blocks, or with other white space, it is still the same.
        if any(text and text in together for text in wanted):
            return
        if is_view and self._has_filters and together:
            return  # what filters make of the prompt, only the context knows
        self.failure = SystemPromptMissingError(self._told())
        raise self.failure

    def _told(self) -> str:
        context, loop = _module(self._session.get("context")), _module(self._session.get("orchestrator"))
        return (
            f"context module '{context}' (loop '{loop}'): a request lacks the system prompt of the bundle and was not "
            "sent. The context did not keep what it was given by set_system_prompt_factory() or add_message(), or "
            "dropped it when it compacted: choose another module under session.context, such as context-simple, and "
            "report this to the author of the module"
        )


def _filters(config: Mapping[str, Any]) -> bool:
    """Tell whether a context's config names filters that may rewrite the prompt."""
    return bool(config.get("instruction_filters"))


def _module(named: Any) -> str:
    return str(named.get("module") if isinstance(named, Mapping) else named)


def _plain(message: Any) -> Mapping[str, Any]:
    if isinstance(message, Mapping):
        return message
    return {"role": getattr(message, "role", None), "content": getattr(message, "content", None)}


def _texts(messages: Iterable[Any] | None) -> list[str]:
    return [_text(_plain(message)) for message in messages or ()]


def _text(message: Mapping[str, Any]) -> str:
    """Return the words of a message, its blocks one after the other."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list | tuple) else ()
    found = (block.get("text") if isinstance(block, Mapping) else getattr(block, "text", None) for block in blocks)
    return "".join(text for text in found if isinstance(text, str))

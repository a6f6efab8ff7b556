"""Give the context of a session its system prompt, and send no request of a turn without it.

A context that takes a factory asks it at every request; any other gets a system message in front of the conversation.
Contexts are modules of others, and a model that lacks its instructions answers all the same, so the messages that a
context returns for a request are checked. Loops that do not ask the context for such messages are not checked.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final

from amplifier_foundation.errors import FoundationError
from amplifier_foundation.prompt.system_prompt import SystemPrompt
from amplifier_kit.awaitable import maybe_await

__all__ = ["PromptDelivery", "SystemPromptMissingError"]

#: How many texts of the factory are kept: a context may have cached one that has changed since.
_KEPT: Final = 8


class SystemPromptMissingError(FoundationError):
    """A request would have gone to the model without the system prompt of its session."""

    code: ClassVar[str] = "system_prompt_missing"


class PromptDelivery:
    """Give one session's context its system prompt, and check the messages that it returns for requests."""

    def __init__(self, prompt: SystemPrompt, plan: Mapping[str, Any]) -> None:
        """Deliver `prompt`; `plan` names the modules for the error, and the filters of the context."""
        self._prompt = prompt
        self._session = plan["session"] if isinstance(plan.get("session"), Mapping) else {}
        self._has_filters = any(
            isinstance(part, Mapping) and isinstance(part.get("config"), Mapping) and _filters(part["config"])
            for part in (self._session.get("context"), plan.get("context"))
        )
        self._rendered: deque[str] = deque(maxlen=_KEPT)
        #: Why the running turn must fail, even if its loop turns the error into an answer.
        self.failure: SystemPromptMissingError | None = None

    async def render(self) -> str:
        """Return the current system prompt: the factory that contexts get."""
        text = await self._prompt()
        if text in self._rendered:
            self._rendered.remove(text)
        self._rendered.append(text)
        return text

    async def give(self, context: Any, messages: Sequence[dict[str, Any]] = ()) -> list[dict[str, Any]]:
        """Give a context the prompt; return the messages it starts with, after a system message if it needs one."""
        setter = getattr(context, "set_system_prompt_factory", None)
        if callable(setter):
            # Called at every request, so that the instruction is never summarised away and edits take effect.
            await maybe_await(setter(self.render))
            return list(messages)
        text = await self.render()
        return [*([{"role": "system", "content": text}] if text else []), *messages]

    def watch(self, context: Any) -> None:
        """Check the messages for requests of a context that is mounted for this session alone."""
        own = getattr(context, "get_messages_for_request", None)
        if callable(own):
            try:
                context.get_messages_for_request = self._checked(own)
            except AttributeError:
                return  # a class with slots: its methods cannot be replaced

    def begin_turn(self) -> None:
        """Forget the failure of the turn before."""
        self.failure = None

    def _checked(self, own: Callable[..., Any]) -> Callable[..., Any]:
        async def get_messages_for_request(*arguments: Any, **options: Any) -> Any:
            view = await maybe_await(own(*arguments, **options))
            await self._require([_text(message) for message in view or ()])
            return view

        return get_messages_for_request

    async def _require(self, texts: Sequence[str]) -> None:
        """Raise SystemPromptMissingError unless the prompt is in these texts of messages."""
        if any(text and any(text in one for one in texts) for text in reversed(self._rendered)):
            return
        if not (await self.render()).strip():
            return
        # In several blocks, or with other white space, it is still the same.
        together = _unspaced(texts)
        if any(text and text in together for text in map(_unspaced, self._rendered)):
            return
        if self._has_filters and together:
            return  # only the context knows what its filters make of the prompt
        self.failure = SystemPromptMissingError(
            f"context module '{_module(self._session.get('context'))}' (loop "
            f"'{_module(self._session.get('orchestrator'))}'): a request lacks the system prompt of the bundle and was "
            "not sent. The context did not keep what it was given by set_system_prompt_factory() or add_message(), or "
            "dropped it when it compacted: choose another module under session.context, such as context-simple, and "
            "report this to the author of the module"
        )
        raise self.failure


def _filters(config: Mapping[str, Any]) -> bool:
    """Return whether a context's config names filters that may rewrite the prompt."""
    return bool(config.get("instruction_filters"))


def _module(named: Any) -> str:
    return str(named.get("module") if isinstance(named, Mapping) else named)


def _unspaced(texts: str | Iterable[str]) -> str:
    return "".join("".join(texts).split())


def _text(message: Any) -> str:
    """Return the text of a message, its blocks one after the other."""
    content = message.get("content") if isinstance(message, Mapping) else getattr(message, "content", None)
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list | tuple) else ()
    found = (block.get("text") if isinstance(block, Mapping) else getattr(block, "text", None) for block in blocks)
    return "".join(text for text in found if isinstance(text, str))

"""Speak to the session a turn runs in: events, verdicts of hooks, permissions, spans, messages.

Without a coordinator (as when a test calls `execute` by itself) there are no spans and nobody to approve: hooks are
still heard, and no tool runs, since no policy allows it. A session always has one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

from amplifier_core.data import clean
from amplifier_core.models import HookResult
from amplifier_kit.awaitable import maybe_await
from amplifier_kit.engine.loop.injection import Injections, ephemeral_items
from amplifier_kit.engine.tasks import run_to_end
from amplifier_kit.guard.authorization import Permission, authorize

__all__ = ["Host", "Permission"]

logger = logging.getLogger(__name__)

_SOURCE: Final = "orchestrator"
#: Who denied, on a kernel that does not know which hook did.
_HOOKS: Final = "hooks"


class Host:
    """Stand between one turn and its session."""

    def __init__(self, context: Any, hooks: Any, coordinator: Any) -> None:
        self._context = context
        self._hooks = hooks
        self.coordinator = coordinator
        self.injections = Injections()
        #: The message that the turn itself added last.
        self.last_stored: dict[str, Any] | None = None

    # -- events --

    async def emit(self, event: str, data: dict[str, Any]) -> HookResult:
        """Emit an event and return the verdict of all handlers, as it is."""
        result = await self._hooks.emit(event, data)
        return result if isinstance(result, HookResult) else HookResult()

    def denied_by(self, verdict: HookResult) -> str | None:
        """Return the name of the hook whose deny this is, None when a person or the kernel denied."""
        find = getattr(self._hooks, "denied_by", None)
        name = find(verdict) if find is not None else _HOOKS
        return name if isinstance(name, str) else None

    def listen(self, events: Iterable[str], handler: Callable[[str, Any], None], name: str) -> Callable[[], None]:
        """Register a handler for several events; return a function that removes it."""
        register = getattr(self._hooks, "register", None)  # a stand-in for hooks may only record what is emitted
        removals = [register(event, handler, name=name) for event in events] if register is not None else []

        def remove() -> None:
            for removal in removals:
                removal()

        return remove

    async def ask(self, event: str, data: dict[str, Any]) -> HookResult:
        """Emit an event and carry out what the hooks want; ephemeral injections wait for the next request."""
        return await self.carry_out(await self.emit(event, data), event)

    async def carry_out(self, result: HookResult, event: str) -> HookResult:
        """Store, show or ask as a verdict says and return what is left of it: continue or deny.

        What fails on the way is logged. A failed question is a refusal; a failed injection is left out.
        """
        try:
            left = await self._process(result, event)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            logger.error("Could not carry out %r of a hook on %s: %s", result.action, event, error, exc_info=error)
            if result.action == "inject_context":
                return HookResult(action="continue", data=result.data)
            return HookResult(action="deny", reason=f"the verdict of a hook could not be carried out: {error}")
        self.injections.add(ephemeral_items(left, event))
        return left

    async def _process(self, result: HookResult, event: str) -> HookResult:
        process = getattr(self.coordinator, "process_hook_result", None)
        if process is not None:
            left = await process(result, event, _SOURCE)
            return left if isinstance(left, HookResult) else result
        if result.action == "ask_user":
            return HookResult(action="deny", reason="No approval system available")
        if result.action == "inject_context" and result.context_injection and not result.ephemeral:
            metadata = {"source": "hook", "event": event}
            message = {"role": result.context_injection_role, "content": result.context_injection}
            await self.store({**message, "metadata": metadata})
        return result

    @staticmethod
    def changed(sent: dict[str, Any], verdict: HookResult, key: str) -> tuple[bool, Any]:
        """Tell whether hooks changed `sent[key]`, by value, and return what it is now."""
        data = verdict.data
        if not isinstance(data, dict) or key not in data:
            return False, sent.get(key)
        if data[key] == sent.get(key) or data[key] == clean(sent.get(key)):
            return False, sent.get(key)
        return True, data[key]

    @staticmethod
    def is_seen_as_it_is(value: Any) -> bool:
        """Return whether hooks and policies see `value` unchanged; they see its JSON-clean copy."""
        return bool(clean(value) == value)

    # -- session --

    @property
    def token(self) -> Any:
        """Return the session's cancellation token, None when there is none."""
        return getattr(self.coordinator, "cancellation", None)

    @property
    def is_cancelled(self) -> bool:
        """Tell whether the session was asked to stop, sooner or at once."""
        return getattr(self.token, "is_cancelled", False) is True

    @property
    def is_cancelled_at_once(self) -> bool:
        """Tell whether the session was asked to stop at once."""
        return getattr(self.token, "is_immediate", False) is True

    @property
    def is_in_kernel_turn(self) -> bool:
        """Tell whether the kernel runs this turn, so that it reports the end of a cancellation itself."""
        return isinstance(getattr(self.coordinator, "turn_id", None), str)

    @property
    def session_state(self) -> dict[str, Any]:
        """Return the app's scratch space, an empty one when there is none."""
        state = getattr(self.coordinator, "session_state", None)
        return state if isinstance(state, dict) else {}

    def capability(self, name: str) -> Any:
        """Return what somebody offers under `name`, or None."""
        get = getattr(self.coordinator, "get_capability", None)
        return get(name) if get is not None else None

    def span(self, name: str) -> AbstractContextManager[Any]:
        """Open a span, so that the events inside carry an id of their own."""
        open_span = getattr(self.coordinator, "span", None)
        span: AbstractContextManager[Any] = open_span(name) if open_span is not None else nullcontext()
        return span

    def acting(self, mount_point: str, name: str | None = None) -> AbstractContextManager[Any]:
        """Attribute what is emitted inside to the tool, provider or context that is called there."""
        act = getattr(self.coordinator, "acting", None)
        acting: AbstractContextManager[Any] = act(mount_point, name) if act is not None else nullcontext()
        return acting

    async def authorize(self, action: str, details: dict[str, Any]) -> Permission:
        """Ask the session's policies; whatever goes wrong on the way is a refusal."""
        return await authorize(self.coordinator, action, details)

    async def store(self, message: dict[str, Any]) -> None:
        """Add a message to the context; a cancellation meanwhile is raised when the message is there."""
        await run_to_end(self.add, message)

    async def add(self, message: dict[str, Any]) -> None:
        """Add a message to the context, inside work that runs to its end anyway."""
        with self.acting("context"):
            await maybe_await(self._context.add_message(message))
        self.last_stored = message

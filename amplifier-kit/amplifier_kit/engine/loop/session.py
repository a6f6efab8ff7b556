"""The session as one turn sees it: events and hook verdicts, policies, cancellation, spans, the conversation.

Without a coordinator, as when a test calls `execute` directly, there are no spans and no approvals: hooks still run,
and tools do not, because no policy allows them.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from amplifier_core.data import clean
from amplifier_core.models import ContextInjection, HookResult
from amplifier_kit.awaitable import maybe_await
from amplifier_kit.engine.tasks import run_to_end
from amplifier_kit.guard.authorization import Permission, authorize
from amplifier_kit.reminders import reminder

logger = logging.getLogger(__name__)


class TurnSession:
    """Connect one turn to its context, hooks and coordinator."""

    def __init__(self, context: Any, hooks: Any, coordinator: Any) -> None:
        self._context = context
        self.hooks = hooks
        self.coordinator = coordinator
        #: The message that the turn itself added last.
        self.last_stored: dict[str, Any] | None = None
        self._injections: list[ContextInjection] = []

    # -- events --

    async def emit(self, event: str, data: dict[str, Any]) -> HookResult:
        """Emit an event and return the combined verdict of its handlers, without acting on it."""
        result = await self.hooks.emit(event, data)
        return result if isinstance(result, HookResult) else HookResult()

    async def emit_and_apply(self, event: str, data: dict[str, Any]) -> HookResult:
        """Emit an event and apply the verdict; return continue or deny."""
        return await self.apply(await self.emit(event, data), event)

    async def apply(self, verdict: HookResult, event: str) -> HookResult:
        """Inject, show or ask as a verdict demands; return continue or deny.

        Ephemeral injections are kept for the next request. Failures are logged: a failed question denies, a failed
        injection is left out.
        """
        try:
            remaining = await self._process(verdict, event)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            logger.error("Could not apply %r of a hook on %s: %s", verdict.action, event, error, exc_info=error)
            if verdict.action == "inject_context":
                return HookResult(action="continue", data=verdict.data)
            return HookResult(action="deny", reason=f"the verdict of a hook could not be applied: {error}")
        self._injections += ephemeral_injections(remaining, event)
        return remaining

    async def _process(self, verdict: HookResult, event: str) -> HookResult:
        process = getattr(self.coordinator, "process_hook_result", None)
        if process is not None:
            remaining = await process(verdict, event, "orchestrator")
            return remaining if isinstance(remaining, HookResult) else verdict
        if verdict.action == "ask_user":
            return HookResult(action="deny", reason="No approval system available")
        if verdict.action == "inject_context" and verdict.context_injection and not verdict.ephemeral:
            message = {"role": verdict.context_injection_role, "content": verdict.context_injection}
            await self.store({**message, "metadata": {"source": "hook", "event": event}})
        return verdict

    def hook_that_denied(self, verdict: HookResult) -> str | None:
        """Return the name of the hook that denied, None when a person or the kernel did."""
        find = getattr(self.hooks, "denied_by", None)
        name = find(verdict) if find is not None else "hooks"
        return name if isinstance(name, str) else None

    # -- injections into the next request --

    def remind(self, source: str, text: str) -> None:
        """Add a reminder of the loop to the next request."""
        self._injections.append(ContextInjection(content=reminder(text, source), role="user", ephemeral=True))

    def take_injections(self) -> list[ContextInjection]:
        """Return the injections for the next request, and forget them."""
        taken, self._injections = self._injections, []
        return taken

    # -- the coordinator --

    @property
    def cancellation(self) -> Any:
        return getattr(self.coordinator, "cancellation", None)

    @property
    def is_cancelled(self) -> bool:
        """Return whether a cancellation was requested, graceful or immediate."""
        return getattr(self.cancellation, "is_cancelled", False) is True

    @property
    def is_cancelled_immediately(self) -> bool:
        return getattr(self.cancellation, "is_immediate", False) is True

    @property
    def is_in_kernel_turn(self) -> bool:
        """Return whether the kernel runs this turn, and so reports the end of a cancellation itself."""
        return isinstance(getattr(self.coordinator, "turn_id", None), str)

    @property
    def state(self) -> dict[str, Any]:
        """Return `session_state`, the app's scratch space; an empty one if it is missing."""
        state = getattr(self.coordinator, "session_state", None)
        return state if isinstance(state, dict) else {}

    def capability(self, name: str) -> Any:
        get = getattr(self.coordinator, "get_capability", None)
        return get(name) if get is not None else None

    def span(self, name: str) -> AbstractContextManager[Any]:
        """Open a span, whose id is in all events of the block."""
        open_span = getattr(self.coordinator, "span", None)
        span: AbstractContextManager[Any] = open_span(name) if open_span is not None else nullcontext()
        return span

    def acting(self, mount_point: str, name: str | None = None) -> AbstractContextManager[Any]:
        """Attribute the events of the block to the tool, provider or context that is called in it."""
        act = getattr(self.coordinator, "acting", None)
        acting: AbstractContextManager[Any] = act(mount_point, name) if act is not None else nullcontext()
        return acting

    async def authorize(self, action: str, details: dict[str, Any]) -> Permission:
        return await authorize(self.coordinator, action, details)

    # -- the conversation --

    async def store(self, message: dict[str, Any]) -> None:
        """Add a message to the context; a cancellation meanwhile is raised when the message is there."""
        await run_to_end(self.add, message)

    async def add(self, message: dict[str, Any]) -> None:
        """Add a message to the context, inside work that runs to its end anyway."""
        with self.acting("context"):
            await maybe_await(self._context.add_message(message))
        self.last_stored = message


def changed_value(sent: dict[str, Any], verdict: HookResult, key: str) -> tuple[bool, Any]:
    """Return whether hooks changed `sent[key]`, compared by value, and its value now."""
    data, value = verdict.data, sent.get(key)
    if not isinstance(data, dict) or key not in data or data[key] == value or data[key] == clean(value):
        return False, value
    return True, data[key]


def ephemeral_injections(verdict: HookResult, event: str) -> list[ContextInjection]:
    """Return what a verdict injects into the next request only, one item per hook."""
    if verdict.action != "inject_context":
        return []
    if verdict.context_injections:
        return [item for item in verdict.context_injections if item.ephemeral and item.content]
    if not verdict.ephemeral or not verdict.context_injection:
        return []
    return [
        ContextInjection(
            content=verdict.context_injection,
            role=verdict.context_injection_role,
            ephemeral=True,
            append_to_last_tool_result=verdict.append_to_last_tool_result,
            event=event,
        )
    ]

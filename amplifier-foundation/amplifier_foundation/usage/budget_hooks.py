"""Check a session against its budget before its model and tool calls."""

from __future__ import annotations

from typing import Any, Final

from amplifier_core.events import (
    LLM_REQUEST,
    LLM_RESPONSE,
    PROVIDER_ERROR,
    PROVIDER_REQUEST,
    PROVIDER_RESPONSE,
    TOOL_PRE,
)
from amplifier_core.models import HookResult
from amplifier_core.trace import scope_of
from amplifier_foundation.usage.budget import SessionBudget

#: Before other hooks have their say: what may not be done need not be asked for.
_FIRST: Final = -1000


class BudgetWatch:
    """Listen to a session on behalf of its budget."""

    def __init__(self, budget: SessionBudget, coordinator: Any) -> None:
        self._budget = budget
        self._coordinator = coordinator
        self._hooks = coordinator.hooks
        #: Requests of the loop that are under way, by their span: whether the provider has said that it asks, and
        #: whether it has said what that used.
        self._requests: dict[Any, _Request] = {}

    def start(self) -> None:
        """Register what listens; without limits, calls are counted and nothing is checked."""
        self._listen(LLM_REQUEST, self._on_question)
        self._listen(LLM_RESPONSE, self._on_answer)
        if self._budget.is_limited:
            self._listen(PROVIDER_RESPONSE, self._on_request_ended)
            self._listen(PROVIDER_ERROR, self._on_request_ended)
            # Gates: what cannot be counted is not done.
            self._listen(PROVIDER_REQUEST, self._before_request, on_error="deny")
            self._listen(TOOL_PRE, self._before_tool, on_error="deny")

    def is_granted(self) -> bool:
        """Tell whether the loop has the turn for what is asked now: the provider asks in the span of its request."""
        scope = scope_of(self._coordinator)
        request = self._requests.get(scope.span_id) if scope is not None and scope.span_id is not None else None
        return request is not None and request.is_granted

    def _listen(self, event: str, handler: Any, **options: Any) -> None:
        self._hooks.register(event, handler, priority=_FIRST, name="app-budget", **options)

    async def _before_request(self, event: str, data: dict[str, Any]) -> HookResult:
        reason = await self._budget.claim("turns")
        if reason is None:
            self._requests[data.get("span_id")] = _Request()
        return await self._verdict(reason)

    async def _before_tool(self, event: str, data: dict[str, Any]) -> HookResult:
        # With an input that a person has changed, it is the same call again.
        reason = self._budget.check() if data.get("edits") else await self._budget.claim("tool_calls")
        return await self._verdict(reason)

    async def _on_question(self, event: str, data: dict[str, Any]) -> None:
        """Count a question that the loop has not asked for: of a hook or a tool, or one more for the same request.

        One too many is refused by the provider, which asks the budget before every attempt.
        """
        request = self._requests.get(data.get("span_id"))
        if request is None:
            await self._budget.claim("turns")
        elif request.is_asked:
            request.is_granted = await self._budget.claim("turns") is None
        else:
            request.is_asked = True

    async def _on_answer(self, event: str, data: dict[str, Any]) -> None:
        """Announce limits that the answer, which the account has counted, came near to."""
        request = self._requests.get(data.get("span_id"))
        if request is not None:
            request.is_answered = True
        await self._tell()

    def _on_request_ended(self, event: str, data: dict[str, Any]) -> None:
        """Count the answer of a provider that emits no events."""
        request = self._requests.pop(data.get("span_id"), None)
        if request is not None and not request.is_answered and event == PROVIDER_RESPONSE:
            self._budget.add_usage(data.get("usage"))

    async def _verdict(self, reason: str | None) -> HookResult:
        await self._tell()
        return HookResult(action="continue") if reason is None else HookResult(action="deny", reason=reason)

    async def _tell(self) -> None:
        for event, payload in self._budget.news():
            await self._hooks.emit(event, payload)


class _Request:
    """What is known of a request that is under way."""

    __slots__ = ("is_answered", "is_asked", "is_granted")

    def __init__(self) -> None:
        #: Whether what is asked last was counted: one too many is not.
        self.is_granted = True
        self.is_asked = False
        self.is_answered = False

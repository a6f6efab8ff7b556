"""Let a provider of the published kind answer what the kernel asks."""

from __future__ import annotations

import asyncio
from typing import Any
from weakref import WeakKeyDictionary

from amplifier_core.approval import ApprovalTimeoutError
from amplifier_core.models import HookResult
from amplifier_module_hooks_approval._policy import risk_of
from amplifier_module_hooks_approval._provider import ProviderDesk, Question


class KernelBridge:
    """Be the approval system of a session whose app has none but registers a provider.

    The kernel asks with a sentence; what it is about is in the event before, which it emits in the same task.
    """

    def __init__(self, coordinator: Any, desk: ProviderDesk) -> None:
        self._coordinator = coordinator
        self._desk = desk
        self._asked: WeakKeyDictionary[asyncio.Task[Any], Question] = WeakKeyDictionary()
        self._answered: WeakKeyDictionary[asyncio.Task[Any], str] = WeakKeyDictionary()

    def register_provider(self, provider: Any) -> None:
        """Let `provider` answer, None for nobody; an approval system that the app has brought is asked instead.

        One question is asked once: never of both. Raises TypeError for what cannot be asked.
        """
        self._desk.register(provider)
        self.connect()

    def connect(self) -> None:
        """Be the approval system while there is a provider and the app has no approval system."""
        current = getattr(self._coordinator, "approval_system", None)
        if self._desk.has_provider and current is None:
            self._coordinator.approval_system = self
        elif not self._desk.has_provider:
            self.disconnect()

    def disconnect(self) -> None:
        """Leave the place that was taken, unless somebody else has it by now."""
        if getattr(self._coordinator, "approval_system", None) is self:
            self._coordinator.approval_system = None

    def on_required(self, event: str, data: dict[str, Any]) -> None:
        """Keep what the next question of this task is about."""
        task = asyncio.current_task()
        details = data.get("details")
        if task is not None:
            about = details if isinstance(details, dict) else {}
            self._answered.pop(task, None)  # of a question that a hook has put by itself
            self._asked[task] = Question(str(data.get("action")), about, str(data.get("reason")))

    def on_decided(self, event: str, data: dict[str, Any]) -> HookResult | None:
        """Forget what was asked, and let the log say what kind of answer it was: silence may count as a yes."""
        task = asyncio.current_task()
        if task is None:
            return None
        self._asked.pop(task, None)
        kind = self._answered.pop(task, None)
        if kind is None or data.get("source") != "approval_system":
            return None
        return HookResult(action="modify", data={**data, "answered_by": {"kind": kind}})

    async def request_approval(self, prompt: str, options: list[str], timeout: float, default: str) -> str:
        """Return `Allow`, or `Deny` with the reason; raise ApprovalTimeoutError when silence means no."""
        answer = await self._desk.ask(self._about(prompt))
        if (task := asyncio.current_task()) is not None:
            self._answered[task] = answer.kind
        if answer.is_granted:
            return next((option for option in options if option.strip().lower() == "allow"), "Allow")
        if answer.is_timeout:
            raise ApprovalTimeoutError(answer.reason)
        return f"Deny: {answer.reason}"

    def _about(self, prompt: str) -> Question:
        """Return what is asked; a hook that asks by itself has only its sentence."""
        task = asyncio.current_task()
        asked = self._asked.pop(task, None) if task is not None else None
        if asked is not None and prompt == f"Allow {asked.action}? {asked.reason}":
            return asked
        return Question("hook.ask", {"prompt": prompt}, prompt)


def with_published_keys(event: str, data: dict[str, Any]) -> HookResult | None:
    """Add to the kernel's report of a decision what hooks written for the published module look for."""
    details = data.get("details")
    name = details.get("tool_name") if isinstance(details, dict) else None
    if not isinstance(name, str) or "tool_name" in data:
        return None
    return HookResult(
        action="modify", data={**data, "tool_name": name, "risk_level": risk_of(str(data.get("action")), name)}
    )

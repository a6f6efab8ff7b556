"""Let a provider of the published kind answer what the kernel asks."""

from __future__ import annotations

from typing import Any

from amplifier_core import ApprovalRequest, ApprovalResponse
from amplifier_core.approval import ApprovalHandler, ApprovalTimeoutError
from amplifier_core.models import HookResult
from amplifier_module_hooks_approval._policy import risk_of
from amplifier_module_hooks_approval._provider import ProviderDesk, Question


class KernelBridge(ApprovalHandler):
    """Be the approval system of a session whose app has none but registers a provider."""

    def __init__(self, coordinator: Any, desk: ProviderDesk) -> None:
        self._coordinator = coordinator
        self._desk = desk

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
        """Leave the place that was taken, unless another approval system has it by now."""
        if getattr(self._coordinator, "approval_system", None) is self:
            self._coordinator.approval_system = None

    async def decide(self, request: ApprovalRequest) -> ApprovalResponse:
        """Return the provider's answer; raise ApprovalTimeoutError when silence means no."""
        question = Question(request.action, request.details, request.reason or request.prompt or "", request)
        answer = await self._desk.ask(question)
        if answer.is_timeout and not answer.is_granted:
            raise ApprovalTimeoutError(answer.reason)
        said = "Allow" if answer.is_granted else f"Deny: {answer.reason}"
        return ApprovalResponse(approved=answer.is_granted, answer=said, answered_by={"kind": answer.kind})


def with_published_keys(event: str, data: dict[str, Any]) -> HookResult | None:
    """Add to the kernel's report of a decision what hooks written for the published module look for."""
    details = data.get("details")
    name = details.get("tool_name") if isinstance(details, dict) else None
    if not isinstance(name, str) or "risk_level" in data:
        return None
    return HookResult(
        action="modify", data={**data, "tool_name": name, "risk_level": risk_of(str(data.get("action")), name)}
    )

"""Let a published approval provider answer the kernel's approval requests."""

from __future__ import annotations

from typing import Any

from amplifier_core import ApprovalRequest, ApprovalResponse
from amplifier_core.approval import ApprovalHandler, ApprovalTimeoutError
from amplifier_core.models import HookResult
from amplifier_module_hooks_approval.policy import risk_of
from amplifier_module_hooks_approval.provider import ProviderClient, Question


class KernelBridge(ApprovalHandler):
    """The approval system of a session whose app has none but registers a provider."""

    def __init__(self, coordinator: Any, provider: ProviderClient) -> None:
        self._coordinator = coordinator
        self._provider = provider

    def register_provider(self, provider: Any) -> None:
        """Register a provider, None to remove it; an approval system of the app is asked instead of it.

        A request is put to one of them only. Raises TypeError for an object without `request_approval`.
        """
        self._provider.register(provider)
        self.connect()

    def connect(self) -> None:
        """Become the approval system when a provider is registered and the app has no approval system."""
        current = getattr(self._coordinator, "approval_system", None)
        if self._provider.has_provider and current is None:
            self._coordinator.approval_system = self
        elif not self._provider.has_provider:
            self.disconnect()

    def disconnect(self) -> None:
        """Stop being the approval system, unless another one has taken over."""
        if getattr(self._coordinator, "approval_system", None) is self:
            self._coordinator.approval_system = None

    async def decide(self, request: ApprovalRequest) -> ApprovalResponse:
        """Return the provider's answer; raise ApprovalTimeoutError when a timeout denies."""
        question = Question(request.action, request.details, request.reason or request.prompt or "", request)
        answer = await self._provider.ask(question)
        if answer.is_timeout and not answer.is_granted:
            raise ApprovalTimeoutError(answer.reason)
        said = "Allow" if answer.is_granted else f"Deny: {answer.reason}"
        return ApprovalResponse(approved=answer.is_granted, answer=said, answered_by={"kind": answer.kind})


def add_published_keys(event: str, data: dict[str, Any]) -> HookResult | None:
    """Add the keys that hooks written for the published module expect in approval events."""
    details = data.get("details")
    name = details.get("tool_name") if isinstance(details, dict) else None
    if not isinstance(name, str) or "risk_level" in data:
        return None
    return HookResult(
        action="modify", data={**data, "tool_name": name, "risk_level": risk_of(str(data.get("action")), name)}
    )

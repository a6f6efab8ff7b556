"""Decide on `tool:pre` about tool calls whose loop does not ask the kernel itself."""

from __future__ import annotations

import json
import logging
import sys
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

from amplifier_core.events import APPROVAL_DENIED, APPROVAL_GRANTED, APPROVAL_REQUIRED
from amplifier_core.models import HookResult
from amplifier_kit.guard.authorization import action_of, kernel_has_policies, question_of
from amplifier_module_hooks_approval.policy import ApprovalPolicy, risk_of
from amplifier_module_hooks_approval.provider import Answer, ProviderClient, Question

logger = logging.getLogger(__name__)

NAME: Final = "approval_hook"
_MAX_GRANTS: Final = 1000
#: Set to True by a loop that calls `coordinator.authorize` for every call, after `tool:pre`.
MARK: Final = "authorizes_calls"


class ToolGate:
    """Decide about tool calls on `tool:pre`, and again when another hook has changed the input since."""

    def __init__(self, coordinator: Any, policy: ApprovalPolicy, provider: ProviderClient) -> None:
        self._coordinator = coordinator
        self._policy = policy
        self._provider = provider
        self._granted: OrderedDict[str, None] = OrderedDict()

    async def on_tool_pre(self, event: str, data: Any) -> HookResult | None:
        """Allow or deny a call; any failure denies."""
        return await self._decide_or_deny(data, is_last=False)

    async def on_tool_pre_last(self, event: str, data: Any) -> HookResult | None:
        """Allow a call that was granted as it is now; decide again when it was changed."""
        return await self._decide_or_deny(data, is_last=True)

    async def _decide_or_deny(self, data: Any, *, is_last: bool) -> HookResult | None:
        try:
            if self._is_left_to_loop(data):
                return None
            key = _key(data)
            if is_last and key in self._granted:
                del self._granted[key]
                return None
            answer = await self._decide(data)
            if answer.is_granted:
                if not is_last:
                    self._remember_grant(key)
                return None
            return HookResult(action="deny", reason=answer.reason)
        except Exception as error:
            logger.error("hooks-approval: a call could not be decided: %r", error, exc_info=error)
            return HookResult(action="deny", reason=f"approval failed: {error or type(error).__name__}")

    def _remember_grant(self, key: str) -> None:
        self._granted[key] = None
        while len(self._granted) > _MAX_GRANTS:
            self._granted.popitem(last=False)

    def _is_left_to_loop(self, data: Any) -> bool:
        """Return whether the loop asks the kernel itself, about the input as it will run: nothing is asked twice.

        Events of the first-party loops have a `tool_call_id`; those without one come from elsewhere.
        """
        if not hasattr(self._coordinator, "authorize") or not isinstance(data, Mapping) or not data.get("tool_call_id"):
            return False
        loop = self._coordinator.get("orchestrator")
        if getattr(loop, MARK, None) is True:
            return True
        kit = sys.modules.get("amplifier_kit.engine.loop.turn")
        return kit is not None and isinstance(loop, kit.TurnLoop)

    async def _decide(self, data: Mapping[str, Any]) -> Answer:
        name, given = data.get("tool_name"), data.get("tool_input")
        if not isinstance(name, str) or not isinstance(given, Mapping):
            return Answer(False, "the call has no tool name or no input")
        tool = (self._coordinator.get("tools") or {}).get(name)
        action = action_of(tool, name, given)
        details = question_of(tool, {**data, "tool_input": dict(given)})
        authorize = getattr(self._coordinator, "authorize", None)
        if authorize is not None:
            permission = await authorize(action, details)
            return Answer(permission.granted is True, str(permission.reason))
        if kernel_has_policies():
            return Answer(False, "the session cannot be asked: its coordinator has no authorize()")
        return await self._decide_without_kernel(action, name, details)

    async def _decide_without_kernel(self, action: str, name: str, details: dict[str, Any]) -> Answer:
        """Decide on a kernel without policies, and emit the published events."""
        opinion = self._policy.judge(action, details)
        if opinion.verdict is None:
            return Answer(True, "no approval needed")
        if opinion.verdict == "ask":
            required = {"tool_name": name, "action": action, "risk_level": risk_of(action, name)}
            heard = await self._coordinator.hooks.emit(APPROVAL_REQUIRED, required)
            if getattr(heard, "action", None) == "deny":
                answer = Answer(False, heard.reason or f"a hook denied {APPROVAL_REQUIRED}")
            else:
                answer = await self._provider.ask(Question(action, details, opinion.reason))
        else:
            answer = Answer(opinion.verdict == "allow", opinion.reason)
        outcome = APPROVAL_GRANTED if answer.is_granted else APPROVAL_DENIED
        await self._coordinator.hooks.emit(outcome, {"tool_name": name, "reason": answer.reason})
        return answer


def _key(data: Any) -> str:
    """Return a key that is equal for the same call with the same input."""
    call = [data.get(key) for key in ("tool_call_id", "parallel_group_id", "tool_name", "tool_input")]
    return json.dumps(call, sort_keys=True, default=repr)

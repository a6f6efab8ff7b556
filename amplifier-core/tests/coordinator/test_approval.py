"""What process_hook_result does when a hook wants a person to be asked."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from amplifier_core import HookResult, ModuleCoordinator
from amplifier_core.approval import ApprovalTimeoutError


class Approval:
    """Answer every question the same way, at once or later."""

    def __init__(self, answer: Any, *, later: bool = False) -> None:
        self.answer = answer
        self.later = later
        self.asked: list[tuple[Any, ...]] = []

    def request_approval(self, *arguments: Any) -> Any:
        self.asked.append(arguments)
        return self._later() if self.later else self._now()

    def _now(self) -> Any:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer

    async def _later(self) -> Any:
        await asyncio.sleep(0)
        return self._now()


async def ask(approval: Any, **fields: Any) -> HookResult:
    """Process a result that asks, with that approval system."""
    kernel = ModuleCoordinator(None, approval)
    return await kernel.process_hook_result(HookResult(action="ask_user", **fields), "tool:pre", "gate")


async def test_timeout_is_not_a_refusal() -> None:
    """A timeout is never reported as a refusal by a person."""
    verdict = await ask(Approval(ApprovalTimeoutError()))

    assert verdict.reason is not None
    assert "User denied" not in verdict.reason


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("error", [OSError("gone"), TimeoutError("not ours"), KeyboardInterrupt()])
async def test_other_faults_propagate(error: BaseException, later: bool) -> None:
    """What the approval system raises reaches the caller as it is."""
    with pytest.raises(type(error)):
        await ask(Approval(error, later=later))

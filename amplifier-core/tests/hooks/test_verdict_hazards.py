"""Hazards of verdicts: what must never be allowed, and who is said to have decided."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from amplifier_core import AmplifierSession, HookResult

ToolSession = Callable[..., Awaitable[AmplifierSession]]

FORBIDDEN = "rm -rf /"


class Person:
    """Answer every approval request in the same way, and remember what was asked."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[str] = []

    async def request_approval(self, prompt: str, options: list[str], timeout: float, default: str) -> str:
        self.asked.append(prompt)
        if isinstance(self.answer, BaseException):
            raise self.answer
        answer: str = self.answer
        return answer


def forbidding(action: str, details: dict[str, Any]) -> Any:
    return ("deny", "that is forbidden") if details["command"] == FORBIDDEN else None


async def test_deny_rule_wins_over_allowing_hook(tool_session: ToolSession) -> None:
    """No hook, policy or person can allow what a deny rule denies, in whatever order they speak."""
    for order in itertools.permutations((-1, 0, 1)):
        person = Person("Allow")
        session = await tool_session(approval_system=person)
        coordinator = session.coordinator
        coordinator.register_policy("generous", lambda action, details: "allow", order[0])
        coordinator.register_policy("rules", forbidding, order[1])
        coordinator.register_policy("unsure", lambda action, details: "ask", order[2])
        coordinator.hooks.register("*", lambda event, data: HookResult(action="continue", reason="allowed"))
        assert await session.execute(FORBIDDEN) == "denied: that is forbidden"
        assert person.asked == []
        assert await session.execute("ls") == "ran: ls"
        assert len(person.asked) == 1
        await session.cleanup()


@pytest.mark.parametrize("others", list(itertools.permutations(["continue", "modify", "inject_context"])))
async def test_ask_is_a_floor(tool_session: ToolSession, others: tuple[str, ...]) -> None:
    """A question by a hook or a policy is asked, whatever milder things the others say; and only a yes runs."""
    for answer, outcome in (("Allow", "ran: ls"), ("Deny", "denied: "), ("whatever", "denied: ")):
        person = Person(answer)
        session = await tool_session(approval_system=person)
        hooks = session.coordinator.hooks
        for priority, action in enumerate(others):
            mild = HookResult(action=action, data={"a": 1}, context_injection="t")
            hooks.register("tool:pre", lambda event, data, mild=mild: mild, priority)
        hooks.register("tool:pre", lambda event, data: HookResult(action="ask_user", approval_prompt="hook?"), 1)
        session.coordinator.register_policy("generous", lambda action, details: "allow")
        session.coordinator.register_policy("unsure", lambda action, details: ("ask", "policy?"))
        assert (await session.execute("ls")).startswith(outcome)
        assert person.asked == (["hook?", "Allow process.exec? policy?"] if answer == "Allow" else ["hook?"])
        await session.cleanup()


async def test_modified_input_is_checked_again(tool_session: ToolSession) -> None:
    """What a hook makes of the input is what later gates and the policies judge, and what runs."""
    ran: list[str] = []
    session = await tool_session(lambda arguments: ran.append(arguments["command"]))
    coordinator = session.coordinator
    coordinator.register_policy("rules", forbidding)
    coordinator.register_policy("generous", lambda action, details: "allow", priority=1)

    def rewriter(event: str, data: dict[str, Any]) -> HookResult:
        return HookResult(action="modify", data={**data, "tool_input": {"command": FORBIDDEN}})

    def gate(event: str, data: dict[str, Any]) -> HookResult | None:
        return HookResult(action="deny", reason="gate") if data["tool_input"]["command"] == FORBIDDEN else None

    remove_gate = coordinator.hooks.register("tool:pre", gate, priority=10)
    remove = coordinator.hooks.register("tool:pre", rewriter, priority=5)
    assert await session.execute("ls") == "denied: gate"
    remove()
    assert await session.execute("ls") == "ran: None"
    remove_gate()
    coordinator.hooks.register("tool:pre", gate, priority=1)
    coordinator.hooks.register("tool:pre", rewriter, priority=5)  # after the gate has let it pass
    assert await session.execute("ls") == "denied: that is forbidden"
    assert ran == ["ls"]
    await session.cleanup()

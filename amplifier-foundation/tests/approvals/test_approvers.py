"""Approvers one after the other: the first who decides has decided, and nobody's silence is a yes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_core import AmplifierSession
from amplifier_foundation.approvals.approvers import Approver, Approvers, escalation


class _Saying:
    """Give one answer, and remember that it was asked."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.was_asked = False

    async def request_approval(self, prompt: str, options: list[str], timeout: float, default: Any) -> str:
        self.was_asked = True
        if isinstance(self.answer, Exception):
            raise self.answer
        return str(self.answer)


async def _asked(*answers: Any) -> tuple[Any, list[dict[str, Any]], list[_Saying]]:
    """Ask a real kernel for something that needs a person; return what came of it."""
    session = AmplifierSession({"session": {"orchestrator": "loop-basic", "context": "context-simple"}})
    coordinator, told = session.coordinator, []
    coordinator.register_policy("rules", lambda action, details: ("ask", "because"))
    coordinator.hooks.register("approval:escalated", lambda event, data: told.append(data), name="test")
    systems = [_Saying(answer) for answer in answers]
    Approvers([Approver(f"number {index}", system) for index, system in enumerate(systems)]).connect(coordinator)
    return await coordinator.authorize("process.exec", {}), told, systems


_ANSWERS = st.sampled_from(["Allow", "Deny", "Deny: no", "Escalate", "escalate: ask her", "", "perhaps", OSError("x")])


@given(st.lists(_ANSWERS, max_size=5))
async def test_first_who_decides_has_decided(answers: list[Any]) -> None:
    """Whatever they answer: granted is what the first one allows that did not pass it on, and nobody after is asked."""
    decision, told, systems = await _asked(*answers)
    passing_on = ("Escalate", "escalate: ask her")
    passed = next((n for n, answer in enumerate(answers) if answer not in passing_on), len(answers))
    assert decision.granted is (passed < len(answers) and answers[passed] == "Allow")
    assert [system.was_asked for system in systems] == [n <= passed for n in range(len(answers))]
    assert [one["from"] for one in told] == [f"number {n}" for n in range(passed)]


async def test_log_says_who_left_it_to_whom() -> None:
    """The event names both, the question and the reason; the last one leaves it to nobody, which is a no."""
    decision, told, _ = await _asked("Escalate: too much for me", "Escalate")
    assert not decision.granted
    assert [(one["from"], one["to"], one["reason"]) for one in told] == [
        ("number 0", "number 1", "too much for me"),
        ("number 1", None, ""),
    ]
    assert told[0]["question"] == "Allow process.exec? because"


@pytest.mark.parametrize(
    "answer",
    ["Escalated", "Escalate now", "Allow: escalate", "Deny: Escalate", "Allow", "Deny", "perhaps", "", None, 1],
)
def test_other_words_are_no_escalation(answer: object) -> None:
    """Only the word itself passes a decision on."""
    assert escalation(answer) is None

"""In every loop of ours, only a clear yes of a provider of the published kind runs a command that needs one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from amplifier_core import ApprovalResponse, HookResult
from amplifier_core.approval import ApprovalTimeoutError

LOOPS = ("loop-basic", "loop-streaming", "loop-events")
MAKE = [("bash", {"command": "make all"})]
CONFIG = {"rules": [{"pattern": "rm*", "action": "auto_deny"}], "default_timeout": 0.005}
YES = ApprovalResponse(approved=True)
NO_ANSWERS: list[Any] = [
    *(ApprovalResponse(approved=False), None, True, 1, "Allow", "yes", {"approved": True}, Ellipsis),
    *(RuntimeError("broken"), TimeoutError(), asyncio.CancelledError(), ApprovalTimeoutError("late"), "hang"),
]


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("answer", NO_ANSWERS, ids=repr)
async def test_what_is_no_yes_runs_nothing(run: Any, person: Any, loop: str, answer: Any) -> None:
    """Whatever else a provider does, the call is denied, once, with a reason."""
    somebody = person(answer)
    outcome = await run("our loop", CONFIG, MAKE, person=somebody, session={"orchestrator": loop})
    assert outcome.ran == []
    assert len(somebody.asked) == 1
    [denied] = outcome.payloads("approval:denied")
    assert denied["details"]["tool_input"] == MAKE[0][1]
    assert denied["reason"]
    assert outcome.payloads("approval:granted") == []


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("default", ["allow", "approve", "deny", None, "maybe", True])
async def test_silence_is_what_the_config_says(run: Any, person: Any, loop: str, default: Any) -> None:
    """A published config whose default allows keeps doing so when nobody answers in time; nothing else does."""
    config = {**CONFIG, "default_action": default}
    outcome = await run("our loop", config, MAKE, person=person("hang"), session={"orchestrator": loop})
    assert outcome.ran == (MAKE if default in ("allow", "approve") and default is not True else [])


@pytest.mark.parametrize("loop", LOOPS)
async def test_a_yes_runs_what_was_asked_about(run: Any, person: Any, loop: str) -> None:
    """A clear yes runs the command as the provider has seen it, and the events say so."""
    somebody = person(YES)
    outcome = await run("our loop", CONFIG, MAKE, person=somebody, session={"orchestrator": loop})
    assert outcome.ran == MAKE
    assert [request.details["tool_input"] for request in somebody.asked] == [MAKE[0][1]]
    [granted] = outcome.payloads("approval:granted")
    assert (granted["source"], granted["details"]["tool_input"]) == ("approval_system", MAKE[0][1])


@pytest.mark.parametrize("loop", LOOPS)
async def test_no_yes_lifts_a_deny(run: Any, person: Any, changing: Any, loop: str) -> None:
    """What a rule denies is not asked about, also when a hook has made it so."""
    somebody = person(YES)
    turned = changing({"command": "rm -rf x"})
    outcome = await run("our loop", CONFIG, MAKE, person=somebody, prepare=turned, session={"orchestrator": loop})
    assert (outcome.ran, somebody.asked) == ([], [])
    [violation] = outcome.payloads("policy:violation")
    assert violation["source"] == "hooks-approval"


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize(("answer", "is_run"), [(YES, True), *((answer, False) for answer in NO_ANSWERS)], ids=repr)
async def test_the_question_of_a_hook_needs_a_yes(run: Any, person: Any, loop: str, answer: Any, is_run: bool) -> None:
    """A hook that asks by itself asks the provider too, about a tool that a rule would let through."""

    def asking(coordinator: Any) -> None:
        coordinator.hooks.register("tool:pre", lambda event, data: HookResult(action="ask_user"), priority=50)

    config = {**CONFIG, "rules": [{"pattern": "make*", "action": "auto_approve"}]}
    outcome = await run("our loop", config, MAKE, person=person(answer), prepare=asking, session={"orchestrator": loop})
    assert outcome.ran == (MAKE if is_run else [])

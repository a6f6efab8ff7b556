"""What process_hook_result does when a hook wants a person to be asked."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
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


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("answer", ["allow", "Allow", "ALLOW", "allow once", "Allow Once", "Allow always"])
async def test_consent_continues(answer: str, later: bool) -> None:
    """A yes in any case, given at once or later, lets the operation continue."""
    assert await ask(Approval(answer, later=later)) == HookResult(action="continue")


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("answer", ["deny", "Deny", "no", "", "yes", "allowed", "allow everything", " allow"])
async def test_everything_else_denies(answer: str, later: bool) -> None:
    """Any other text is a no, with the prompt in the reason."""
    verdict = await ask(Approval(answer, later=later), approval_prompt="Delete it?")

    assert verdict == HookResult(action="deny", reason="User denied: Delete it?")


@pytest.mark.parametrize(("answer", "warned"), [("Deny", False), ("maybe", True)])
async def test_an_unexpected_answer_is_warned_about(
    answer: str, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """An answer that is neither yes nor no is worth a warning, a plain no is not."""
    with caplog.at_level(logging.WARNING):
        await ask(Approval(answer))

    assert bool(caplog.records) is warned


async def test_nobody_to_ask_denies() -> None:
    """Without an approval system the answer is no."""
    assert await ask(None) == HookResult(action="deny", reason="No approval system available")


async def test_the_question_is_asked_by_position() -> None:
    """Prompt, options, timeout and default reach the approval system as the hook set them."""
    approval = Approval("Allow")
    await ask(
        approval,
        approval_prompt="Sure?",
        approval_options=["Yes", "No"],
        approval_timeout=12.5,
        approval_default="allow",
    )

    assert approval.asked == [("Sure?", ["Yes", "No"], 12.5, "allow")]


async def test_the_question_has_defaults() -> None:
    """A hook that only asks gets the default prompt, options, timeout and default."""
    approval = Approval("Allow")
    await ask(approval)

    assert approval.asked == [("Allow this operation?", ["Allow", "Deny"], 300.0, "deny")]


async def test_an_empty_prompt_is_the_hooks_own_choice() -> None:
    """Defaults stand in for what is missing, not for what is empty."""
    approval = Approval("Allow")
    await ask(approval, approval_prompt="", approval_options=[])

    assert approval.asked == [("", [], 300.0, "deny")]


async def test_the_default_options_cannot_be_spoilt() -> None:
    """An approval system that edits its options does not change the next question."""
    first, second = Approval("Allow"), Approval("Allow")
    await ask(first)
    first.asked[0][1].clear()
    await ask(second)

    assert second.asked[0][1] == ["Allow", "Deny"]


@pytest.mark.parametrize("later", [False, True])
async def test_a_timeout_follows_the_default(later: bool) -> None:
    """Nobody answered: the hook's default decides, and the reason says it was a timeout."""
    approval = Approval(ApprovalTimeoutError("late"), later=later)

    assert await ask(approval, approval_default="allow") == HookResult(action="continue")
    assert await ask(approval, approval_prompt="Sure?", approval_default="deny") == HookResult(
        action="deny", reason="Approval timeout - denied by default: Sure?"
    )


async def test_timeout_is_not_a_refusal() -> None:
    """A timeout is never reported as a refusal by a person."""
    verdict = await ask(Approval(ApprovalTimeoutError()))

    assert verdict.reason is not None
    assert "User denied" not in verdict.reason


@pytest.mark.parametrize("answer", [None, 5, True, b"allow", ["allow"]])
async def test_an_answer_must_be_text(answer: Any) -> None:
    """An approval system that answers with anything else is broken, and that is no consent."""
    with pytest.raises(TypeError, match=f"string, got {type(answer).__name__}"):
        await ask(Approval(answer))


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("error", [OSError("gone"), TimeoutError("not ours"), KeyboardInterrupt()])
async def test_other_faults_propagate(error: BaseException, later: bool) -> None:
    """What the approval system raises reaches the caller as it is."""
    with pytest.raises(type(error)):
        await ask(Approval(error, later=later))


@pytest.mark.parametrize(("length", "shown"), [(200, "p" * 200), (201, "p" * 200 + "...[truncated]")])
async def test_long_prompts_are_cut_in_reasons(length: int, shown: str, caplog: pytest.LogCaptureFixture) -> None:
    """The person sees the whole prompt; reasons and logs show at most 200 characters of it."""
    prompt = "p" * length
    for answer, start in (("no", "User denied"), (ApprovalTimeoutError(), "Approval timeout - denied by default")):
        approval = Approval(answer)
        with caplog.at_level(logging.DEBUG):
            verdict = await ask(approval, approval_prompt=prompt)
        assert approval.asked[0][0] == prompt
        assert verdict.reason == f"{start}: {shown}"
    assert "p" * 201 not in caplog.text


async def test_asking_does_nothing_else() -> None:
    """A result that asks injects nothing and shows nothing."""
    shown: list[Any] = []
    stored: list[Any] = []
    display = SimpleNamespace(show_message=lambda *arguments: shown.append(arguments))
    kernel = ModuleCoordinator(None, Approval("Allow"), display)
    kernel.mount_points["context"] = SimpleNamespace(add_message=stored.append)
    result = HookResult(action="ask_user", context_injection="text", user_message="look")

    assert await kernel.process_hook_result(result, "e", "h") == HookResult(action="continue")
    assert (shown, stored, kernel._current_turn_injections) == ([], [], 0)


async def test_every_question_is_asked_again() -> None:
    """No answer is remembered: "always" is for the app to keep."""
    approval = Approval("Allow always")
    await ask(approval)
    await ask(approval)

    assert len(approval.asked) == 2

"""The log says what kind of answer a decision came from: silence that counts as a yes is nobody's word."""

from __future__ import annotations

from typing import Any

import pytest

MAKE = [("bash", {"command": "make all"})]
KERNEL_WORLDS = ("our loop", "published loop")


def kinds(outcome: Any) -> list[tuple[str, Any]]:
    """Return every decision, and what kind of answer it came from."""
    decisions = [(name, data) for name, data in outcome.events if name in ("approval:granted", "approval:denied")]
    return [(name.removeprefix("approval:"), data.get("answered_by")) for name, data in decisions]


@pytest.mark.parametrize("kernel", KERNEL_WORLDS)
async def test_a_provider_that_answers(run: Any, kernel: str, person: Any, yes: Any, no: Any) -> None:
    """A yes and a no of the provider are its own."""
    granted = await run(kernel, {"rules": []}, MAKE, person=person(yes))
    denied = await run(kernel, {"rules": []}, MAKE, person=person(no))
    assert kinds(granted) == [("granted", {"kind": "provider"})]
    assert kinds(denied) == [("denied", {"kind": "provider"})]


@pytest.mark.parametrize("kernel", KERNEL_WORLDS)
async def test_silence_that_counts_as_a_yes(run: Any, kernel: str, person: Any) -> None:
    """With `default_action: allow` the call runs, and the log says that nobody has answered."""
    config = {"rules": [], "default_action": "allow", "default_timeout": 0.01}
    outcome = await run(kernel, config, MAKE, person=person("hang"))
    assert outcome.ran == MAKE
    assert kinds(outcome) == [("granted", {"kind": "timeout"})]


async def test_an_answer_that_was_given_before(run: Any, person: Any) -> None:
    """The second of two equal calls is granted by what the provider wanted remembered."""
    from amplifier_core import ApprovalResponse

    somebody = person(ApprovalResponse(approved=True, remember=True))
    outcome = await run("published loop", {"rules": []}, [*MAKE, *MAKE], person=somebody)  # one after the other
    assert len(somebody.asked) == 1
    assert [by["kind"] for _, by in kinds(outcome)] == ["provider", "remembered"]


@pytest.mark.parametrize("kernel", KERNEL_WORLDS)
@pytest.mark.parametrize("answer", [OSError("gone"), "yes", None])
async def test_an_answer_that_is_none(run: Any, kernel: str, person: Any, answer: Any) -> None:
    """A provider that raises or talks nonsense has failed."""
    outcome = await run(kernel, {"rules": []}, MAKE, person=person(answer))
    assert kinds(outcome) == [("denied", {"kind": "failure"})]


@pytest.mark.parametrize("kernel", KERNEL_WORLDS)
async def test_a_hooks_own_question_is_not_the_answer_to_the_next(run: Any, kernel: str, person: Any, yes: Any) -> None:
    """Who said yes to a hook has not thereby decided what a rule decides."""
    from amplifier_core import HookResult

    def asking(coordinator: Any) -> None:
        coordinator.hooks.register("tool:pre", lambda event, data: HookResult(action="ask_user"), priority=-500)

    rules = [{"pattern": "*", "action": "auto_approve"}]
    somebody = person(yes)
    outcome = await run(kernel, {"rules": rules}, MAKE, person=somebody, prepare=asking)
    assert len(somebody.asked) == 1
    assert sorted((name, by["kind"]) for name, by in kinds(outcome)) == [("granted", "provider"), ("granted", "rule")]


@pytest.mark.parametrize("kernel", KERNEL_WORLDS)
@pytest.mark.parametrize(("action", "decided"), [("auto_approve", "granted"), ("auto_deny", "denied")])
async def test_a_rule_of_the_config(run: Any, kernel: str, person: Any, yes: Any, action: str, decided: str) -> None:
    """What a rule decides by itself names the rule and where it stands, whatever its reason says."""
    rules = [{"pattern": "ls", "action": "auto_approve"}, {"pattern": "make*", "action": action, "description": "so"}]
    outcome = await run(kernel, {"rules": rules}, MAKE, person=person(yes))
    ((name, by),) = kinds(outcome)
    assert name == decided
    assert (by["kind"], by["scope"], by["where"]) == ("rule", "bundle", "hooks-approval: rules[1]")
    assert 'command "make*"' in by["rule"]

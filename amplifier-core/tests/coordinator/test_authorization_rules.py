"""What authorization promises for every mix of policies, and how it treats those who misuse it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_core import AmplifierSession, ModuleCoordinator
from amplifier_core.authorization import Authorization, Opinion, decide

ANSWERS = st.lists(st.sampled_from(["allow", "deny", "ask", None, "nonsense", "raises"]), max_size=6)


def expected(answers: list[str | None], consent: bool) -> bool:
    """Say in one line whether an action may happen."""
    if {"deny", "nonsense", "raises"} & set(answers):
        return False
    return consent if "ask" in answers else "allow" in answers


async def outcome_of(answers: list[str | None], consent: bool) -> tuple[Authorization, list[str]]:
    """Authorize with those policies and a person who always says the same; return the outcome and its events."""
    approval = SimpleNamespace(request_approval=lambda *_: "Allow" if consent else "Deny")
    kernel = ModuleCoordinator(None, approval)
    events: list[str] = []
    kernel.hooks.register("*", lambda event, data: events.append(event))

    def policy(answer: str | None) -> Any:
        def say(action: str, details: dict[str, Any]) -> str | None:
            if answer == "raises":
                raise ValueError
            return answer

        return say

    for number, answer in enumerate(answers):
        kernel.register_policy(f"p{number}", policy(answer))
    return await kernel.authorize("x"), events


@given(ANSWERS, st.booleans())
def test_the_outcome_follows_the_fold(answers: list[str | None], consent: bool) -> None:
    """Any deny denies; else any ask asks; else any allow allows; else it is denied. There is one closing event."""
    outcome, events = asyncio.run(outcome_of(answers, consent))

    assert outcome.granted is expected(answers, consent)
    assert events[-1] == ("approval:granted" if outcome else "approval:denied")
    assert sum(event in ("approval:granted", "approval:denied") for event in events) == 1
    refused_by_rule = bool({"deny", "nonsense", "raises"} & set(answers))
    assert ("policy:violation" in events) is refused_by_rule
    assert ("approval:required" in events) is ("ask" in answers and not refused_by_rule)


@given(ANSWERS.flatmap(lambda answers: st.tuples(st.just(answers), st.permutations(answers))), st.booleans())
def test_the_outcome_does_not_depend_on_order(
    arranged: tuple[list[str | None], list[str | None]], consent: bool
) -> None:
    """However the policies are ordered, an action is granted or denied alike."""
    one, other = arranged
    first, _ = asyncio.run(outcome_of(one, consent))
    second, _ = asyncio.run(outcome_of(other, consent))

    assert first.granted is second.granted


@given(st.lists(st.sampled_from(["allow", "deny", "ask"]), max_size=6))
def test_the_fold_is_a_pure_function(verdicts: list[str]) -> None:
    """Folding opinions names the first policy of the winning verdict."""
    opinions = [Opinion(verdict, f"r{number}", f"p{number}", {}) for number, verdict in enumerate(verdicts)]
    winner = next((verdict for verdict in ("deny", "ask", "allow") if verdict in verdicts), None)

    folded = decide(opinions)

    if winner is None:
        assert folded == Opinion("deny", "no policy allows it", "kernel", {"kind": "nobody"})
    else:
        assert folded == opinions[verdicts.index(winner)]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((5, print), TypeError, "register_policy: name must be a string, got int"),
        (("kernel", print), ValueError, "register_policy: the name 'kernel' says that no policy decided"),
        (("approval_system", print), ValueError, "choose another"),
        (("hooks", print), ValueError, "choose another"),
        (("p", "deny"), TypeError, "register_policy: policy 'p' must be callable, got str"),
        (("p", print, "high"), TypeError, "register_policy: priority of 'p' must be an int, got str"),
    ],
)
def test_a_policy_that_could_never_work_is_refused(
    arguments: tuple[Any, ...], error: type[Exception], message: str
) -> None:
    """Mistakes show when a policy is registered, not when something must be decided."""
    with pytest.raises(error, match=message):
        ModuleCoordinator().register_policy(*arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((None, {}), "authorize: action must be a string, got NoneType"),
        (("x", "details"), "authorize: details must be a mapping, got str"),
        (("x", [1]), "authorize: details must be a mapping, got list"),
    ],
)
async def test_what_cannot_be_judged_is_an_error(arguments: tuple[Any, Any], message: str) -> None:
    """An action or details of the wrong type raise; they are never granted."""
    kernel = ModuleCoordinator()
    kernel.register_policy("p", lambda action, details: "allow")

    with pytest.raises(TypeError, match=message):
        await kernel.authorize(*arguments)


async def test_cancelling_the_asker_propagates() -> None:
    """A task cancelled while a person thinks ends; nothing is granted."""
    started = asyncio.Event()

    async def think(*_: Any) -> str:
        started.set()
        await asyncio.Event().wait()
        return "Allow"

    kernel = ModuleCoordinator(None, SimpleNamespace(request_approval=think))
    kernel.register_policy("p", lambda action, details: "ask")
    asking = asyncio.create_task(kernel.authorize("x"))
    await started.wait()
    asking.cancel()

    with pytest.raises(asyncio.CancelledError):
        await asking


@pytest.mark.parametrize("fatal", [KeyboardInterrupt, SystemExit])
async def test_interrupts_of_a_policy_propagate(fatal: type[BaseException]) -> None:
    """Nothing holds back a KeyboardInterrupt or SystemExit."""
    kernel = ModuleCoordinator()

    def interrupt(action: str, details: dict[str, Any]) -> None:
        raise fatal

    kernel.register_policy("p", interrupt)
    with pytest.raises(fatal):
        await kernel.authorize("x")


async def test_a_policy_that_asks_itself_ends_in_a_denial() -> None:
    """A policy that needs its own answer fails like any other fault."""
    kernel = ModuleCoordinator()

    async def ask_again(action: str, details: dict[str, Any]) -> str:
        return "allow" if await kernel.authorize(action, details) else "deny"

    kernel.register_policy("loop", ask_again)

    assert not await kernel.authorize("x")


async def test_a_timeout_longer_than_any_date_has_no_deadline() -> None:
    """A person is asked although the timeout cannot be expressed as a date."""
    deadlines: list[Any] = []

    async def request_approval(prompt: str, options: list[str], timeout: float, default: str) -> str:
        return "Allow"

    plan = {"session": {"orchestrator": "x", "context": "y", "approval_timeout": 1e12}}
    kernel = AmplifierSession(plan).coordinator
    kernel.approval_system = SimpleNamespace(request_approval=request_approval)
    kernel.hooks.register("approval:required", lambda event, data: deadlines.append(data.get("deadline")))
    kernel.register_policy("careful", lambda action, details: "ask")

    assert await kernel.authorize("x")
    assert deadlines == [None]

"""One question for one call, whoever wants it asked, and always about the input as it will run."""

from __future__ import annotations

from typing import Any

import pytest

MAKE = [("bash", {"command": "make all"})]
KERNEL_WORLDS = ("our loop", "published loop")


def ask(action: str, details: dict[str, Any]) -> tuple[str, str]:
    """Be an app's policy that wants everything asked for."""
    return "ask", "the app asks"


def allow(action: str, details: dict[str, Any]) -> str:
    """Be an app's policy that has nothing against anything."""
    return "allow"


@pytest.mark.parametrize("kernel", KERNEL_WORLDS)
async def test_the_apps_approval_system_is_asked_and_the_provider_is_not(
    run: Any, kernel: str, person: Any, system: Any, no: Any
) -> None:
    """With both there is one prompt, the kernel's, although module and app both want to ask."""
    app, provider = system("Allow"), person(no)
    outcome = await run(kernel, {"rules": []}, MAKE, person=provider, system=app, policies=(ask,))
    assert outcome.ran == MAKE
    assert len(app.asked) == 1
    assert provider.asked == []
    assert len(outcome.payloads("approval:required")) == 1
    assert len(outcome.payloads("approval:granted")) == 1


@pytest.mark.parametrize("kernel", KERNEL_WORLDS)
@pytest.mark.parametrize("answer", ["Deny", "Deny: no", "", "yes", "ALLOW EVERYTHING", "perhaps"])
async def test_the_apps_answer_counts_as_the_kernel_counts_it(run: Any, kernel: str, system: Any, answer: str) -> None:
    """What is no clear yes of the approval system is a no."""
    assert (await run(kernel, {"rules": []}, MAKE, system=system(answer), policies=(allow,))).ran == []


@pytest.mark.parametrize("kernel", KERNEL_WORLDS)
@pytest.mark.parametrize("verdict", ["deny", "nonsense", ("deny", "no"), ZeroDivisionError("oops")])
async def test_another_policys_no_is_final(
    run: Any, kernel: str, person: Any, system: Any, yes: Any, verdict: Any
) -> None:
    """A rule that approves and a person who would say yes change nothing about a deny."""

    def refuse(action: str, details: dict[str, Any]) -> Any:
        if isinstance(verdict, Exception):
            raise verdict
        return verdict

    rules = [{"pattern": "*", "action": "auto_approve"}]
    somebody, app = person(yes), system("Allow")
    outcome = await run(kernel, {"rules": rules}, MAKE, person=somebody, system=app, policies=(refuse,))
    assert outcome.ran == []
    assert somebody.asked == []
    assert app.asked == []


@pytest.mark.parametrize("kernel", KERNEL_WORLDS)
async def test_another_policys_ask_is_a_floor(run: Any, kernel: str, person: Any, no: Any) -> None:
    """A rule that approves does not spare the question that the app wants."""
    somebody = person(no)
    rules = [{"pattern": "*", "action": "auto_approve"}]
    assert (await run(kernel, {"rules": rules}, MAKE, person=somebody, policies=(ask,))).ran == []
    assert len(somebody.asked) == 1


async def test_an_input_that_a_hook_changed_is_decided_as_it_will_run(
    run: Any, world: str, person: Any, no: Any, changing: Any
) -> None:
    """A harmless command that becomes another one after the gate is not run unasked."""
    somebody = person(no)
    change = changing({"command": "rm -rf x"})
    outcome = await run(world, {}, [("bash", {"command": "ls"})], person=somebody, prepare=change, policies=(allow,))
    assert outcome.ran == []
    assert [request.details["tool_input"] for request in somebody.asked] == [{"command": "rm -rf x"}]


async def test_a_change_before_the_gate_is_seen(run: Any, world: str, changing: Any) -> None:
    """What an earlier hook makes of an input is what is judged, and what runs."""
    outcome = await run(world, {}, [("bash", {"command": "make"})], prepare=changing({"command": "ls"}, -100))
    assert outcome.ran == [("bash", {"command": "ls"})]


async def test_an_unchanged_input_is_asked_for_once(run: Any, world: str, person: Any, yes: Any) -> None:
    """The second look of the gate asks nobody."""
    somebody = person(yes)
    calls = [*MAKE, ("bash", {"command": "make clean"}), *MAKE]
    outcome = await run(world, {"rules": []}, calls, person=somebody)
    assert len(outcome.ran) == 3
    assert len(somebody.asked) == 3


async def test_a_hook_that_denies_the_question_denies_the_call(run: Any, world: str, person: Any, yes: Any) -> None:
    """Who denies `approval:required` has the last word, and nobody is asked."""
    from amplifier_core import HookResult

    def refuse(coordinator: Any) -> None:
        coordinator.hooks.register(
            "approval:required", lambda event, data: HookResult(action="deny", reason="quiet hours"), priority=5
        )

    somebody = person(yes)
    outcome = await run(world, {"rules": []}, MAKE, person=somebody, prepare=refuse)
    assert outcome.ran == []
    assert somebody.asked == []
    assert "quiet hours" in outcome.said


async def test_the_approval_timeout_of_the_session_still_holds(run: Any, person: Any) -> None:
    """The kernel's deadline ends a question that the module would wait for, and that is a no."""
    config = {"rules": [], "default_action": "allow", "default_timeout": 60}
    outcome = await run("our loop", config, MAKE, person=person("hang"), session={"approval_timeout": 0.01})
    assert outcome.ran == []
    assert "timeout" in outcome.said


@pytest.mark.parametrize(("has_mark", "has_ids", "is_asked"), [(True, True, 0), (True, False, 1), (False, False, 1)])
async def test_a_loop_may_say_that_it_asks_the_kernel_itself(
    run: Any, person: Any, yes: Any, has_mark: bool, has_ids: bool, is_asked: int
) -> None:
    """With the mark, and a call that has an id, the gate leaves the question to the loop; one alone is not enough."""
    somebody = person(yes)

    def prepare(coordinator: Any) -> None:
        loop = coordinator.get("orchestrator")
        loop.has_ids = has_ids
        if has_mark:
            loop.authorizes_calls = True

    # The loop of this test says that it asks and does not: so it can be seen that the gate did not.
    outcome = await run("published loop", {"rules": []}, MAKE, person=somebody, prepare=prepare)
    assert outcome.ran == MAKE
    assert len(somebody.asked) == is_asked


async def test_a_judgement_that_fails_is_a_no(
    run: Any, world: str, person: Any, yes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error of the module itself denies, in every world."""

    def fail(*_: Any) -> Any:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("amplifier_module_hooks_approval.policy.ApprovalPolicy.judge", fail)
    outcome = await run(world, {}, [("look", {})], person=person(yes), policies=(allow,))
    assert outcome.ran == []
    assert "oops" in outcome.said


@pytest.mark.parametrize("kernel", KERNEL_WORLDS)
async def test_silence_is_not_reported_as_a_persons_refusal(run: Any, kernel: str, person: Any) -> None:
    """The log says that nobody answered, not that somebody said no."""
    config = {"rules": [], "default_timeout": 0.01}
    [report] = (await run(kernel, config, MAKE, person=person("hang"))).payloads("approval:denied")
    assert report["source"] == "kernel"


async def test_a_hooks_own_question_reaches_the_provider(run: Any, person: Any, no: Any) -> None:
    """`ask_user` of another hook is answered by the provider too when the app has no approval system."""
    from amplifier_core import HookResult

    somebody = person(no)

    def curious(coordinator: Any) -> None:
        question = HookResult(action="ask_user", approval_prompt="Really?")
        coordinator.hooks.register("tool:pre", lambda event, data: question, priority=200)

    outcome = await run(
        "our loop", {"tools": {"look": False}}, [("look", {})], person=somebody, prepare=curious, policies=(allow,)
    )
    assert outcome.ran == []
    assert [request.action for request in somebody.asked] == ["hook.ask"]
    assert somebody.asked[0].details["prompt"] == "Really?"


async def test_a_provider_can_be_taken_away(run: Any, world: str, person: Any, yes: Any) -> None:
    """Registering None leaves nobody to ask."""
    somebody = person(yes)

    def take(coordinator: Any) -> None:
        coordinator.get_capability("approval.register_provider")(None)

    assert (await run(world, {"rules": []}, MAKE, person=somebody, prepare=take, policies=(allow,))).ran == []
    assert somebody.asked == []


async def test_a_cancelled_session_takes_its_question_back(person: Any) -> None:
    """Who waits for an answer can be stopped, and the provider is told."""
    import asyncio

    from amplifier_core.testing import MockCoordinator
    from amplifier_module_hooks_approval import mount

    asked, told = asyncio.Event(), asyncio.Event()

    class Waiting:
        async def request_approval(self, request: Any) -> Any:
            asked.set()
            try:
                await asyncio.Event().wait()
            finally:
                told.set()

    coordinator: MockCoordinator = MockCoordinator()
    coordinator.approval_system = None
    await mount(coordinator, {"rules": []})
    coordinator.get_capability("approval.register_provider")(Waiting())
    asking = asyncio.create_task(coordinator.authorize("process.exec", {"tool_name": "bash", "tool_input": {}}))
    await asked.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await asyncio.wait_for(told.wait(), 60)

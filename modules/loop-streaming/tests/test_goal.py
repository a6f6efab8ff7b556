"""Goals: work goes on until the condition is met, the cap is reached, or nothing moves."""

import asyncio
import sys
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_core.message_models import ChatRequest
from amplifier_core.models import ModelInfo
from amplifier_kit.engine.pairing import check_pairing
from amplifier_module_loop_streaming import mount
from amplifier_module_loop_streaming.goal import overlap
from amplifier_testing.loop.fakes import LoopRig, PlainTool, ScriptedProvider, call, say

GOAL = "orchestrator:goal_progress"
KEYS = {
    *("orchestrator", "state", "turn", "continuations", "cap", "reason", "reasons", "stall_detail", "summary"),
    *("distinct_blockers", "stall_verdict", "condition", "schema_version"),
}


def is_judging(request: ChatRequest) -> bool:
    return request.messages[0].role == "system" and str(request.messages[0].content).startswith("You check whether")


def is_about_halts(request: ChatRequest) -> bool:
    return "come to a halt" in str(request.messages[0].content)


class GoalRig(LoopRig):
    """Work with `work` answers and judge with `verdicts`; the last of each is repeated."""

    def __init__(self, verdicts: Iterable[Any], work: Iterable[Any] = (), *, halts: Iterable[Any] = ()) -> None:
        super().__init__(self._answer, tools=[PlainTool("work")])
        self.verdicts, self.work, self.halts = list(verdicts), list(work) or [say("worked")], list(halts)
        self.judged: list[ChatRequest] = []
        self.worked: list[ChatRequest] = []
        self.coordinator.session_state["goal"] = {"condition": "all tests pass"}

    def _answer(self, request: ChatRequest) -> Any:
        if not is_judging(request):
            self.worked.append(request)
            return self.work.pop(0) if len(self.work) > 1 else self.work[0]
        self.judged.append(request)
        script = self.halts if is_about_halts(request) else self.verdicts
        verdict = script.pop(0) if len(script) > 1 else script[0]
        if isinstance(verdict, BaseException):
            raise verdict
        return say(verdict) if isinstance(verdict, str) else verdict(request)

    async def pursue(self, config: dict[str, Any] | None = None) -> Any:
        await self.mount(mount, config)
        return await self.run("start")

    def states(self) -> list[str]:
        return [data["state"] for data in self.data(GOAL)]


async def test_work_goes_on_until_the_goal_is_met() -> None:
    """Each NO starts another turn with its reason; the first YES ends the work and clears the goal."""
    rig = GoalRig(["NO: two fail", "NO - one fails", "YES, all green"], [say("one"), say("two"), say("three")])
    assert await rig.pursue() == "three"
    assert rig.states() == ["continuing", "continuing", "achieved"]
    assert [data["reason"] for data in rig.data(GOAL)] == ["two fail", "one fails", "all green"]
    assert all(data.keys() >= KEYS and data["schema_version"] == 1 for data in rig.data(GOAL))
    prompts = [message["content"] for message in rig.context.messages if message["role"] == "user"]
    assert prompts[0] == "start"
    assert "two fail" in prompts[1]
    assert "goal" not in rig.coordinator.session_state
    [complete] = rig.data("orchestrator:complete")
    assert (complete["status"], complete["goal_turn"], complete["continuations"]) == ("success", 3, 2)


async def test_the_plan_brackets_the_pursuit() -> None:
    """plan:start and plan:end stand around all turns, and the once-per-turn events come once."""
    rig = GoalRig(["NO: x", "YES: y"])
    await rig.pursue()
    wanted = ("execution:start", "prompt:submit", "plan:start", GOAL, "plan:end", "prompt:complete")
    expected = ["execution:start", "prompt:submit", "plan:start", GOAL, GOAL, "plan:end", "prompt:complete"]
    assert rig.names(*wanted, "orchestrator:complete", "execution:end") == [
        *expected,
        "orchestrator:complete",
        "execution:end",
    ]
    [start], [end] = rig.data("plan:start"), rig.data("plan:end")
    assert (start["condition"], start["turns_used"], start["cap"]) == ("all tests pass", 0, 50)
    assert (end["status"], end["turns_used"], end["continuations"], end["reason"]) == ("achieved", 2, 1, "y")


async def test_without_a_goal_there_is_no_plan() -> None:
    """A plain turn knows nothing of plans, nor does one with an empty condition."""
    rig = GoalRig(["YES"])
    rig.coordinator.session_state["goal"] = {"condition": "  "}
    await rig.pursue()
    assert rig.names("plan:start", "plan:end", GOAL) == []
    assert rig.judged == []


async def test_the_judge_is_asked_without_tools_and_streams() -> None:
    """The evaluator call has no tools, few tokens, no streaming, and the end of the transcript."""
    rig = GoalRig(["YES"], [call(("1", "work", {})), say("done")])
    await rig.pursue()
    [request] = rig.judged
    assert request.tools is None
    assert request.max_output_tokens == 512
    assert request.metadata == {"stream": False}
    question = str(request.messages[1].content)
    assert "all tests pass" in question
    assert "[tool] work done" in question
    assert "(calls work)" in question


async def test_the_cap_ends_the_pursuit() -> None:
    """A goal's cap counts turns; when it is reached the work is incomplete and the goal is cleared."""
    rig = GoalRig(["NO: never", "NO: ever", "NO: at all"])
    rig.coordinator.session_state["goal"]["cap"] = 2
    await rig.pursue()
    assert rig.states() == ["continuing", "cap_hit"]
    assert len(rig.worked) == 2
    assert rig.data("orchestrator:complete")[0]["reason"] == "goal_cap_hit"
    last = rig.data(GOAL)[-1]
    assert (last["cap"], last["distinct_blockers"]) == (2, 2)
    assert "never; ever" in last["summary"]
    assert "goal" not in rig.coordinator.session_state


async def test_a_goal_without_a_cap_has_the_default() -> None:
    """The config's cap holds for goals that name none."""
    rig: GoalRig = GoalRig([lambda request: say(f"NO: {len(rig.judged)} unlike anything before {len(rig.judged) * 7}")])
    rig.work = [call(("1", "work", {})), say("done")] * 9
    await rig.pursue({"goal_default_cap": 3, "goal_busy_stall_min_overlap": 1.0})
    assert rig.states() == ["continuing", "continuing", "cap_hit"]


async def test_idle_turns_are_looked_into() -> None:
    """Turns without a tool call raise the question whether it is stuck: once it is told so, then it ends."""
    answers = ["NO: alpha", "NO: beta", "NO: gamma", "NO: delta", "NO: epsilon", "NO: zeta", "NO: eta"]
    rig = GoalRig(answers, halts=["YES: it only talks"])
    await rig.pursue()
    assert rig.states() == ["continuing"] * 5 + ["stalled"]
    third, last = rig.data(GOAL)[2], rig.data(GOAL)[-1]
    assert third["stall_detail"] == "3 turns without a tool call"
    assert third["stall_verdict"] == "it only talks"
    assert last["stall_verdict"] == "it only talks"
    pressed = [m["content"] for m in rig.context.messages if "take a different way" in str(m["content"])]
    assert len(pressed) == 1
    assert rig.data("orchestrator:complete")[0]["reason"] == "goal_stalled"


async def test_busy_turns_for_the_same_reason_are_looked_into() -> None:
    """Much work and always the same thing missing raises the question too; a judge who sees progress lets it go on."""
    rig = GoalRig(
        ["NO: test seven fails"] * 4 + ["YES: ok"],
        [answer for n in range(6) for answer in (call((str(n), "work", {})), say("tried"))],
        halts=["NO: it moves"],
    )
    await rig.pursue()
    assert rig.states() == ["continuing"] * 4 + ["achieved"]
    assert rig.data(GOAL)[2]["stall_detail"] == "3 turns with much the same thing missing"
    assert rig.data(GOAL)[2]["stall_verdict"] == "it moves"
    assert rig.data(GOAL)[1]["stall_detail"] is None


async def test_a_judge_of_halts_that_fails_counts_as_a_yes() -> None:
    """When nobody can say whether it moves, the pursuit does not go on for ever."""
    rig = GoalRig([f"NO: {word}" for word in "abcdefghij"], halts=[OSError("judge gone")])
    await rig.pursue()
    assert rig.states()[-1] == "stalled"
    assert "judge gone" in rig.data(GOAL)[-1]["stall_verdict"]


async def test_a_judge_that_fails_ends_the_pursuit_with_the_answer() -> None:
    """Without a judge the answer stands, the goal stays set, and the status says so."""
    rig = GoalRig([OSError("judge gone")])
    assert await rig.pursue() == "worked"
    assert rig.states() == ["error"]
    assert rig.data("orchestrator:complete")[0]["reason"] == "goal_error"
    assert "goal" in rig.coordinator.session_state


@pytest.mark.parametrize("answer", ["perhaps", "", "I say YES"])
async def test_an_unclear_answer_is_a_no(answer: str) -> None:
    """Only a YES as the first word is a yes."""
    rig = GoalRig([answer, "YES"])
    await rig.pursue()
    assert rig.states() == ["continuing", "achieved"]


async def test_a_graceful_stop_ends_the_pursuit() -> None:
    """A cancelled turn is the last one, and the goal stays set."""
    rig = GoalRig(["NO"], [call(("1", "stop", {}))])
    rig.tools["stop"] = PlainTool("stop", lambda _: rig.coordinator.cancellation.request_graceful())
    await rig.pursue()
    assert rig.states() == ["cancelled"]
    assert rig.data("plan:end")[0]["status"] == "cancelled"
    assert "goal" in rig.coordinator.session_state


async def test_a_stop_at_once_drops_the_judge() -> None:
    """A judge that takes for ever does not hold a turn that must stop."""
    rig = GoalRig([])

    async def hang(_: Any) -> None:
        rig.coordinator.cancellation.request_immediate()
        await asyncio.Event().wait()

    rig.verdicts = [hang]
    assert await rig.pursue() == "worked"
    assert rig.states() == ["cancelled"]


@pytest.mark.parametrize(
    ("error", "state"), [(OSError("socket gone"), "error"), (asyncio.CancelledError(), "cancelled")]
)
async def test_the_plan_ends_when_the_turn_does_not(error: BaseException, state: str) -> None:
    """A provider that fails, or a task that is cancelled, closes the plan before the turn."""
    rig = GoalRig(["NO: x"])
    await rig.mount(mount)
    turn = asyncio.create_task(rig.run())

    async def fail(_: Any) -> None:
        if isinstance(error, asyncio.CancelledError):
            turn.cancel()
            await asyncio.Event().wait()
        raise error

    rig.provider.answers = [rig._answer, rig._answer, fail]
    with pytest.raises(type(error)):
        await turn
    assert rig.states() == ["continuing", state]
    [end] = rig.data("plan:end")
    assert end["status"] == state
    assert check_pairing(rig.context.messages) == []


async def test_a_goal_that_is_cleared_meanwhile_is_not_pursued() -> None:
    """A person who takes the goal back is heard after the turn."""
    rig = GoalRig(["NO"], [call(("1", "clear", {})), say("done")])
    rig.tools["clear"] = PlainTool("clear", lambda _: rig.coordinator.session_state.pop("goal") and "ok")
    assert await rig.pursue() == "done"
    assert rig.states() == ["cancelled"]
    assert rig.judged == []


async def test_a_denied_request_ends_the_pursuit() -> None:
    """A budget hook that says no is not asked again by the goal loop."""
    rig = GoalRig(["NO"])
    rig.on("provider:request", "deny", reason="budget")
    assert await rig.pursue() == "Operation denied: budget"
    assert rig.states() == ["error"]


async def test_circles_end_the_pursuit() -> None:
    """A turn that the loop guard ended is not begun again."""
    rig = GoalRig(["NO"], [call(("1", "work", {}))])
    await rig.pursue()
    assert rig.states() == ["stalled"]
    assert rig.data("orchestrator:complete")[0]["reason"] == "loop_detected"


class Listing(ScriptedProvider):
    """Know some models."""

    def __init__(self, *models: str) -> None:
        super().__init__(say("YES"))
        self._models = models

    async def list_models(self) -> list[ModelInfo]:
        """Return them."""
        return [ModelInfo(id=m, display_name=m, context_window=1, max_output_tokens=1) for m in self._models]


async def test_a_small_model_judges_where_there_is_one() -> None:
    """The preferences are globs over the models of the mounted providers, in order."""
    rig = GoalRig(["NO"])
    rig.providers["anthropic"] = judge = Listing("claude-opus-4", "claude-haiku-4-5")
    judge.priority = 500
    await rig.pursue()
    assert [request.model for request in judge.requests] == ["claude-haiku-4-5"]
    [resolved] = rig.data("provider:resolve")
    assert (resolved["provider"], resolved["model"]) == ("anthropic", "claude-haiku-4-5")
    assert (resolved["role"], resolved["source"]) == ("fast", "goal_provider_preferences")


async def test_a_provider_that_ends_the_program_instead_of_listing_models() -> None:
    """The provider of the turn judges when the models of another cannot be listed."""

    class Leaving(Listing):
        async def list_models(self) -> list[ModelInfo]:
            sys.exit(3)

    rig = GoalRig(["NO"])
    rig.providers["anthropic"] = judge = Leaving()
    judge.priority = 500
    await rig.pursue()
    assert judge.requests == []
    assert [resolved["source"] for resolved in rig.data("provider:resolve")] == ["turn"]


async def test_a_resolver_of_roles_goes_first() -> None:
    """What the session's resolver says of the role wins over the preferences."""
    rig = GoalRig(["NO"])
    rig.providers["tiny"] = judge = Listing()
    judge.priority = 500

    class Resolver:
        async def resolve(self, role: str) -> list[dict[str, str]]:
            return [{"provider": "gone", "model": "x"}, {"provider": "tiny", "model": f"{role}-1"}]

    rig.coordinator.register_capability("model_role_resolver", Resolver())
    await rig.pursue({"goal_model_role": "cheap"})
    assert [request.model for request in judge.requests] == ["cheap-1"]
    assert rig.data("provider:resolve")[0]["source"] == "model_role_resolver"


async def test_a_role_may_mean_the_default_model_or_a_pattern() -> None:
    """A preference without a model judges with the provider's own, one with a pattern with the best that matches."""
    for model, expected in ((None, None), ("tiny-*", "tiny-1")):
        rig = GoalRig(["NO"])
        rig.providers["tiny"] = judge = Listing("tiny-1", "large-2")
        judge.priority = 500
        resolver = SimpleNamespace(resolve=lambda role, model=model: [{"provider": "tiny", "model": model}])
        rig.coordinator.register_capability("model_role_resolver", resolver)
        await rig.pursue()
        assert [request.model for request in judge.requests] == [expected]


@pytest.mark.parametrize(
    "resolver",
    [7, SimpleNamespace(resolve=lambda role: None), SimpleNamespace(resolve=lambda role: 1 / 0)],
)
async def test_a_resolver_that_does_not_help_is_passed_over(resolver: Any) -> None:
    """The provider of the turn judges when nobody else is found."""
    rig = GoalRig(["YES"])
    rig.coordinator.register_capability("model_role_resolver", resolver)
    await rig.pursue()
    assert rig.data("provider:resolve")[0]["source"] == "turn"
    assert len(rig.judged) == 1


@given(st.text(), st.text())
def test_overlap_is_a_share(one: str, other: str) -> None:
    """Overlap lies between 0 and 1, is the same both ways, and whole for the same text."""
    assert 0.0 <= overlap(one, other) <= 1.0
    assert overlap(one, other) == overlap(other, one)
    assert overlap(one, one) == 1.0

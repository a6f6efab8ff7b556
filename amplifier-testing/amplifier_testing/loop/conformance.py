"""State what every loop built on the engine does, as tests: inherit `LoopConformance` in the tests of a loop module."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, NamedTuple

import pytest

from amplifier_core.llm_errors import ContextLengthError, ProviderUnavailableError
from amplifier_kit.engine.pairing import check_pairing
from amplifier_testing.loop.fakes import ListContext, LoopRig, PlainTool, call, say

__all__ = ["ONCE_PER_TURN", "LoopConformance"]

ONCE_PER_TURN = ("execution:start", "prompt:submit", "prompt:complete", "orchestrator:complete", "execution:end")


class Exit(NamedTuple):
    """One way out of a turn: how to set it up, and what the closing events say of it."""

    prepare: Callable[[], tuple[LoopRig, dict[str, Any]]]
    status: str
    reason: str | None
    ended: str
    raises: type[BaseException] | None = None
    is_provider_error: bool = False


async def _for_ever(*_: Any) -> Any:
    await asyncio.Event().wait()


def _looping() -> LoopRig:
    return LoopRig(call(("a", "work", {})), tools=[PlainTool("work")])


def _with_hook(event: str) -> tuple[LoopRig, dict[str, Any]]:
    rig = LoopRig(say("never"))
    rig.on(event, "deny", reason="not today")
    return rig, {}


def _failing_context() -> tuple[LoopRig, dict[str, Any]]:
    class Full(ListContext):
        async def get_messages_for_request(self, token_budget: int | None = None, provider: Any = None) -> Any:
            raise ContextLengthError("what is required does not fit")

    return LoopRig(say("never"), context=Full()), {}


def _without_provider() -> tuple[LoopRig, dict[str, Any]]:
    rig = LoopRig()
    rig.providers.clear()
    return rig, {}


def _cancelling(*, immediate: bool, where: str) -> tuple[LoopRig, dict[str, Any]]:
    """Request a cancellation from inside the tool, the model call or before the turn."""
    rig = LoopRig()

    async def request(*_: Any) -> Any:
        await rig.coordinator.request_cancel(immediate=immediate)
        if immediate:
            await _for_ever()
        return say("last words") if where == "model" else "finished"

    work = PlainTool("work", request if where == "tool" else None)
    rig.tools["work"] = work
    rig.provider.answers = [request] if where == "model" else [call(("a", "work", {})), say("never")]
    if where == "before":
        rig.coordinator.cancellation.request_graceful()
    return rig, {}


def _cancelled_outside(where: str) -> tuple[LoopRig, dict[str, Any]]:
    rig = LoopRig()

    async def cancel(*_: Any) -> Any:
        rig.turn.cancel()  # type: ignore[attr-defined]  # set by the test
        await _for_ever()

    rig.tools["work"] = PlainTool("work", cancel)
    rig.provider.answers = [cancel] if where == "model" else [call(("a", "work", {}))]
    return rig, {}


_UNAVAILABLE = ProviderUnavailableError("down", status_code=503)
_CANCELLED = asyncio.CancelledError

EXITS: dict[str, Exit] = {
    "answer": Exit(lambda: (LoopRig(say("hi")), {}), "success", None, "completed"),
    "prompt denied": Exit(lambda: _with_hook("prompt:submit"), "incomplete", "denied", "completed"),
    "request denied": Exit(lambda: _with_hook("provider:request"), "incomplete", "denied", "completed"),
    "provider error": Exit(
        lambda: (LoopRig(_UNAVAILABLE), {}), "error", "error", "error", ProviderUnavailableError, True
    ),
    "context error": Exit(_failing_context, "error", "error", "error", ContextLengthError, True),
    "no provider": Exit(_without_provider, "error", "error", "error", RuntimeError),
    "limit": Exit(lambda: (_looping(), {"max_iterations": 2}), "incomplete", "max_iterations", "completed"),
    "circle": Exit(lambda: (_looping(), {"loop_guard_stop": 4}), "incomplete", "loop_detected", "completed"),
    "graceful, in a tool": Exit(
        lambda: _cancelling(immediate=False, where="tool"), "cancelled", "cancelled", "cancelled"
    ),
    "graceful, in the model": Exit(
        lambda: _cancelling(immediate=False, where="model"), "cancelled", "cancelled", "cancelled"
    ),
    "graceful, before": Exit(
        lambda: _cancelling(immediate=False, where="before"), "cancelled", "cancelled", "cancelled"
    ),
    "immediate, in a tool": Exit(
        lambda: _cancelling(immediate=True, where="tool"), "cancelled", "cancelled", "cancelled"
    ),
    "immediate, in the model": Exit(
        lambda: _cancelling(immediate=True, where="model"), "cancelled", "cancelled", "cancelled"
    ),
    "task cancelled, in a tool": Exit(
        lambda: _cancelled_outside("tool"), "cancelled", "cancelled", "cancelled", _CANCELLED
    ),
    "task cancelled, in the model": Exit(
        lambda: _cancelled_outside("model"), "cancelled", "cancelled", "cancelled", _CANCELLED
    ),
}


@pytest.mark.asyncio
class LoopConformance:
    """Hold the tests; subclasses say which loop they are about."""

    name: ClassVar[str]
    mount: ClassVar[Callable[..., Awaitable[Any]]]
    #: Whether a provider's exception leaves `execute`, or becomes the answer.
    raises_provider_errors: ClassVar[bool] = True

    async def _run(self, rig: LoopRig, config: dict[str, Any] | None = None) -> Any:
        await rig.mount(type(self).mount, config)
        return await rig.run()

    @pytest.mark.parametrize("way", EXITS)
    async def test_every_exit_closes_the_turn_once(self, way: str) -> None:
        """Whatever ends a turn, each once-per-turn event is emitted once, in order, with a status."""
        expected = EXITS[way]
        rig, config = expected.prepare()
        await rig.mount(type(self).mount, config)
        turn = asyncio.create_task(rig.run())
        rig.turn = turn  # type: ignore[attr-defined]
        outcome = await _outcome(turn)
        raises = expected.raises is not None and (self.raises_provider_errors or not expected.is_provider_error)
        assert isinstance(outcome, expected.raises if raises and expected.raises else str), outcome
        assert rig.names(*ONCE_PER_TURN) == list(ONCE_PER_TURN)
        [completed], [prompt], [ended] = map(rig.data, ONCE_PER_TURN[3:4] + ONCE_PER_TURN[2:3] + ONCE_PER_TURN[4:])
        assert (completed["orchestrator"], completed["status"]) == (self.name, expected.status)
        assert completed.get("reason") == expected.reason
        assert completed["turn_count"] == len(rig.data("provider:request"))
        assert prompt["status"] == expected.status
        assert ended["status"] == expected.ended
        assert ended["response"] == (outcome if isinstance(outcome, str) else "")
        is_asked = rig.coordinator.cancellation.is_cancelled
        assert len(rig.names("cancel:requested", "cancel:completed")) == (2 if is_asked else 0)
        self._assert_sound(rig)

    @pytest.mark.parametrize("way", ["task", "graceful", "immediate"])
    async def test_cancellation_at_every_step_leaves_no_call_without_result(self, way: str) -> None:
        """A turn cancelled at any step of the event loop leaves a sound history and a closed turn."""
        for step in itertools.count():
            rig = LoopRig(
                call(("a", "work", {}), ("b", "fail", {}), ("c", "none", {}), text="let me see"),
                call(("a", "work", {})),
                say("done"),
                tools=[PlainTool("work"), PlainTool("fail", _fail)],
            )
            await rig.mount(type(self).mount)
            turn = asyncio.create_task(rig.run())
            for _ in range(step):
                await asyncio.sleep(0)
            is_over = turn.done()
            if way == "task":
                turn.cancel()
            elif not is_over:
                await rig.coordinator.request_cancel(immediate=way == "immediate")
            outcome = await _outcome(turn)
            assert isinstance(outcome, str | asyncio.CancelledError), outcome
            self._assert_sound(rig)
            counts = [len(rig.data(event)) for event in ONCE_PER_TURN]
            assert counts in ([1, 1, 1, 1, 1], [1, 0, 1, 1, 1], [0, 0, 0, 0, 0]), (step, counts)
            if is_over:
                assert step > 20
                return

    async def test_results_stand_in_call_order_under_one_group(self) -> None:
        """Calls of one answer share a group id, and their results are stored in order of the calls."""
        first_may_end = asyncio.Event()

        async def slow(_: Any) -> str:
            await asyncio.wait_for(first_may_end.wait(), 0.2 if not self._is_parallel() else 60)
            return "slow"

        def quick(_: Any) -> str:
            first_may_end.set()
            return "quick"

        if not self._is_parallel():
            first_may_end.set()
        rig = LoopRig(
            call(("1", "slow", {}), ("2", "quick", {})),
            say("done"),
            tools=[PlainTool("slow", slow), PlainTool("quick", quick)],
        )
        assert await self._run(rig) == "done"
        assert rig.results() == ["slow", "quick"]
        events = [data for name, data in rig.events if name in ("tool:pre", "tool:post")]
        assert len({data["parallel_group_id"] for data in events}) == 1
        assert [data["tool_call_id"] for data in rig.data("tool:pre")] == ["1", "2"]

    async def test_the_events_of_one_operation_share_a_span(self) -> None:
        """The events of one tool call, and of one model call, carry one span id that no other operation has."""
        rig = LoopRig(
            call(("1", "work", {}), ("2", "fail", {})), say("done"), tools=[PlainTool("work"), PlainTool("fail", _fail)]
        )
        await self._run(rig)
        spans: dict[str, set[str]] = {}
        for event, data in rig.events:
            if event.startswith("tool:") and "tool_call_id" in data:
                spans.setdefault(data["tool_call_id"], set()).add(data["span_id"])
        requests = [data["span_id"] for data in rig.data("provider:request")]
        assert requests == [data["span_id"] for data in rig.data("provider:response")]
        ids = [*spans["1"], *spans["2"], *requests]
        assert len(ids) == len(set(ids)) == 4

    async def test_events_are_attributed_to_the_component_that_emits_them(self) -> None:
        """What a tool or a provider emits while the loop calls it is its own, not the loop's."""
        rig = LoopRig()
        emit = rig.coordinator.hooks.emit
        components: dict[str, str] = {}
        rig.coordinator.hooks.observe(lambda event, data, outcome: components.update({event: outcome.component}))

        async def work(_: Any) -> str:
            await emit("tool:progress", {})
            return "done"

        async def answer(_: Any) -> Any:
            await emit("llm:response", {})
            return call(("1", "work", {}))

        rig.tools["work"] = PlainTool("work", work)
        rig.provider.answers = [answer, say("done")]
        await self._run(rig)
        assert (components["tool:progress"], components["llm:response"]) == ("tool", "provider")

    async def test_no_policy_means_no_tool(self) -> None:
        """A tool that is not allowed does not run; its call is answered, and the turn continues."""
        work = PlainTool("work", action="process.exec")
        rig = LoopRig(call(("1", "work", {"x": 1})), say("done"), tools=[work], policy=None)
        assert await self._run(rig) == "done"
        assert work.inputs == []
        assert rig.results() == ["Denied: no policy allows it"]
        [denied] = rig.data("approval:denied")
        assert denied["action"] == "process.exec"
        assert denied["details"] == {"tool_name": "work", "tool_input": {"x": 1}, "tool_call_id": "1"}

    async def test_deny_rule_wins_over_allowing_hook(self) -> None:
        """A hook that lets a call pass does not lift what a policy forbids."""
        work = PlainTool("work")
        rig = LoopRig(call(("1", "work", {})), say("done"), tools=[work], policy=("deny", "never"))
        rig.on("tool:pre", "continue")
        await self._run(rig)
        assert work.inputs == []
        assert rig.results() == ["Denied: never"]

    async def test_modified_input_is_checked_again(self) -> None:
        """Policies judge the input as hooks left it, and the tool gets exactly that."""
        asked: list[Any] = []

        def policy(action: str, details: dict[str, Any]) -> str:
            asked.append((action, details["tool_input"]))
            return "allow"

        work = PlainTool("work")
        rig = LoopRig(call(("1", "work", {"path": "/etc"})), say("done"), tools=[work], policy=policy)

        def rewrite(_: str, data: dict[str, Any]) -> dict[str, Any]:
            return {"action": "modify", "data": {**data, "tool_input": {"path": "safe"}}}

        rig.coordinator.hooks.register("tool:pre", rewrite)
        await self._run(rig)
        assert asked == [("tool.work", {"path": "safe"})]
        assert work.inputs == [{"path": "safe"}]

    async def test_ask_is_a_floor(self) -> None:
        """A hook that asks without anyone to answer stops the call."""
        work = PlainTool("work")
        rig = LoopRig(call(("1", "work", {})), say("done"), tools=[work])
        rig.coordinator.approval_system = None
        rig.on("tool:pre", "ask_user", approval_prompt="Run it?")
        await self._run(rig)
        assert work.inputs == []
        assert rig.results() == ["Denied by hook: No approval system available"]

    async def test_injected_context_survives_tool_error(self) -> None:
        """What hooks inject around a call that fails is kept, and stands behind the result."""
        rig = LoopRig(call(("1", "fail", {})), say("done"), tools=[PlainTool("fail", _fail)])
        rig.on("tool:pre", "inject_context", context_injection="kept for good")
        rig.on("tool:error", "inject_context", context_injection="only once", ephemeral=True)
        await self._run(rig)
        roles = [message["role"] for message in rig.context.messages]
        assert roles == ["user", "assistant", "tool", "system", "assistant"]
        assert rig.context.messages[3]["content"] == "kept for good"
        assert rig.provider.requests[1].messages[-1].content == "only once"

    async def test_a_tool_that_hangs_meets_its_deadline(self) -> None:
        """A call past its deadline is answered with a timeout, not with a refusal, and does not hold the turn."""
        rig = LoopRig(call(("1", "hang", {})), say("done"), tools=[PlainTool("hang", _for_ever)])
        assert await self._run(rig, {"tool_timeout": 0.02}) == "done"
        [result] = rig.results()
        assert "timeout" in result
        assert "denied" not in result.lower()
        [error] = rig.data("tool:error")
        assert (error["error"]["type"], error["status"]) == ("timeout", "timeout")

    async def test_a_lost_result_is_repaired_and_reported_once(self) -> None:
        """A history with a hole is made sound before every request; it is reported once."""
        hole = {"role": "assistant", "content": "", "tool_calls": [{"id": "x", "tool": "gone", "arguments": {}}]}
        rig = LoopRig(say("one"), context=ListContext([{"role": "user", "content": "before"}, hole]))
        await self._run(rig)
        await rig.run("again")
        for request in rig.provider.requests:
            assert check_pairing([message.model_dump() for message in request.messages]) == []
        [repaired] = rig.data("provider:tool_sequence_repaired")
        assert repaired["repair_count"] == 1
        assert repaired["repairs"] == [{"tool_call_id": "x", "tool_name": "gone", "kind": "missing_result"}]

    async def test_reused_ids_are_distinguished(self) -> None:
        """A model that gives every call the same id still gets a history in which each call has its own."""
        rig = LoopRig(
            call(("same", "work", {})), call(("same", "work", {"n": 2})), say("done"), tools=[PlainTool("work")]
        )
        assert await self._run(rig) == "done"
        self._assert_sound(rig)

    async def test_events_beyond_the_canonical_ones_are_contributed(self) -> None:
        """Every event that the loop may emit is canonical or announced on `observability.events`."""
        from amplifier_core.events import ALL_EVENTS

        rig = _looping()
        await self._run(rig, {"loop_guard_stop": 4, "heartbeat_interval": 0.01})
        contributed = {
            event for names in await rig.coordinator.collect_contributions("observability.events") for event in names
        }
        assert {"execution:heartbeat", "orchestrator:loop_detected"} <= contributed
        assert set(rig.names()) <= {*ALL_EVENTS, *contributed}

    def _is_parallel(self) -> bool:
        return self.name != "loop-events"

    @staticmethod
    def _assert_sound(rig: LoopRig) -> None:
        assert check_pairing(rig.context.messages) == []
        for request in rig.provider.requests:
            assert check_pairing([message.model_dump() for message in request.messages]) == []
        starts, ends = rig.data("tool:pre"), rig.data("tool:post") + rig.data("tool:error")
        closed = [data["tool_call_id"] for data in ends]
        assert {data["tool_call_id"] for data in starts} <= set(closed)
        assert len(closed) == len(set(closed))
        asked = len(rig.data("provider:request"))
        assert asked == len(rig.data("provider:response")) + len(rig.data("provider:error"))
        for content in rig.results():
            if isinstance(content, str) and content.startswith('{"error"'):
                assert json.loads(content)["cancelled"] is True


async def _outcome(turn: asyncio.Task[Any]) -> Any:
    """Return what a turn returned or raised."""
    await asyncio.wait({turn})
    return asyncio.CancelledError() if turn.cancelled() else turn.exception() or turn.result()


def _fail(_: Any) -> Any:
    raise OSError("disk on fire")

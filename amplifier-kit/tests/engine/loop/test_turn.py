"""One turn: what is stored, what is said, when it ends, and what happens when others fail."""

import asyncio
import sys
from typing import Any

import pytest

from amplifier_core import AmplifierSession
from amplifier_core.models import HookResult
from amplifier_core.testing import wait_for
from amplifier_kit.engine.pairing import check_pairing
from amplifier_testing.loop.fakes import ListContext, LoopRig, PlainTool, call, say


async def test_what_a_turn_stores(run: Any) -> None:
    """A turn stores the prompt, each message of the model with its calls, and each result."""
    rig = LoopRig(call(("1", "work", {"x": 1}), text="hm"), say("done"), tools=[PlainTool("work")])
    assert await run(rig) == "done"
    assert rig.context.messages == [
        {"role": "user", "content": "hello"},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "hm", "visibility": None},
                {"type": "tool_call", "id": "1", "name": "work", "input": {"x": 1}, "visibility": None},
            ],
            "tool_calls": [{"id": "1", "tool": "work", "arguments": {"x": 1}}],
        },
        {"role": "tool", "tool_call_id": "1", "name": "work", "content": "work done"},
        {"role": "assistant", "content": [{"type": "text", "text": "done", "visibility": None}]},
    ]


async def test_the_order_of_a_turn(run: Any) -> None:
    """The events of a turn come in the order that the contract gives."""
    rig = LoopRig(call(("1", "work", {})), say("done"), tools=[PlainTool("work")])
    await run(rig)
    assert rig.names() == [
        "execution:start",
        "prompt:submit",
        "provider:request",
        "provider:response",
        "tool:pre",
        "approval:granted",
        "tool:post",
        "provider:request",
        "provider:response",
        "prompt:complete",
        "orchestrator:complete",
        "execution:end",
    ]


async def test_the_preview_is_short(run: Any) -> None:
    """prompt:complete shows the first 200 characters and says how long the answer is."""
    rig = LoopRig(say("x" * 500))
    await run(rig)
    [complete] = rig.data("prompt:complete")
    assert (complete["response_preview"], complete["length"]) == ("x" * 200, 500)


async def test_a_denied_prompt_is_not_stored(run: Any) -> None:
    """A prompt that a hook denies reaches neither context nor model."""
    rig = LoopRig(say("never"))
    rig.on("prompt:submit", "deny", reason="no")
    assert await run(rig) == "Operation denied: no"
    assert rig.context.messages == []
    assert rig.provider.requests == []


async def test_a_hook_may_rewrite_the_prompt(run: Any) -> None:
    """What a hook makes of the prompt is what is stored."""
    rig = LoopRig(say("done"))
    rig.coordinator.hooks.register(
        "prompt:submit", lambda _, data: HookResult(action="modify", data={**data, "prompt": "masked"})
    )
    await run(rig, prompt="secret")
    assert rig.context.messages[0] == {"role": "user", "content": "masked"}


async def test_a_denied_request_ends_the_turn(run: Any) -> None:
    """A hook may stop the model call; the text says why."""
    rig = LoopRig(say("never"))
    rig.on("provider:request", "deny", reason="budget")
    assert await run(rig) == "Operation denied: budget"
    assert rig.data("provider:error")[0]["status"] == "denied"


async def test_the_limit_asks_once_more(run: Any) -> None:
    """At the limit the model is reminded and asked once more; calls it makes then are answered, not run."""
    work = PlainTool("work", lambda _: len(work.inputs))
    rig = LoopRig(call(("1", "work", {}), text="working"), tools=[work])
    answer = await run(rig, {"max_iterations": 2})
    assert len(work.inputs) == 2
    assert answer == "working\n\n[Stopped: the limit of 2 iterations was reached before the work was done.]"
    last = rig.data("provider:request")[-1]
    assert (last["iteration"], last["max_reached"]) == (2, True)
    reminder = rig.provider.requests[-1].messages[-1]
    assert reminder.role == "user"
    assert 'source="orchestrator-loop-limit"' in str(reminder.content)
    assert rig.results()[-1] == "Not run: the limit of 2 iterations is reached"
    assert rig.context.messages[-1]["role"] == "assistant"
    assert "system-reminder" not in str(rig.context.messages)
    assert check_pairing(rig.context.messages) == []


async def test_without_a_limit_it_goes_on(run: Any) -> None:
    """-1 lets the model work for more than the default of 100 iterations."""
    work = PlainTool("work", lambda _: len(work.inputs))
    answers = [call((str(n), "work", {})) for n in range(120)]
    rig = LoopRig(*answers, say("done"), tools=[work])
    assert await run(rig, {"max_iterations": -1}) == "done"
    assert len(rig.provider.requests) == 121


async def test_the_default_limit_is_100(run: Any) -> None:
    """Without a word about it, a turn makes 100 model calls and one to sum up."""
    work = PlainTool("work", lambda _: len(work.inputs))
    rig = LoopRig(call(("1", "work", {})), tools=[work])
    await run(rig)
    assert len(work.inputs) == 100
    assert len(rig.provider.requests) == 101


async def test_circles_are_warned_of_and_then_ended(run: Any) -> None:
    """The model is warned once, in the next request; when it continues, the turn ends with a clear message."""
    rig = LoopRig(call(("1", "work", {})), tools=[PlainTool("work")])
    answer = await run(rig)
    warned = ["orchestrator-loop-guard" in str(request.messages) for request in rig.provider.requests]
    assert warned == [False, False, False, True, False, False]
    assert answer == "[Stopped: the same calls (work) brought the same results 6 times in a row.]"
    assert [(d["action"], d["repetitions"]) for d in rig.data("orchestrator:loop_detected")] == [
        ("warn", 3),
        ("stop", 6),
    ]
    assert rig.context.messages[-1]["content"] == answer


async def test_polling_tools_are_exempt(run: Any) -> None:
    """A tool that polls by nature may bring the same result for ever, up to the limit."""
    rig = LoopRig(call(("1", "poll", {})), tools=[PlainTool("poll", polling=True)])
    await run(rig, {"max_iterations": 20})
    assert len(rig.tools["poll"].inputs) == 20
    assert rig.data("orchestrator:loop_detected") == []


async def test_a_cancelled_turn_lets_the_assistant_speak_last(run: Any) -> None:
    """After tools and a cancellation, the next prompt follows an assistant message."""
    rig = LoopRig()
    rig.tools["stop"] = PlainTool("stop", lambda _: rig.coordinator.cancellation.request_graceful())
    rig.provider.answers = [call(("1", "stop", {}), text="on it")]
    assert await run(rig) == "on it"
    assert [m["role"] for m in rig.context.messages] == ["user", "assistant", "tool", "assistant"]


async def test_cancellation_is_told_once_and_callbacks_run(run: Any) -> None:
    """cancel:requested comes once, with the state, and the token's callbacks are triggered."""
    rig = LoopRig()
    called: list[str] = []
    rig.coordinator.cancellation.on_cancel(lambda: called.append("sync"))

    async def escalate(_: Any) -> None:
        await rig.coordinator.request_cancel()
        await wait_for(lambda: bool(rig.data("cancel:requested")), timeout=60)
        await rig.coordinator.request_cancel(immediate=True)
        await asyncio.Event().wait()

    rig.tools["work"] = PlainTool("work", escalate)
    rig.provider.answers = [call(("1", "work", {}))]
    await run(rig)
    [requested] = rig.data("cancel:requested")
    assert (requested["orchestrator"], requested["state"], requested["turn_count"]) == ("loop-plain", "graceful", 1)
    assert called == ["sync"]
    [completed] = rig.data("cancel:completed")
    assert completed["was_immediate"] is True


async def test_a_callback_that_hangs_does_not_hold_the_turn(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Callbacks have a few seconds, then the turn ends without them."""
    monkeypatch.setattr("amplifier_kit.engine.loop.turn._CALLBACK_SECONDS", 0.01)
    rig = LoopRig(say("never"))
    rig.coordinator.cancellation.on_cancel(asyncio.Event().wait)
    rig.coordinator.cancellation.request_graceful()
    assert await run(rig) == ""


@pytest.mark.parametrize("place", ["hook", "callback"])
async def test_a_program_that_is_ended_on_cancellation_keeps_no_event_back(run: Any, place: str) -> None:
    """A hook on cancel:requested or a callback that calls sys.exit is logged, and the turn is closed."""
    rig = LoopRig(say("never"))
    if place == "hook":
        rig.coordinator.hooks.register("cancel:requested", lambda event, data: sys.exit(3))
    else:
        rig.coordinator.cancellation.on_cancel(lambda: sys.exit(3))
    rig.coordinator.cancellation.request_graceful()
    assert await run(rig) == ""
    closing = ["prompt:complete", "orchestrator:complete", "execution:end"]
    assert rig.names(*closing) == closing


class Forgetful(ListContext):
    """Show requests nothing of the past, and take no second message with calls before `go`."""

    def __init__(self) -> None:
        super().__init__()
        self.reached, self.go = asyncio.Event(), asyncio.Event()

    async def add_message(self, message: dict[str, Any]) -> None:
        if "tool_calls" in message and any("tool_calls" in earlier for earlier in self.messages):
            self.reached.set()
            await self.go.wait()
        await super().add_message(message)

    async def get_messages_for_request(self, *_: Any, **__: Any) -> list[dict[str, Any]]:
        return self.messages[:1]


async def test_a_call_that_never_ran_has_no_result_of_an_earlier_one(run: Any) -> None:
    """A turn that is cancelled while it stores a call says so, also when the id was used before."""
    context = Forgetful()
    rig = LoopRig(call(("1", "work", {})), call(("1", "work", {})), tools=[PlainTool("work")], context=context)
    turn = asyncio.create_task(run(rig))
    await context.reached.wait()
    turn.cancel()
    await asyncio.sleep(0)
    context.go.set()
    with pytest.raises(asyncio.CancelledError):
        await turn
    first, second = rig.results()
    assert first == "work done"
    assert '"cancelled": true' in second


async def test_a_hook_that_fails_at_the_end_keeps_no_event_back(run: Any) -> None:
    """A registry that breaks on one closing event does not swallow the next, nor the answer."""
    rig = LoopRig(say("done"))
    emit = rig.coordinator.hooks.emit

    class Breaking:
        async def emit(self, event: str, data: Any) -> Any:
            if event == "prompt:complete":
                raise OSError("registry gone")
            return await emit(event, data)

    rig.coordinator._hooks = Breaking()
    assert await run(rig) == "done"
    assert rig.names("orchestrator:complete", "execution:end") == ["orchestrator:complete", "execution:end"]


async def test_an_exit_at_the_end_waits_for_the_closing_events(run: Any) -> None:
    """A hook of a closing event that calls sys.exit ends the program, after the other closing events."""
    rig = LoopRig(say("done"))
    rig.coordinator.hooks.register("prompt:complete", lambda event, data: sys.exit(3), priority=99)
    with pytest.raises(SystemExit, match="3"):
        await run(rig)
    closing = ["prompt:complete", "orchestrator:complete", "execution:end"]
    assert rig.names(*closing) == closing


class Flaky(ListContext):
    """Refuse some messages."""

    def __init__(self, refuses: Any) -> None:
        super().__init__()
        self.refuses = refuses

    async def add_message(self, message: dict[str, Any]) -> None:
        if self.refuses(message):
            raise OSError("disk full")
        await super().add_message(message)


async def test_a_context_that_takes_no_result_ends_the_turn(run: Any) -> None:
    """When no result can be stored the turn fails, and the next request is sound all the same."""
    context = Flaky(lambda message: message["role"] == "tool")
    rig = LoopRig(call(("1", "work", {})), say("done"), tools=[PlainTool("work")], context=context)
    with pytest.raises(OSError, match="disk full"):
        await run(rig)
    assert rig.data("execution:end")[0]["status"] == "error"
    context.refuses = lambda _: False
    assert await rig.run("again") == "done"
    assert check_pairing([m.model_dump() for m in rig.provider.requests[-1].messages]) == []


async def test_a_refused_result_costs_no_other_result(run: Any) -> None:
    """A context that refuses one result of a batch gets the others, whose tools have run."""
    context = Flaky(lambda message: message.get("tool_call_id") == "1")
    rig = LoopRig(call(("1", "work", {}), ("2", "work", {})), tools=[PlainTool("work")], context=context)
    with pytest.raises(OSError, match="disk full"):
        await run(rig)
    assert [message["tool_call_id"] for message in context.messages if message["role"] == "tool"] == ["2"]


async def test_a_refused_result_does_not_hide_a_cancellation(run: Any) -> None:
    """A turn that is cancelled while its tools run ends as cancelled, whatever its context refuses then."""
    started = asyncio.Event()

    async def wait(_: dict[str, Any]) -> None:
        started.set()
        await asyncio.Event().wait()

    context = Flaky(lambda message: message["role"] == "tool")
    rig = LoopRig(call(("1", "wait", {})), tools=[PlainTool("wait", wait)], context=context)
    turn = asyncio.create_task(run(rig))
    await started.wait()
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert context.messages[-1]["role"] == "assistant"


async def test_a_message_that_cannot_be_stored_runs_nothing(run: Any) -> None:
    """When the assistant's message is refused, its tools do not run and no result is left alone."""
    work = PlainTool("work")
    context = Flaky(lambda message: message["role"] == "assistant")
    rig = LoopRig(call(("1", "work", {})), tools=[work], context=context)
    with pytest.raises(OSError, match="disk full"):
        await run(rig)
    assert work.inputs == []
    assert check_pairing(context.messages) == []


async def test_blocking_stop_hook_is_bounded(run: Any) -> None:
    """A hook that denies the end of a turn does not keep it from ending."""
    rig = LoopRig(say("done"))
    rig.on("prompt:complete", "deny", reason="keep going")
    assert await run(rig) == "done"
    assert len(rig.provider.requests) == 1


async def test_signs_of_life_while_a_tool_runs(run: Any) -> None:
    """A long call is reported as running, by id and name, until it ends."""
    rig = LoopRig()

    async def wait_for_beat(_: Any) -> str:
        await wait_for(lambda: bool(rig.data("execution:heartbeat")), timeout=60)
        return "ok"

    rig.tools["slow"] = PlainTool("slow", wait_for_beat)
    rig.provider.answers = [call(("1", "slow", {})), say("done")]
    assert await run(rig, {"heartbeat_interval": 0.01}) == "done"
    beat = rig.data("execution:heartbeat")[0]
    assert (beat["orchestrator"], beat["iteration"]) == ("loop-plain", 0)
    assert [(running["id"], running["name"]) for running in beat["running"]] == [("1", "slow")]
    assert beat["running"][0]["elapsed_ms"] >= 0


async def test_the_kernel_reports_the_end_of_a_cancellation_itself(mount: Any) -> None:
    """Inside a session, cancel:completed comes once, from the kernel."""
    rig = LoopRig(say("never"))
    session = AmplifierSession({"session": {"orchestrator": "o", "context": "c"}})
    events: list[str] = []
    session.coordinator.hooks.register("*", lambda event, _: events.append(event))
    session.coordinator.mount_points |= {"context": rig.context, "providers": rig.providers}
    await mount(session.coordinator)
    session.initialized = True
    session.coordinator.cancellation.request_graceful()
    await session.execute("hi")
    assert [event for event in events if event.startswith("cancel:")] == ["cancel:requested", "cancel:completed"]


async def test_two_turns_share_nothing_but_the_context(run: Any) -> None:
    """Pending injections of one turn do not leak into the next, and iterations count from the start."""
    rig = LoopRig(say("one"), say("two"))
    rig.on("prompt:complete", "inject_context", context_injection="too late", ephemeral=True)
    await run(rig)
    assert await rig.run("again") == "two"
    assert "too late" not in str(rig.provider.requests[1].messages)
    assert [data["iteration"] for data in rig.data("provider:request")] == [0, 0]
    assert [data["turn_count"] for data in rig.data("orchestrator:complete")] == [1, 1]

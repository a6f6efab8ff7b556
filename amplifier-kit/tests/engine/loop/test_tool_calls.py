"""Tool calls: hooks, results as the model reads them, failures, and tools that do not behave."""

import asyncio
import json
import sys
from typing import Any

import pytest

from amplifier_core import data as kernel_data
from amplifier_core.bounded_call import DeadlineExceeded
from amplifier_core.message_models import ChatResponse
from amplifier_core.models import HookResult, ToolResult
from amplifier_core.testing import EventRecorder, wait_for
from amplifier_kit.engine import tasks
from amplifier_kit.engine.tasks import run_bounded
from amplifier_testing.loop.fakes import LoopRig, PlainTool, call, say


def rig_for(tool: PlainTool, arguments: dict[str, Any] | None = None, **options: Any) -> LoopRig:
    return LoopRig(call(("1", tool.name, arguments or {})), say("done"), tools=[tool], **options)


async def test_the_payloads_of_a_call(run: Any) -> None:
    """tool:pre and tool:post say tool, input, call and group; tool:post says the result as hooks may see it."""
    rig = rig_for(PlainTool("work", lambda _: {"n": 1}), {"x": 1})
    await run(rig)
    [before], [after] = rig.data("tool:pre"), rig.data("tool:post")
    for data in (before, after):
        assert (data["tool_name"], data["tool_input"], data["tool_call_id"]) == ("work", {"x": 1}, "1")
    assert before["parallel_group_id"] == after["parallel_group_id"]
    assert after["result"] == {"success": True, "output": {"n": 1}, "error": None}
    assert after["duration_ms"] >= 0
    assert rig.names("tool:pre", "approval:granted", "tool:post") == ["tool:pre", "approval:granted", "tool:post"]


@pytest.mark.parametrize(
    ("returned", "content"),
    [
        (ToolResult(output={"b": 1, "a": [2]}), '{"b": 1, "a": [2]}'),
        (ToolResult(output="plain"), "plain"),
        (ToolResult(), "Success"),
        (ToolResult(success=False, error={"message": "no such file"}), "no such file"),
        ({"raw": True}, '{"raw": true}'),
        ("text", "text"),
        (ToolResult(output={"odd": {1, 2}}), "{'odd': {1, 2}}"),
        (ToolResult(output="bad \udc80 byte"), "bad  byte"),
    ],
)
async def test_results_as_the_model_reads_them(run: Any, returned: Any, content: str) -> None:
    """A tool message holds the serialised output; what JSON cannot carry becomes text, and no hook is blamed."""
    rig = rig_for(PlainTool("work", lambda _: returned))
    await run(rig)
    assert rig.results() == [content]


async def test_images_reach_the_model(run: Any) -> None:
    """A result with content keeps its blocks, which hooks see only as a note."""
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    rig = rig_for(PlainTool("look", lambda _: ToolResult(output="a picture", content=[image])))
    await run(rig)
    [content] = rig.results()
    assert content[0] == {"type": "text", "text": "a picture"}
    assert content[1]["source"]["data"] == "aGk="
    assert "aGk=" not in json.dumps(rig.data("tool:post"))


@pytest.mark.parametrize(
    ("shown", "content"), [({"short": True}, '{"short": true}'), (["x"], '["x"]'), ("cut", "cut"), (7, "7")]
)
async def test_a_hook_may_rewrite_a_result(run: Any, shown: Any, content: str) -> None:
    """A result that a hook changed is what the model reads, as JSON or text."""
    rig = rig_for(PlainTool("work", lambda _: "long"))

    def rewrite(_: str, data: dict[str, Any]) -> HookResult:
        return HookResult(action="modify", data={**data, "result": shown})

    rig.coordinator.hooks.register("tool:post", rewrite)
    await run(rig)
    assert rig.results() == [content]


async def test_a_hook_that_changes_nothing_rewrites_nothing(run: Any) -> None:
    """A modification with the same value is none, although the data went through copies."""
    rig = rig_for(PlainTool("work", lambda _: {"pair": (1, 2)}), {"deep": {"x": [1]}})
    for event in ("tool:pre", "tool:post"):
        rig.coordinator.hooks.register(event, lambda _, data: HookResult(action="modify", data=data))
    await run(rig)
    assert rig.results() == ['{"pair": [1, 2]}']
    assert rig.tools["work"].inputs == [{"deep": {"x": [1]}}]


async def test_a_denied_call(run: Any) -> None:
    """A hook's deny is the result, with its reason, and closes the call in the log."""
    work = PlainTool("work")
    rig = rig_for(work)
    rig.on("tool:pre", "deny", reason="too risky")
    assert await run(rig) == "done"
    assert rig.results() == ["Denied by hook: too risky"]
    assert work.inputs == []
    [error] = rig.data("tool:error")
    assert (error["error"], error["status"]) == ({"type": "denied", "msg": "too risky"}, "denied")


async def test_a_hook_that_denies_is_a_violation(run: Any) -> None:
    """What a hook denies is reported as what a policy denies is: the input as proposed, who denied it and why."""
    rig = rig_for(PlainTool("work"), {"command": "make deploy"})
    denial = HookResult(action="deny", reason="too risky")
    rig.coordinator.hooks.register("tool:pre", lambda event, data: denial, name="calendar")
    await run(rig)
    [violation] = rig.data("policy:violation")
    assert (violation["action"], violation["source"], violation["reason"]) == ("tool.work", "calendar", "too risky")
    assert violation["details"]["tool_input"] == {"command": "make deploy"}
    assert violation["details"]["tool_call_id"] == "1"
    assert rig.names("policy:violation", "approval:denied", "tool:error") == ["policy:violation", "tool:error"]


async def test_a_policy_that_denies_is_one_violation(run: Any) -> None:
    """The kernel reports it, and the loop does not report it again."""
    rig = rig_for(PlainTool("work"), policy=lambda action, details: ("deny", "not here"))
    await run(rig)
    reported = ["policy:violation", "approval:denied", "tool:error"]
    assert rig.names(*reported) == reported


async def test_a_hook_that_asks_a_person_itself_is_no_violation(run: Any) -> None:
    """A hook that reports the refusal of a person before it denies is not reported as a policy."""
    rig = rig_for(PlainTool("work"))

    async def ask(event: str, data: dict[str, Any]) -> HookResult:
        await rig.coordinator.hooks.emit("approval:denied", {"tool_name": "work", "reason": "no, thanks"})
        return HookResult(action="deny", reason="no, thanks")

    rig.coordinator.hooks.register("tool:pre", ask)
    await run(rig)
    assert rig.names("policy:violation", "approval:denied") == ["approval:denied"]


class Slow:
    """A person who takes a while to say yes."""

    seconds = 0.05

    async def request_approval(self, *_: Any, **__: Any) -> str:
        await asyncio.sleep(self.seconds)
        return "Allow"


async def test_the_time_a_person_takes_is_not_the_duration(run: Any) -> None:
    """A policy that asks: the answer's time is in waited_ms, and the call took the rest."""
    rig = rig_for(PlainTool("work"), policy="ask")
    rig.coordinator.approval_system = Slow()
    await run(rig)
    [after] = rig.data("tool:post")
    assert after["waited_ms"] >= 1000 * Slow.seconds * 0.9
    assert after["duration_ms"] < after["waited_ms"]


async def test_the_time_a_person_takes_over_the_question_of_a_hook(run: Any) -> None:
    """A hook that asks: the same."""
    rig = rig_for(PlainTool("work"))
    rig.coordinator.approval_system = Slow()
    rig.on("tool:pre", "ask_user", approval_prompt="Deploy?")
    await run(rig)
    [after] = rig.data("tool:post")
    assert after["waited_ms"] >= 1000 * Slow.seconds * 0.9
    assert after["duration_ms"] < after["waited_ms"]


@pytest.mark.parametrize("reported", [{}, {"waited_ms": 50}])
async def test_the_time_a_person_takes_over_a_hooks_own_question(run: Any, reported: dict[str, Any]) -> None:
    """A hook that asks by its own means and emits the approval events has waited from one to the other."""
    rig = rig_for(PlainTool("work"))

    async def ask(event: str, data: dict[str, Any]) -> None:
        await rig.coordinator.hooks.emit("approval:required", {"tool_name": "work"})
        await asyncio.sleep(Slow.seconds)
        await rig.coordinator.hooks.emit("approval:granted", {"tool_name": "work", **reported})

    rig.coordinator.hooks.register("tool:pre", ask)
    await run(rig)
    [after] = rig.data("tool:post")
    assert after["waited_ms"] >= 1000 * Slow.seconds * 0.9
    assert after["duration_ms"] < after["waited_ms"]


async def test_a_question_of_the_kernel_is_timed_once(run: Any) -> None:
    """The kernel's clock has measured it, so its approval events add nothing."""
    rig = rig_for(PlainTool("work"), policy="ask")
    rig.coordinator.approval_system = Slow()
    await run(rig)
    [granted], [after] = rig.data("approval:granted"), rig.data("tool:post")
    assert after["waited_ms"] == pytest.approx(granted["waited_ms"], abs=2)


async def test_a_call_nobody_is_asked_about_has_not_waited(run: Any) -> None:
    """Without a question there is no waiting time to report."""
    rig = rig_for(PlainTool("work"))
    await run(rig)
    assert "waited_ms" not in rig.data("tool:post")[0]


class Panic(BaseException):
    """What native code raises that has lost its way."""


@pytest.mark.parametrize("kind", [Panic, SystemExit])
async def test_a_call_whose_tool_panics_is_closed(run: Any, kind: type[BaseException]) -> None:
    """A BaseException of a tool is a result and an event like any other, and the turn continues."""

    def panic(given: Any) -> None:
        raise kind("index out of bounds")

    rig = rig_for(PlainTool("work", panic))
    assert await run(rig) == "done"
    assert rig.results() == [f"Error executing tool: it ended in {kind.__name__}: index out of bounds"]
    [error] = rig.data("tool:error")
    assert (error["error"]["type"], error["status"]) == ("Crashed", "error")


@pytest.mark.parametrize(("event", "ran"), [("tool:pre", 0), ("tool:post", 1)])
async def test_a_hook_that_ends_the_program_ends_its_call(run: Any, event: str, ran: int) -> None:
    """When a hook calls sys.exit, the call it judges does not run, and the turn continues."""

    def leave(event: str, data: dict[str, Any]) -> None:
        sys.exit(3)

    work = PlainTool("work", lambda _: "seen")
    rig = rig_for(work)
    rig.coordinator.hooks.register(event, leave, name="test")
    assert await run(rig) == "done"
    [result] = rig.results()
    assert result.startswith("Error: the call ended in SystemExit: 3;")
    assert len(work.inputs) == ran


async def test_a_hook_that_ends_the_program_leaves_the_results_of_others(run: Any) -> None:
    """A hook that calls sys.exit on tool:error costs that call its own result and no other."""

    def fail(_: Any) -> None:
        raise OSError("disk on fire")

    tools = [PlainTool("work", lambda _: "seen"), PlainTool("break", fail)]
    rig = LoopRig(call(("1", "break", {}), ("2", "work", {})), say("done"), tools=tools)
    rig.coordinator.hooks.register("tool:error", lambda event, data: sys.exit(3), name="test")
    assert await run(rig) == "done"
    assert rig.results() == ["Error executing tool: it ended in SystemExit: 3", "seen"]


async def test_a_hook_that_ends_the_program_does_not_hide_a_cancellation(run: Any) -> None:
    """A caller that cancels the turn gets its CancelledError, whatever a hook on tool:error does."""
    started = asyncio.Event()

    async def wait(_: Any) -> None:
        started.set()
        await asyncio.Event().wait()

    rig = rig_for(PlainTool("work", wait))
    rig.coordinator.hooks.register("tool:error", lambda event, data: sys.exit(3), name="test")
    turn = asyncio.create_task(run(rig))
    await started.wait()
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert len(rig.results()) == 1


async def test_a_gate_on_results_withholds_them(run: Any) -> None:
    """A deny on tool:post keeps the result from the model; the call still has one."""
    rig = rig_for(PlainTool("work", lambda _: "secret"))
    rig.on("tool:post", "deny", reason="classified")
    await run(rig)
    assert rig.results() == ["Result withheld by hook: classified"]


async def test_an_input_that_is_no_object_is_refused(run: Any) -> None:
    """A hook that breaks the input stops the call."""
    work = PlainTool("work")
    rig = rig_for(work)
    rig.coordinator.hooks.register(
        "tool:pre", lambda _, data: HookResult(action="modify", data={**data, "tool_input": "rm"})
    )
    await run(rig)
    assert work.inputs == []
    assert rig.results()[0].startswith("Denied by hook: a hook changed the input to str")


async def test_an_unknown_tool_is_a_result(run: Any) -> None:
    """A tool that is not there is said to be so, with what there is."""
    rig = LoopRig(call(("1", "magic", {})), say("done"), tools=[PlainTool("work")])
    assert await run(rig) == "done"
    assert rig.results() == ["Error: Tool 'magic' not found. Available tools: work"]
    assert rig.data("tool:error")[0]["error"]["type"] == "unknown_tool"


async def test_an_exception_is_a_result(run: Any) -> None:
    """A tool that raises is answered with what it raised, and reported."""

    def fail(_: Any) -> None:
        raise OSError("disk on fire")

    rig = rig_for(PlainTool("work", fail))
    assert await run(rig) == "done"
    assert rig.results() == ["Error executing tool: disk on fire"]
    [error] = rig.data("tool:error")
    assert error["error"] == {"type": "OSError", "msg": "disk on fire"}
    assert (error["tool_name"], error["tool_call_id"], error["status"]) == ("work", "1", "error")
    assert rig.data("tool:post") == []


class Unprintable(Exception):
    """An exception without a text."""

    def __str__(self) -> str:
        raise ValueError("no text")


async def test_an_exception_that_cannot_be_printed_is_a_result(run: Any) -> None:
    """A tool's exception whose text fails is described by its type."""

    def fail(_: Any) -> None:
        raise Unprintable

    rig = rig_for(PlainTool("work", fail))
    assert await run(rig) == "done"
    assert rig.results() == ["Error executing tool: Unprintable()"]
    assert rig.data("tool:error")[0]["error"] == {"type": "Unprintable", "msg": "Unprintable()"}


@pytest.mark.parametrize("timeout", [None, 60])
async def test_a_deadline_inside_a_tool_is_not_its_timeout(run: Any, timeout: float | None) -> None:
    """A tool whose own bounded call took too long has failed; the loop's timeout has not passed."""

    def fail(_: Any) -> None:
        raise DeadlineExceeded("timeout after 3 s")

    rig = rig_for(PlainTool("work", fail))
    assert await run(rig, {"tool_timeout": timeout}) == "done"
    assert rig.results() == ["Error executing tool: timeout after 3 s"]
    [error] = rig.data("tool:error")
    assert (error["error"]["type"], error["status"]) == ("DeadlineExceeded", "error")


async def test_a_cancelled_error_of_the_tools_own_is_a_failure(run: Any) -> None:
    """A tool that raises CancelledError by itself fails; it does not end the turn."""

    def fail(_: Any) -> None:
        raise asyncio.CancelledError

    rig = rig_for(PlainTool("work", fail))
    assert await run(rig) == "done"
    assert rig.results()[0].startswith("Error executing tool: it raised CancelledError")


async def test_arguments_that_cannot_be_read_are_a_result(run: Any) -> None:
    """A malformed call is reported to the model, and nothing runs."""
    work = PlainTool("work")
    rig = rig_for(work)

    def parse(response: ChatResponse) -> list[Any]:
        return [{"id": made.id, "name": made.name, "arguments": "{"} for made in response.tool_calls or []]

    rig.provider.parse_tool_calls = parse  # type: ignore[method-assign]
    await run(rig)
    assert "not valid JSON" in rig.results()[0]
    assert work.inputs == []


async def test_a_tool_that_ignores_its_cancellation_does_not_hold_the_turn(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After its deadline and its grace, a stubborn tool is left running and the turn continues."""
    monkeypatch.setattr(tasks, "GRACE", 0.01)
    end = asyncio.Event()

    async def stubborn(_: Any) -> None:
        while not end.is_set():
            try:
                await end.wait()
            except asyncio.CancelledError:
                continue

    rig = rig_for(PlainTool("work", stubborn))
    assert await run(rig, {"tool_timeout": 0.01}) == "done"
    assert "timeout" in rig.results()[0]
    end.set()
    assert await wait_for(lambda: not tasks._running, timeout=60)


async def test_waiting_for_a_person_is_not_the_tools_time(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The deadline of a tool starts when the tool does, not when hooks and policies are asked about it."""
    rig = rig_for(PlainTool("work"))
    started: list[list[str]] = []

    async def watched(*work: Any, **limits: Any) -> Any:
        started.append(rig.names("tool:pre", "approval:granted"))
        return await run_bounded(*work, **limits)

    monkeypatch.setattr("amplifier_kit.engine.loop.tool_calls.run_bounded", watched)
    await run(rig)
    assert started == [["tool:pre", "approval:granted"]]


async def test_a_running_tool_is_known_by_its_call(run: Any) -> None:
    """Code inside a tool finds its call by the task, and the token knows what runs; afterwards both are empty."""
    rig = LoopRig(say("x"))
    seen: list[Any] = []

    def look(_: Any) -> str:
        dispatch = rig.coordinator._tool_dispatch_contexts[asyncio.current_task()]
        seen.append((dispatch, rig.coordinator.cancellation.running_tool_names))
        return "ok"

    rig.tools["delegate"] = PlainTool("delegate", look)
    rig.provider.answers = [call(("1", "delegate", {"agent": "explorer"})), say("done")]
    await run(rig)
    [(dispatch, names)] = seen
    assert dispatch["tool_call_id"] == "1"
    assert dispatch["parallel_group_id"] == rig.data("tool:pre")[0]["parallel_group_id"]
    assert names == ["explorer"]
    assert rig.coordinator._tool_dispatch_contexts == {}
    assert rig.coordinator.cancellation.running_tools == set()


async def test_a_graceful_stop_lets_running_tools_finish_and_starts_none(run: Any) -> None:
    """What runs may finish; what waits for permission meanwhile is answered as not started."""
    rig = LoopRig()

    async def stop(_: Any) -> str:
        await rig.coordinator.request_cancel()
        await wait_for(lambda: len(rig.data("approval:granted")) == 2, timeout=60)
        return "finished"

    async def policy(action: str, _: Any) -> str:
        if action == "tool.late":
            await wait_for(lambda: rig.coordinator.cancellation.is_cancelled, timeout=60)
        return "allow"

    late = PlainTool("late")
    rig.tools = {"stop": PlainTool("stop", stop), "late": late}
    rig.coordinator.register_policy("slow", policy)
    rig.provider.answers = [call(("1", "stop", {}), ("2", "late", {})), say("never")]
    await run(rig)
    first, second = rig.results()
    assert first == "finished"
    assert json.loads(second)["cancelled"] is True
    assert "nothing was done" in json.loads(second)["error"]
    assert late.inputs == []
    assert len(rig.provider.requests) == 1


async def test_an_immediate_stop_keeps_what_was_finished(run: Any) -> None:
    """Results that are there are kept; the rest is answered with a synthetic one."""
    rig = LoopRig()

    async def stop(_: Any) -> None:
        await wait_for(lambda: bool(rig.data("tool:post")), timeout=60)
        await rig.coordinator.request_cancel(immediate=True)
        await asyncio.Event().wait()

    rig.tools = {"quick": PlainTool("quick", lambda _: "real"), "stop": PlainTool("stop", stop)}
    rig.provider.answers = [call(("1", "quick", {}), ("2", "stop", {}))]
    await run(rig)
    assert rig.results()[0] == "real"
    lost = json.loads(rig.results()[1])
    assert (lost["cancelled"], lost["tool"]) == (True, "stop")
    assert rig.context.messages[-1]["role"] == "assistant"


async def test_injections_stand_behind_all_results_in_call_order(run: Any) -> None:
    """What hooks inject for good never comes between a call and its result."""
    rig = LoopRig(call(("1", "a", {}), ("2", "b", {})), say("done"), tools=[PlainTool("a"), PlainTool("b")])

    def inject(_: str, data: dict[str, Any]) -> HookResult:
        return HookResult(action="inject_context", context_injection=f"about {data['tool_name']}")

    rig.coordinator.hooks.register("tool:post", inject)
    await run(rig)
    contents = [message["content"] for message in rig.context.messages[2:6]]
    assert contents == ["a done", "b done", "about a", "about b"]


async def test_an_injection_that_is_too_long_is_left_out(run: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A hook that injects more than is allowed loses its injection, not the turn."""
    rig = rig_for(PlainTool("work"))
    rig.coordinator.config["session"]["injection_size_limit"] = 5
    rig.on("tool:post", "inject_context", context_injection="far too long")
    assert await run(rig) == "done"
    assert "Could not apply 'inject_context'" in caplog.text
    assert [message["role"] for message in rig.context.messages] == ["user", "assistant", "tool", "assistant"]


async def test_a_question_that_fails_is_a_refusal(run: Any) -> None:
    """An approval system that breaks does not let anything through."""

    class Broken:
        async def request_approval(self, *_: Any) -> str:
            raise OSError("terminal gone")

    work = PlainTool("work")
    rig = rig_for(work)
    rig.coordinator.approval_system = Broken()
    rig.on("tool:pre", "ask_user")
    await run(rig)
    assert work.inputs == []
    assert "terminal gone" in rig.results()[0]


async def test_authorization_that_fails_is_a_refusal(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """When permission cannot even be asked for, the tool does not run."""

    async def broken(*_: Any) -> None:
        raise OSError("no policy file")

    work = PlainTool("work")
    rig = rig_for(work)
    monkeypatch.setattr(rig.coordinator, "authorize", broken)
    await run(rig)
    assert work.inputs == []
    assert rig.results() == ["Denied: the question could not be asked: no policy file"]


async def test_without_a_coordinator_no_tool_runs(plain_loop: Any) -> None:
    """A turn by itself has no policies, so that none allows a tool."""
    tool = PlainTool("work")
    rig = rig_for(tool)
    parts: dict[str, Any] = {"context": rig.context, "providers": rig.providers, "tools": rig.tools}
    assert await plain_loop().execute("hi", hooks=EventRecorder(), **parts) == "done"
    assert rig.results()[-1].startswith("Denied: the session cannot be asked")
    assert tool.inputs == []


async def test_on_a_kernel_without_policies_hooks_still_decide(
    plain_loop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the published program tools run unless a hook says no, and questions are refused."""
    monkeypatch.setattr("amplifier_kit.guard.authorization.kernel_has_policies", lambda: False)
    rig = rig_for(PlainTool("work"))
    parts: dict[str, Any] = {"context": rig.context, "providers": rig.providers, "tools": rig.tools}
    assert await plain_loop().execute("hi", hooks=EventRecorder(), **parts) == "done"
    assert rig.results() == ["work done"]
    rig.provider.requests.clear()
    rig.on("tool:pre", "ask_user")
    await plain_loop().execute("hi", hooks=rig.coordinator.hooks, **parts)
    assert rig.results()[-1] == "Denied by hook: No approval system available"


async def test_injections_without_a_coordinator(plain_loop: Any) -> None:
    """Without a coordinator, what hooks inject for good is stored by the turn itself."""
    rig = LoopRig(say("done"))
    rig.on("prompt:submit", "inject_context", context_injection="mind the step")
    parts: dict[str, Any] = {"context": rig.context, "providers": rig.providers, "tools": None}
    await plain_loop().execute("hi", hooks=rig.coordinator.hooks, **parts)
    assert [m["content"] for m in rig.context.messages[:2]] == ["mind the step", "hi"]


async def test_a_result_is_traversed_at_most_four_times(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the tool to the model's message a result is copied, cleaned or serialised at most four times."""
    traversals: list[str] = []
    rows = [{"marker": 1}]

    def count(owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def counting(value: Any, *arguments: Any, **options: Any) -> Any:
            if value == rows or (name == "dumps" and isinstance(value, dict) and "marker" in str(value)):
                traversals.append(name)
            return original(value, *arguments, **options)

        monkeypatch.setattr(owner, name, counting)

    for name in ("_clean", "_copy", "_copy_tree"):
        count(kernel_data, name)
    count(json, "dumps")
    rig = rig_for(PlainTool("work", lambda _: ToolResult(output={"rows": rows})))
    await run(rig)
    assert rig.results() == ['{"rows": [{"marker": 1}]}']
    assert 0 < len(traversals) <= 4, traversals

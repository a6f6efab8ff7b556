"""loop-events: hooks choose tools, calls run one by one, and failures of the provider become the answer."""

import asyncio
from typing import Any

import pytest

from amplifier_core.llm_errors import RateLimitError
from amplifier_core.models import HookResult
from amplifier_core.testing import EventRecorder
from amplifier_module_loop_events import EventsLoop, mount
from amplifier_testing.loop.fakes import ListContext, LoopRig, PlainTool, ScriptedProvider, call, say


async def run(rig: LoopRig, config: dict[str, Any] | None = None) -> Any:
    await rig.mount(mount, config)
    return await rig.run()


def two_tools(**options: Any) -> LoopRig:
    tools = [PlainTool("read"), PlainTool("grep")]
    return LoopRig(call(("1", "read", {"path": "x"})), say("done"), tools=tools, **options)


async def test_the_order_of_a_call() -> None:
    """A tool is selected before anything else is asked about it."""
    rig = two_tools()
    assert await run(rig) == "done"
    of_call = [name for name in rig.names() if name.startswith(("tool:", "approval:"))]
    assert of_call == ["tool:selecting", "tool:selected", "tool:pre", "approval:granted", "tool:post"]
    [selecting], [selected] = rig.data("tool:selecting"), rig.data("tool:selected")
    assert (selecting["tool_name"], selecting["tool_input"]) == ("read", {"path": "x"})
    assert selecting["available_tools"] == ["read", "grep"]
    assert (selected["tool"], selected["source"], selected["original_tool"]) == ("read", "llm", "read")


async def test_a_hook_may_veto_a_tool() -> None:
    """A deny on tool:selecting is the result of the call; nothing runs."""
    rig = two_tools()
    rig.on("tool:selecting", "deny", reason="not this one")
    assert await run(rig) == "done"
    assert rig.results() == ["Denied by hook: not this one"]
    assert rig.tools["read"].inputs == []
    assert rig.data("error:tool") == []


def swap(name: Any) -> Any:
    return lambda _, data: HookResult(action="modify", data={**data, "tool": name})


async def test_a_hook_may_swap_a_tool() -> None:
    """The tool that a hook names runs instead, and its permission is the one that is asked for."""
    rig = two_tools(policy=lambda action, _: "allow" if action == "tool.grep" else "deny")
    rig.coordinator.hooks.register("tool:selecting", swap("grep"))
    await run(rig)
    assert rig.results() == ["grep done"]
    assert rig.tools["grep"].inputs == [{"path": "x"}]
    [selected] = rig.data("tool:selected")
    assert (selected["tool"], selected["source"], selected["original_tool"]) == ("grep", "scheduler", "read")
    assert rig.data("tool:pre")[0]["tool_name"] == "grep"
    assert rig.context.messages[2]["tool_call_id"] == "1"


async def test_a_swap_for_nothing_is_a_result() -> None:
    """A tool that is not there is said to be so; a swap that names nothing is none."""
    rig = two_tools()
    rig.coordinator.hooks.register("tool:selecting", swap("magic"))
    await run(rig)
    assert rig.results() == ["Error: Tool 'magic' not found. Available tools: read, grep"]
    other = two_tools()
    other.coordinator.hooks.register("tool:selecting", swap(None))
    await run(other)
    assert other.results() == ["read done"]


async def test_calls_run_one_after_the_other() -> None:
    """The second call does not start before the first has ended."""
    running: list[str] = []

    async def work(_: Any) -> str:
        assert not running
        running.append("x")
        await asyncio.sleep(0.01)
        running.pop()
        return "ok"

    rig = LoopRig(call(("1", "work", {}), ("2", "work", {})), say("done"), tools=[PlainTool("work", work)])
    await run(rig)
    assert rig.results() == ["ok", "ok"]


async def test_a_graceful_stop_starts_no_further_call() -> None:
    """Of several calls, those after the stop are answered without asking anybody about them."""
    rig = LoopRig()
    rig.tools = {
        "stop": PlainTool("stop", lambda _: rig.coordinator.cancellation.request_graceful()),
        "late": PlainTool("late"),
    }
    rig.provider.answers = [call(("1", "stop", {}), ("2", "late", {}))]
    await run(rig)
    assert len(rig.data("tool:selecting")) == 1
    assert "nothing was done" in rig.results()[1]


async def test_a_failing_tool_is_reported_twice() -> None:
    """tool:error is followed by the loop's own error:tool."""

    def fail(_: Any) -> None:
        raise OSError("disk on fire")

    rig = LoopRig(call(("1", "work", {})), say("done"), tools=[PlainTool("work", fail)])
    await run(rig)
    assert rig.names("tool:error", "error:tool") == ["tool:error", "error:tool"]
    [error] = rig.data("error:tool")
    assert (error["tool"], error["error_type"], error["error_message"]) == ("work", "OSError", "disk on fire")
    assert error["severity"] == "error"


async def test_a_failing_provider_becomes_the_answer() -> None:
    """What the provider raised is said, reported twice, and the turn has the status error."""
    rig = LoopRig(RateLimitError("slow down"))
    assert await run(rig) == "Error: provider 'scripted' gave no answer: slow down"
    assert rig.names("provider:error", "error:provider") == ["provider:error", "error:provider"]
    [error] = rig.data("error:provider")
    assert (error["provider"], error["error_type"], error["severity"]) == ("scripted", "RateLimitError", "error")
    assert rig.data("execution:end")[0]["status"] == "error"


async def test_other_failures_are_raised() -> None:
    """A context that cannot store the prompt is no failure of the provider."""

    class Broken(ListContext):
        async def add_message(self, message: dict[str, Any]) -> None:
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        await run(LoopRig(say("never"), context=Broken()))


async def test_the_first_provider_answers() -> None:
    """Priorities do not count here; a named provider does."""
    rig = LoopRig(say("first"))
    rig.providers["second"] = ScriptedProvider(say("second"), priority=1)
    assert await run(rig) == "first"
    named = LoopRig(say("first"))
    named.providers["second"] = ScriptedProvider(say("second"))
    assert await run(named, {"default_provider": "second"}) == "second"


async def test_a_context_of_the_old_kind_is_asked_to_shorten_itself() -> None:
    """A context that should compact is told to, after an event; others are left alone."""

    class Old(ListContext):
        compacted = 0

        def should_compact(self) -> bool:
            return self.compacted == 0

        async def compact(self) -> None:
            self.compacted += 1

    context = Old()
    rig = two_tools(context=context)
    await run(rig)
    assert context.compacted == 1
    assert len(rig.data("context:pre-compact")) == 1


async def test_session_events_are_the_kernels() -> None:
    """With a coordinator the loop emits no session events; by itself it does, whatever happens."""
    rig = two_tools()
    await run(rig)
    assert rig.names("session:start", "session:end") == []
    alone = EventRecorder()
    parts: dict[str, Any] = {"context": ListContext(), "providers": rig.providers, "tools": {}, "hooks": alone}
    await EventsLoop().execute("hi", **parts)
    assert alone.events[0] == ("session:start", {"prompt": "hi"})
    assert alone.events[-1] == ("session:end", {"response": "done"})

"""Calls outside of a turn: hooks and policies have their say, every call gets a result, nothing is stored."""

from __future__ import annotations

from typing import Any

from amplifier_core.models import HookResult
from amplifier_kit.engine.loop.reply import Call
from amplifier_kit.engine.loop.tool_calls import run_calls
from amplifier_testing.loop.fakes import LoopRig, PlainTool


def _rig(*tools: PlainTool, **options: Any) -> LoopRig:
    rig = LoopRig(tools=tools, **options)
    rig.coordinator.mount_points["tools"] = rig.tools
    return rig


async def test_calls_run_as_in_a_turn() -> None:
    """Events, policy and results are those of a turn, in the order of the calls; the conversation is left alone."""
    tool = PlainTool("work", lambda given: f"did {given['n']}", action="test.work")
    rig = _rig(tool)
    done = await run_calls(rig.coordinator, [Call("1", "work", {"n": 1}), Call("2", "work", {"n": 2})])
    assert [(one.call.id, one.content, one.synthetic) for one in done] == [("1", "did 1", False), ("2", "did 2", False)]
    assert tool.inputs == [{"n": 1}, {"n": 2}]
    assert sorted(rig.names("tool:pre", "approval:granted", "tool:post")) == sorted(
        ["tool:pre", "approval:granted", "tool:post"] * 2
    )
    assert rig.context.messages == []


async def test_policies_and_hooks_deny() -> None:
    """A call that a policy or a hook denies does not run, and its result says why."""
    tool = PlainTool("work")
    rig = _rig(tool, policy=lambda action, details: ("deny", "never"))
    (done,) = await run_calls(rig.coordinator, [Call("1", "work", {})])
    assert done.content == "Denied: never"
    rig = _rig(tool)
    rig.on("tool:pre", "deny", reason="not on Sundays")
    (done,) = await run_calls(rig.coordinator, [Call("1", "work", {})])
    assert done.content == "Denied by hook: not on Sundays"
    assert tool.inputs == []


async def test_input_that_a_hook_changes_is_judged_again() -> None:
    """The tool gets what the policy has seen, also when a hook has changed it."""
    tool, seen = PlainTool("work"), []

    def policy(action: str, details: dict[str, Any]) -> str:
        seen.append(details["tool_input"])
        return "allow"

    rig = _rig(tool, policy=policy)

    def rewrite(event: str, data: dict[str, Any]) -> HookResult:
        return HookResult(action="modify", data={**data, "tool_input": {"n": 2}})

    rig.coordinator.hooks.register("tool:pre", rewrite)
    await run_calls(rig.coordinator, [Call("1", "work", {"n": 1})])
    assert seen == tool.inputs == [{"n": 2}]


async def test_tools_that_are_gone_or_fail() -> None:
    """A tool that is not mounted any more, and one that fails, are reported in the result."""

    def fail(_: dict[str, Any]) -> str:
        raise ValueError("no luck")

    rig = _rig(PlainTool("work", fail))
    gone, failed = await run_calls(rig.coordinator, [Call("1", "gone", {}), Call("2", "work", {})])
    assert "Tool 'gone' not found" in gone.content
    assert "no luck" in failed.content
    assert rig.names("tool:error") == ["tool:error"] * 2


async def test_injections_come_at_the_end() -> None:
    """What hooks want injected is in the conversation when the calls are done."""
    rig = _rig(PlainTool("work"))
    rig.on("tool:post", "inject_context", context_injection="mind the gap", context_injection_role="system")
    await run_calls(rig.coordinator, [Call("1", "work", {})])
    assert ["mind the gap" in str(message["content"]) for message in rig.context.messages] == [True]


async def test_cancelled_session_starts_nothing() -> None:
    """In a session that is asked to stop no call starts, and the result says so."""
    tool = PlainTool("work")
    rig = _rig(tool)
    rig.coordinator.cancellation.request_graceful()
    (done,) = await run_calls(rig.coordinator, [Call("1", "work", {})])
    assert done.synthetic
    assert "nothing was done" in done.content
    assert tool.inputs == []


async def test_no_calls() -> None:
    """Nothing comes of no calls."""
    assert await run_calls(_rig().coordinator, []) == []

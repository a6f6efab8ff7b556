"""Amplifier as a Linux kernel: the system calls, few and sharp."""

from __future__ import annotations

import json
from typing import Any

import pytest

from amplifier_core import HookResult
from amplifier_core.coordinator import emit, get_context, mount, register_hook, set_context_fragment, unmount
from amplifier_core.session import fork_session, get_session, session_create
from amplifier_core.testing import MockTool


async def test_session_create_returns_an_id(bench: Any) -> None:
    """session_create(plan) gives the id of a live session, which runs turns and is forgotten at cleanup."""
    session_id = await session_create(bench.plan())
    session = get_session(session_id)
    assert session.session_id == session_id
    assert await session.execute("hi") == "echo: hi"
    await session.cleanup()
    with pytest.raises(LookupError, match=session_id):
        get_session(session_id)


async def test_mount_and_unmount_a_driver(bench: Any) -> None:
    """mount(point, module, config) loads a driver into a running session, unmount(point) takes it out again."""
    bench.install_greeter()
    async with bench.session() as session:
        await mount("tools", "tool-greeter", {"greeting": "good day"}, session_id=session.session_id)
        assert await session.execute('greet {"who": "you"}') == "good day you"
        await unmount("tools", "tool-greeter", session_id=session.session_id)
        assert session.coordinator.get("tools") == {}
        assert await session.execute("still up") == "echo: still up"


async def test_mount_and_unmount_an_object(bench: Any) -> None:
    """An object mounts under its own name; a single point is emptied without naming anything."""
    async with bench.session() as session:
        tool = MockTool("thing")
        assert (await mount("tools", tool, session_id=session.session_id))["thing"] is tool
        await unmount("tools", tool, session_id=session.session_id)
        assert "thing" not in session.coordinator.get("tools")
        await unmount("context", session_id=session.session_id)
        assert session.coordinator.get("context") is None


async def test_emit_never_blocks_critical_flow(bench: Any) -> None:
    """Handlers that fail do not stop an event, and the emitter is told the verdict of the others."""
    heard: list[str] = []

    def broken(event: str, data: Any) -> None:
        raise RuntimeError("driver bug")

    async with bench.session() as session:
        session_id = session.session_id
        register_hook("plan:start", broken, -10, session_id=session_id)
        register_hook("plan:start", lambda event, data: heard.append(data["goal"]), 10, session_id=session_id)
        verdict = await emit("plan:start", {"goal": "g"}, session_id=session_id)
    assert heard == ["g"]
    assert verdict.action == "continue"


async def test_register_hook_orders_by_priority_and_leaves_policy_to_handlers(bench: Any) -> None:
    """Lower priorities run first; what an event means is decided by the handler, not by the kernel."""
    order: list[str] = []

    def refuse(event: str, data: Any) -> HookResult:
        order.append("policy")
        return HookResult(action="deny", reason="not on my watch")

    async with bench.session() as session:
        session_id = session.session_id
        register_hook("tool:pre", lambda event, data: order.append("late"), 5, session_id=session_id)
        remove = register_hook("tool:pre", refuse, 0, session_id=session_id)
        register_hook("tool:pre", lambda event, data: order.append("early"), -5, session_id=session_id)
        assert (await emit("tool:pre", {}, session_id=session_id)).reason == "not on my watch"
        remove()
        assert (await emit("tool:pre", {}, session_id=session_id)).action == "continue"
    assert order == ["early", "policy", "early", "late"]


async def test_context_fragments(bench: Any, record: Any) -> None:
    """set_context_fragment sets, announces and removes; get_context gives a view that nobody can write to."""
    async with bench.session() as session:
        heard, session_id = record(session), session.session_id
        announced = set_context_fragment("rules", "be brief", session_id=session_id)
        assert announced is not None
        await announced
        fragments = get_context(session_id=session_id).fragments
        assert fragments == {"rules": "be brief"}
        with pytest.raises(TypeError):
            fragments["rules"] = "be rude"  # type: ignore[index]
        (include,) = heard.data("context:include")
        assert (include["key"], include["bytes"]) == ("rules", 8)
        set_context_fragment("rules", None, session_id=session_id)
        assert get_context(session_id=session_id).fragments == {}


async def test_fork_clones_and_never_mutates(bench: Any, record: Any) -> None:
    """fork_session gives a child with the merged plan and its own modules; the parent stays as it was."""
    bench.install_greeter()
    async with bench.session(bench.plan(tools=["tool-greeter"])) as parent:
        before = json.dumps(parent.config)
        child = get_session(await fork_session(parent.session_id, {"tools": [], "experiment": True}))
        assert (child.parent_id, child.loader) == (parent.session_id, parent.loader)
        assert child.config["experiment"] is True
        assert child.coordinator.get("tools") == {}
        assert "greet" in parent.coordinator.get("tools")
        child.config["session"]["orchestrator"]["module"] = "something-else"
        assert json.dumps(parent.config) == before
        await parent.coordinator.request_cancel()
        assert child.coordinator.cancellation.is_cancelled
        await child.cleanup()


async def test_syscalls_act_on_the_session_at_hand(bench: Any) -> None:
    """Inside a turn the calls need no id; outside of every session they say what to do."""
    bench.install(
        "tool-inside",
        """
        from amplifier_core import ToolResult
        from amplifier_core.coordinator import emit, get_context, set_context_fragment

        class Inside:
            name, description, input_schema = "inside", "Use the system calls", {}

            async def execute(self, input):
                await set_context_fragment("mine", input["n"])
                await emit("plan:end", {"n": input["n"]})
                return ToolResult(success=True, output=dict(get_context().fragments))

        async def mount(coordinator, config=None):
            await coordinator.mount("tools", Inside(), name="inside")
        """,
    )
    plan = bench.plan(tools=["tool-inside"])
    async with bench.session(plan) as one, bench.session(plan) as two:
        assert await one.execute('inside {"n": 1}') == {"mine": 1}
        assert await two.execute('inside {"n": 2}') == {"mine": 2}
        assert get_context(session_id=one.session_id).fragments == {"mine": 1}
    with pytest.raises(RuntimeError, match=r"emit: no session is running here\. .*session_id="):
        await emit("plan:end", {})

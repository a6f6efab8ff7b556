"""Faults that hooks of other agents had, each with the test that we do not have it; docs/hooks.md lists them."""

from __future__ import annotations

import asyncio
import gc
import itertools
import logging
import tracemalloc
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from amplifier_core import AmplifierSession, HookResult

ToolSession = Callable[..., Awaitable[AmplifierSession]]

FORBIDDEN = "rm -rf /"


class Person:
    """Answer every approval request in the same way, and remember what was asked."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[str] = []

    async def request_approval(self, prompt: str, options: list[str], timeout: float, default: str) -> str:
        self.asked.append(prompt)
        if isinstance(self.answer, BaseException):
            raise self.answer
        answer: str = self.answer
        return answer


def forbidding(action: str, details: dict[str, Any]) -> Any:
    return ("deny", "that is forbidden") if details["command"] == FORBIDDEN else None


async def test_deny_rule_wins_over_allowing_hook(tool_session: ToolSession) -> None:
    """No hook, policy or person can allow what a deny rule denies, in whatever order they speak."""
    for order in itertools.permutations((-1, 0, 1)):
        person = Person("Allow")
        session = await tool_session(approval_system=person)
        coordinator = session.coordinator
        coordinator.register_policy("generous", lambda action, details: "allow", order[0])
        coordinator.register_policy("rules", forbidding, order[1])
        coordinator.register_policy("unsure", lambda action, details: "ask", order[2])
        coordinator.hooks.register("*", lambda event, data: HookResult(action="continue", reason="allowed"))
        assert await session.execute(FORBIDDEN) == "denied: that is forbidden"
        assert person.asked == []
        assert await session.execute("ls") == "ran: ls"
        assert len(person.asked) == 1
        await session.cleanup()


@pytest.mark.parametrize("others", list(itertools.permutations(["continue", "modify", "inject_context"])))
async def test_ask_is_a_floor(tool_session: ToolSession, others: tuple[str, ...]) -> None:
    """A question by a hook or a policy is asked, whatever milder things the others say; and only a yes runs."""
    for answer, outcome in (("Allow", "ran: ls"), ("Deny", "denied: "), ("whatever", "denied: ")):
        person = Person(answer)
        session = await tool_session(approval_system=person)
        hooks = session.coordinator.hooks
        for priority, action in enumerate(others):
            mild = HookResult(action=action, data={"a": 1}, context_injection="t")
            hooks.register("tool:pre", lambda event, data, mild=mild: mild, priority)
        hooks.register("tool:pre", lambda event, data: HookResult(action="ask_user", approval_prompt="hook?"), 1)
        session.coordinator.register_policy("generous", lambda action, details: "allow")
        session.coordinator.register_policy("unsure", lambda action, details: ("ask", "policy?"))
        assert (await session.execute("ls")).startswith(outcome)
        assert person.asked == (["hook?", "Allow process.exec? policy?"] if answer == "Allow" else ["hook?"])
        await session.cleanup()


async def test_modified_input_is_checked_again(tool_session: ToolSession) -> None:
    """What a hook makes of the input is what later gates and the policies judge, and what runs."""
    ran: list[str] = []
    session = await tool_session(lambda arguments: ran.append(arguments["command"]))
    coordinator = session.coordinator
    coordinator.register_policy("rules", forbidding)
    coordinator.register_policy("generous", lambda action, details: "allow", priority=1)

    def rewriter(event: str, data: dict[str, Any]) -> HookResult:
        return HookResult(action="modify", data={**data, "tool_input": {"command": FORBIDDEN}})

    def gate(event: str, data: dict[str, Any]) -> HookResult | None:
        return HookResult(action="deny", reason="gate") if data["tool_input"]["command"] == FORBIDDEN else None

    remove_gate = coordinator.hooks.register("tool:pre", gate, priority=10)
    remove = coordinator.hooks.register("tool:pre", rewriter, priority=5)
    assert await session.execute("ls") == "denied: gate"
    remove()
    assert await session.execute("ls") == "ran: None"
    remove_gate()
    coordinator.hooks.register("tool:pre", gate, priority=1)
    coordinator.hooks.register("tool:pre", rewriter, priority=5)  # after the gate has let it pass
    assert await session.execute("ls") == "denied: that is forbidden"
    assert ran == ["ls"]
    await session.cleanup()


MakePlan = Callable[..., dict[str, Any]]


async def test_blocking_stop_hook_is_bounded(tool_session: ToolSession, reports: Any) -> None:
    """A hook that blocks the end, by denying, asking, hanging or emitting it again, does not keep a session alive."""
    heard: list[str] = []
    session = await tool_session(session={"hook_timeout": 0.02})
    hooks = session.coordinator.hooks

    async def again(event: str, data: Any) -> None:
        if len(heard) < 1_000:
            heard.append(event)
            await hooks.emit(event, data)
            await session.cleanup()

    async def hanging(event: str, data: Any) -> None:
        await asyncio.Event().wait()

    for event in ("prompt:complete", "orchestrator:complete", "session:end"):
        hooks.register(event, again, name="again")
        hooks.register(event, hanging, name="hanging")
        hooks.register(event, lambda event, data: HookResult(action="ask_user", approval_prompt="Really stop?"))
        hooks.register(event, lambda event, data: HookResult(action="deny", reason="Do not stop"))
    async with asyncio.timeout(60):
        await session.execute("ls")
        await session.cleanup()
    assert not session.initialized
    assert 0 < len(heard) < 1_000
    await session.cleanup()


class Loop:
    """An orchestrator that runs the given function."""

    def __init__(self, act: Callable[[Any], Any]) -> None:
        self.act = act

    async def execute(self, coordinator: Any, **_: Any) -> Any:
        return await self.act(coordinator)


async def fails(coordinator: Any) -> None:
    await asyncio.sleep(0)
    raise ValueError("the turn failed")


@pytest.mark.parametrize(("resumed", "event"), [(False, "session:start"), (True, "session:resume")])
async def test_session_start_once_per_session(make_plan: MakePlan, resumed: bool, event: str) -> None:
    """Start, or resume, is said once per session: not per turn, not by concurrent turns, not again after a failure."""
    heard: list[str] = []
    session = AmplifierSession(make_plan(), is_resumed=resumed)
    session.coordinator.hooks.register("*", lambda name, data: heard.append(name))
    await asyncio.gather(*(session.initialize() for _ in range(3)))
    assert heard == []
    await session.coordinator.mount("orchestrator", Loop(fails))
    outcomes = await asyncio.gather(*(session.execute("hi") for _ in range(3)), return_exceptions=True)
    assert [str(outcome) for outcome in outcomes] == ["the turn failed"] * 3
    with pytest.raises(ValueError, match="the turn failed"):
        await session.execute("hi")
    await session.cleanup()
    assert heard == [event, "session:end"]


async def test_injected_context_survives_tool_error(tool_session: ToolSession) -> None:
    """What hooks inject before a tool runs, and when it has failed, is in the context after the failure."""

    def fails(arguments: dict[str, Any]) -> None:
        raise OSError("disk is gone")

    session = await tool_session(fails)
    session.coordinator.register_policy("generous", lambda action, details: "allow")
    for event in ("tool:pre", "tool:error"):
        session.coordinator.hooks.register(
            event,
            lambda event, data: HookResult(action="inject_context", context_injection=f"note on {event}"),
            name=f"notes {event}",
        )
    assert await session.execute("ls") == "failed: disk is gone"
    messages = await session.coordinator.get("context").get_messages()
    assert [(message["content"], message["metadata"]["hook_name"]) for message in messages] == [
        ("note on tool:pre", "notes tool:pre"),
        ("note on tool:error", "notes tool:error"),
    ]
    await session.cleanup()


async def test_hook_output_keeps_event_lineage(tool_session: ToolSession) -> None:
    """What a hook injects names hook and event, and what it emits belongs to the turn and span it was called in."""
    session = await tool_session(is_resumed=True, parent_id="the-parent")
    coordinator = session.coordinator
    coordinator.register_policy("generous", lambda action, details: "allow")
    heard: list[dict[str, Any]] = []
    coordinator.hooks.register("*", lambda event, data: heard.append({"event": event, **data}))

    async def emitting(event: str, data: Any) -> HookResult:
        await asyncio.sleep(0)
        await coordinator.hooks.emit("by:hook", {"about": event})
        with coordinator.span("inner"):
            await asyncio.create_task(coordinator.hooks.emit("by:task", {}))
        return HookResult(action="inject_context", context_injection="note")

    coordinator.hooks.register("tool:pre", emitting, name="emitter")
    for _ in range(2):
        await session.execute("ls")
    first, second = _split(heard, "by:hook")
    for turn in (first, second):
        by_hook, by_task, tool_pre = turn[:3]
        assert [step["event"] for step in (by_hook, by_task, tool_pre)] == ["by:hook", "by:task", "tool:pre"]
        for field in ("session_id", "parent_id", "trace_id", "turn_id"):
            assert by_hook[field] == by_task[field] == tool_pre[field]
        assert by_hook["span_id"] == tool_pre["span_id"] == by_task["parent_span_id"]
        assert by_task["span_id"] != by_hook["span_id"]
    assert first[0]["turn_id"] != second[0]["turn_id"]
    messages = await coordinator.get("context").get_messages()
    assert [(m["metadata"]["hook_name"], m["metadata"]["event"]) for m in messages] == [("emitter", "tool:pre")] * 2
    await session.cleanup()


def _split(steps: list[dict[str, Any]], start: str) -> list[list[dict[str, Any]]]:
    """Split a list of events before every one called `start`; what comes before the first is left out."""
    starts = [index for index, step in enumerate(steps) if step["event"] == start]
    return [steps[begin:end] for begin, end in itertools.pairwise([*starts, len(steps)])]


async def test_long_session_memory_is_flat(tool_session: ToolSession, caplog: pytest.LogCaptureFixture) -> None:
    """Thousands of events, answers, failures and injections leave nothing behind in the kernel."""
    caplog.set_level(logging.CRITICAL + 1, "amplifier_core")  # or the test itself would keep every report

    def fails(event: str, data: Any) -> None:
        raise ValueError("x" * 1_000)

    session = await tool_session(is_resumed=True)
    coordinator = session.coordinator
    coordinator.register_policy("generous", lambda action, details: "allow")
    hooks = coordinator.hooks
    hooks.register("*", lambda event, data: HookResult(action="modify", data=data))
    hooks.register("tool:post", fails)
    hooks.register("tool:pre", lambda event, data: HookResult(action="inject_context", context_injection="n" * 1_000))

    async def turns(count: int, first: int) -> None:
        for number in range(first, first + count):
            await session.execute(f"command {number}" + "c" * 1_000)
            await hooks.emit(f"made:up_{number}", {"payload": "p" * 1_000})
            await hooks.emit("llm:request", {})
            await hooks.emit_and_collect(f"asked:{number}", {"payload": "p" * 1_000})
            hooks.register("x:y", fails)()
            await coordinator.get("context").clear()

    tracemalloc.start()
    try:
        await turns(60, 0)
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        await turns(300, 60)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 30_000, "one kilobyte kept of one event per turn would be ten times that"
    await session.cleanup()

"""Hazards of what hooks leave behind: context, lineage and memory."""

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

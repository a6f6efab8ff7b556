"""Events become records."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from amplifier_core import HookRegistry, HookResult
from amplifier_core.events import ALL_EVENTS
from amplifier_core.testing import MockCoordinator
from amplifier_module_hooks_logging import mount, on_session_ready


async def recording(config: dict[str, Any] | None = None) -> tuple[MockCoordinator, list[dict[str, Any]]]:
    """Return a coordinator whose app takes the records, with the module ready."""
    coordinator: MockCoordinator = MockCoordinator()
    records: list[dict[str, Any]] = []
    coordinator.add_log_sink(records.append)
    await mount(coordinator, config)
    await on_session_ready(coordinator)
    return coordinator, records


async def test_every_canonical_event() -> None:
    """Each is recorded once, with what it carried."""
    coordinator, records = await recording({"exclude_events": []})
    for event in ALL_EVENTS:
        await coordinator.hooks.emit(event, {"number": event})
    assert [(record["event"], record["data"]) for record in records] == [(e, {"number": e}) for e in ALL_EVENTS]


async def test_one_handler_hears_everything() -> None:
    """It observes, so that no handler, whatever its priority, keeps an event from it."""
    coordinator, _ = await recording({"priority": 42})
    assert coordinator.hooks.list_handlers() == {}
    order: list[str] = []
    coordinator.hooks.register("tool:pre", lambda e, d: order.append("early"), priority=41)
    coordinator.add_log_sink(lambda record: order.append("logged"))
    coordinator.hooks.register("tool:pre", lambda e, d: order.append("late"), priority=43)
    await coordinator.hooks.emit("tool:pre", {})
    assert order == ["early", "late", "logged"]


async def test_a_kernel_without_observers(monkeypatch: pytest.MonkeyPatch) -> None:
    """There it is a handler for every event, with the priority that was asked for."""
    monkeypatch.delattr(HookRegistry, "observe")
    coordinator, records = await recording({"priority": 42})
    assert coordinator.hooks.list_handlers() == {"*": ["hooks-logging"]}
    await coordinator.hooks.emit("tool:pre", {"tool_name": "bash"})
    assert [record["event"] for record in records] == ["tool:pre"]


async def test_an_event_that_a_hook_denies() -> None:
    """It is one line: what was proposed, who denied it and why."""
    coordinator, records = await recording()
    verdict = HookResult(action="deny", reason="not on Fridays")
    coordinator.hooks.register("tool:pre", lambda event, data: verdict, priority=-10, name="calendar")
    await coordinator.hooks.emit("tool:pre", {"tool_name": "bash", "tool_input": {"command": "make deploy"}})
    [record] = records
    assert record["status"] == "denied"
    assert record["data"] == {
        "tool_name": "bash",
        "tool_input": {"command": "make deploy"},
        "denied_by": "calendar",
        "denied_reason": "not on Fridays",
    }


async def test_an_event_that_a_hook_asks_about() -> None:
    """Its line names the hook; the answer is in the approval event that follows."""
    coordinator, records = await recording()
    verdict = HookResult(action="ask_user", approval_prompt="Deploy?")
    coordinator.hooks.register("tool:pre", lambda event, data: verdict, name="calendar")
    await coordinator.hooks.emit("tool:pre", {"tool_name": "bash"})
    assert records[0]["data"]["asked_by"] == "calendar"
    assert "status" not in records[0]


DELEGATE = [
    f"delegate:{name}" for name in ("agent_spawned", "agent_resumed", "agent_completed", "agent_cancelled", "error")
]


async def test_events_contributed_late() -> None:
    """Names that are contributed after everyone was ready, or never, are recorded like any other."""
    coordinator, records = await recording()
    await coordinator.hooks.emit(DELEGATE[0], {})
    coordinator.register_contributor("observability.events", "tool-delegate", lambda: DELEGATE)
    for event in DELEGATE[1:]:
        await coordinator.hooks.emit(event, {})
    assert [record["event"] for record in records] == DELEGATE


async def test_without_discovery() -> None:
    """Then only the canonical events and the additional ones are recorded."""
    coordinator, records = await recording({"auto_discover": False, "additional_events": ["mine:one"]})
    coordinator.register_contributor("observability.events", "other", lambda: ["other:one"])
    for event in ("tool:pre", "other:one", "mine:one"):
        await coordinator.hooks.emit(event, {})
    assert [record["event"] for record in records] == ["tool:pre", "mine:one"]


async def test_excluded_events() -> None:
    """Patterns take events out, the pieces of streams by default; an empty list takes none out."""
    deltas = ["llm:stream_block_delta", "llm:stream_thinking_delta"]
    others = ["llm:stream_aborted", "content_block:delta", "x:llm:stream_block_delta"]
    for config, expected in (
        ({}, others),
        ({"exclude_events": []}, deltas + others),
        ({"exclude_events": ["llm:*", "content_block:delta"]}, others[2:]),
        ({"exclude_events": ["mine:*"], "additional_events": ["mine:one"]}, deltas + others),
    ):
        coordinator, records = await recording(config)
        for event in (*deltas, *others, "mine:one") if "additional_events" in config else (*deltas, *others):
            await coordinator.hooks.emit(event, {})
        assert [record["event"] for record in records] == expected


async def test_raw_can_be_left_out() -> None:
    """`strip_raw` leaves out what providers sent and received, in the log alone."""
    coordinator, records = await recording({"strip_raw": True})
    seen: list[Any] = []
    coordinator.hooks.register("llm:request", lambda e, d: seen.append(d["raw"]), priority=200)
    await coordinator.hooks.emit("llm:request", {"raw": {"messages": []}, "model": "m"})
    assert records[0]["data"] == {"model": "m"}
    assert seen == [{"messages": []}]
    coordinator, records = await recording()
    await coordinator.hooks.emit("llm:request", {"raw": {"messages": []}})
    assert records[0]["data"] == {"raw": {"messages": []}}


async def test_the_record_is_schema_v1() -> None:
    """The emit's time, ids and facts stand on the top level; an error raises the level, DEBUG stays."""
    coordinator, records = await recording()
    stamped: list[str] = []
    coordinator.hooks.register("tool:error", lambda e, d: stamped.append(d["timestamp"]))
    with coordinator.span("tool"):
        await coordinator.hooks.emit(
            "tool:error",
            {"status": "error", "duration_ms": 3, "request_id": "r", "error": {"type": "E", "msg": "m"}, "tool": "x"},
        )
    await coordinator.hooks.emit("llm:request:debug", {"lvl": "DEBUG", "error": "no matter"})
    first, second = records
    assert first["ts"] == stamped[0]
    assert (first["lvl"], first["status"], first["duration_ms"], first["request_id"]) == ("ERROR", "error", 3, "r")
    assert first["session_id"] == "test-session"
    assert len(first["span_id"]) == 16
    assert first["data"] == {"tool": "x"}
    assert second["lvl"] == "DEBUG"


async def test_payloads_that_are_not_objects() -> None:
    """Nothing, text and lists are recorded too."""
    coordinator, records = await recording()
    for data in (None, "text", [1, 2]):
        await coordinator.hooks.emit("tool:pre", data)
    assert [record["data"] for record in records] == [{}, {"value": "text"}, {"value": [1, 2]}]


async def test_payload_keys_that_collide() -> None:
    """A payload may use the names of `coordinator.log`'s own parameters."""
    coordinator, records = await recording()
    await coordinator.hooks.emit("tool:pre", {"event": "inner", "level": "x", "message": "m", "self": 1})
    assert records[0]["event"] == "tool:pre"
    assert records[0]["data"] == {"event_": "inner", "level": "x", "message": "m", "self": 1}


async def test_it_changes_nothing() -> None:
    """The verdict of an emit is what it is without the log."""
    coordinator, _ = await recording()
    result = await coordinator.hooks.emit("tool:pre", {"a": 1})
    assert result.action == "continue"
    assert result.data is not None
    assert result.data["a"] == 1


async def test_redaction_comes_first() -> None:
    """Records pass the processors, whoever registered them and when."""
    coordinator, records = await recording()
    coordinator.add_log_processor(lambda record: {**record, "data": {"masked": True}})
    await coordinator.hooks.emit("tool:pre", {"password": "hunter2"})
    assert records[0]["data"] == {"masked": True}


async def test_events_of_parallel_tasks() -> None:
    """Each is recorded with the ids of its own task."""
    coordinator, records = await recording()

    async def work(number: int) -> None:
        with coordinator.span("work"):
            for _ in range(5):
                await coordinator.hooks.emit("tool:pre", {"number": number, "span": coordinator.span_id})
                await asyncio.sleep(0)

    await asyncio.gather(*(work(number) for number in range(10)))
    assert len(records) == 50
    assert all(record["span_id"] == record["data"]["span"] for record in records)
    assert len({record["span_id"] for record in records}) == 10


async def test_mounted_twice_records_once() -> None:
    """The last config counts, and no line is written twice."""
    coordinator: MockCoordinator = MockCoordinator()
    records: list[dict[str, Any]] = []
    coordinator.add_log_sink(records.append)
    await mount(coordinator, {"exclude_events": ["a:*"]})
    await mount(coordinator, {"exclude_events": ["b:*"]})
    await on_session_ready(coordinator)
    await on_session_ready(coordinator)
    for event in ("a:x", "b:x"):
        await coordinator.hooks.emit(event, {})
    assert [record["event"] for record in records] == ["a:x"]


async def test_two_coordinators_do_not_share() -> None:
    """Config and records belong to one session; nothing is kept in the module."""
    first, second = MockCoordinator(), MockCoordinator()
    kept: dict[str, list[str]] = {"first": [], "second": []}
    first.add_log_sink(lambda record: kept["first"].append(record["event"]))
    second.add_log_sink(lambda record: kept["second"].append(record["event"]))
    await mount(first, {"exclude_events": ["x"]})
    await mount(second, {"exclude_events": ["y"]})
    await on_session_ready(second)
    await on_session_ready(first)
    for coordinator in (first, second):
        for event in ("x", "y"):
            await coordinator.hooks.emit(event, {})
    assert kept == {"first": ["y"], "second": ["x"]}


async def test_many_names_are_decided_rightly() -> None:
    """What is remembered about names is bounded; the decision is the same beyond that."""
    coordinator, records = await recording({"exclude_events": ["*7"]})
    for index in range(5000):
        await coordinator.hooks.emit(f"made:{index}", {})
    assert len(records) == 4500


async def test_ready_without_mount(caplog: pytest.LogCaptureFixture) -> None:
    """A callback without a config does nothing."""
    coordinator: MockCoordinator = MockCoordinator()
    await on_session_ready(coordinator)
    assert coordinator.hooks.list_handlers() == {}

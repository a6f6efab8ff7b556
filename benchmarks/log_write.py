"""Measure the session log: how many events reach the disk in a second, and what an event costs a turn."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from harness import Row, Setting
from workloads import Work, insist, time_in_turn, write_session_modules

EVENTS_PER_SECOND = 50_000
MICROSECONDS_PER_EVENT = 30.0

#: The events of a turn with two tool calls, as large as they usually are.
TURN: list[tuple[str, dict[str, Any]]] = [
    ("prompt:submit", {"prompt": "What changed since yesterday, and does it still build? " * 4}),
    ("execution:start", {"prompt": "What changed since yesterday, and does it still build? " * 4}),
    ("provider:request", {"provider": "bench", "iteration": 1}),
    ("llm:request", {"provider": "bench", "model": "bench-1", "message_count": 14, "tool_count": 9, "stream": True}),
    (
        "llm:response",
        {
            "provider": "bench",
            "model": "bench-1",
            "status": "ok",
            "duration_ms": 812.4,
            "usage": {"input_tokens": 9120, "output_tokens": 312, "total_tokens": 9432, "cost_usd": "0.0123"},
        },
    ),
    (
        "provider:response",
        {"provider": "bench", "usage": {"input_tokens": 9120, "output_tokens": 312}, "tool_calls": 2},
    ),
    (
        "tool:pre",
        {"tool_name": "bash", "tool_call_id": "c1", "tool_input": {"command": "git log --since=yesterday --oneline"}},
    ),
    ("approval:granted", {"action": "process.exec", "source": "rules", "reason": "git log is allowed", "details": {}}),
    (
        "tool:post",
        {
            "tool_name": "bash",
            "tool_call_id": "c1",
            "tool_input": {"command": "git log --since=yesterday --oneline"},
            "result": {"success": True, "output": "4f2a91c Fix the login\n" * 12},
            "duration_ms": 31.8,
        },
    ),
    ("provider:request", {"provider": "bench", "iteration": 2}),
    ("prompt:complete", {"response_preview": "Twelve commits since yesterday; it builds. " * 4, "length": 2210}),
    ("orchestrator:complete", {"orchestrator": "loop-bench", "turn_count": 2, "status": "success"}),
]


def events_per_second(batches: int, events: int) -> float:
    """Write batches of `events` records, each to a fresh log, and return the upper quartile of the rates."""
    from amplifier_kit.log.reader import read_log
    from amplifier_kit.log.writer import SessionLog

    record = {
        "ts": "2026-01-01T12:00:00.000000+00:00",
        "lvl": "INFO",
        "event": "tool:post",
        "session_id": "5f0c6a3e-0000-4000-8000-000000000000",
        "trace_id": "0af7651916cd43dd8448eb211c80319c",
        "turn_id": "0af7651916cd43dd8448eb211c80319c",
        "span_id": "b7ad6b7169203331",
        "data": TURN[8][1],
    }
    rates: list[float] = []
    for _ in range(batches):
        with tempfile.TemporaryDirectory() as folder:
            log = SessionLog(folder)
            start = time.perf_counter()
            for _ in range(events):
                log.write(record)
            log.close()
            rates.append(events / (time.perf_counter() - start))
            insist([line.seq for line in read_log(folder)] == list(range(1, events + 1)), "lines are missing")
    return sorted(rates)[-1 - len(rates) // 4]


async def added_to_a_turn(batches: int) -> float:
    """Run the same turn with and without the log, in turn, and return the microseconds an event costs more."""
    from amplifier_core import AmplifierSession
    from amplifier_kit.log.reader import read_log
    from amplifier_kit.log.writer import SessionLog
    from amplifier_module_hooks_logging import mount, on_session_ready

    class Loop:
        async def execute(self, prompt: str, hooks: Any, **_: Any) -> str:
            for event, data in TURN:
                await hooks.emit(event, data)
            return "done"

    with tempfile.TemporaryDirectory() as folder:
        sys.path.insert(0, folder)
        plan = write_session_modules(Path(folder), tools=1)
        works: list[Work] = []
        sessions = []
        log = SessionLog(Path(folder) / "session")
        for logged in (False, True):
            session = AmplifierSession(plan)
            await session.initialize()
            await session.coordinator.mount("orchestrator", Loop())
            if logged:
                session.coordinator.add_log_sink(log.write)
                await mount(session.coordinator, {})
                await on_session_ready(session.coordinator)
            sessions.append(session)

            async def work(times: int, session: AmplifierSession = session) -> None:
                for _ in range(times):
                    await session.execute("hello")

            works.append(work)
        bare, logging = await time_in_turn(works, None, batches)
        for session in sessions:
            await session.cleanup()
        log.close()
        sys.path.remove(folder)
        # The kernel's own events, and the end that the log writes for a turn whose loop emits none, are not counted.
        ours = [line.event for line in read_log(Path(folder) / "session") if "written_by" not in line.data]
        events = [event for event in ours if not event.startswith("session:")]
        insist(len(events) == events.count("prompt:submit") * len(TURN), "not every event was logged")
    return (logging - bare) / len(TURN)


def measure(setting: Setting) -> list[Row]:
    """Return the rows of the log; batches have `size` events."""
    rate = events_per_second(max(1, setting.rounds // 4), setting.size)
    added = asyncio.run(added_to_a_turn(setting.rounds))
    return [
        Row("log write, events to disk", rate, "events/s", least=EVENTS_PER_SECOND),
        Row("log write, an event added to a turn", added, "µs", most=MICROSECONDS_PER_EVENT),
    ]

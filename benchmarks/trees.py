"""Start very many sessions from one session, and watch what mixes and what grows.

First, children one after the other and in batches: afterwards there must be no more tasks and open files than before,
and memory must not grow more than what the parent remembers of each child, as Python counts it and as the system does.
Then many children at once in one process, each with its own tool call and one in ten stopped on the way: every one
must have its own ledger, log, configuration and contributions, and every log must be closed.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import tempfile
import time
import tracemalloc
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from document import circumstances, table
from harness import Found, Row, Setting
from plain_tools import Tool, add_module
from workloads import resident_bytes

#: What may stay in memory of each child: who it was and what it cost, as the parent tells it. By Python's own count,
#: and by the system's, which has what was needed for as many at once as there were, and was not given back.
KEPT_PER_CHILD = 1_500
BYTES_PER_CHILD = 6_000
PLAN: dict[str, Any] = {
    "session": {
        "orchestrator": {"module": "loop-basic"},
        "context": {"module": "context-simple"},
        "metadata": {},
    },
    "tools": [{"module": "tool-telling"}],
    "hooks": [{"module": "hooks-redaction"}, {"module": "hooks-logging"}],
    "agents": {"worker": {"description": "Works.", "instruction": "You work."}},
}


class Numbers(NamedTuple):
    """How many children are started."""

    at_once: int
    in_a_row: int
    batches: int
    batch: int
    #: Before anything is counted: as many as it takes until all that is remembered up to a limit, such as the
    #: beginnings of log lines, has reached it.
    warm_up: int
    #: That Python's count is taken of, after as many that it only watches: what is remembered up to a limit has to be
    #: allocated again while it watches before it counts. It takes time.
    counted: int


@dataclass
class Counted:
    """What was found."""

    at_once: int = 0
    stopped: int = 0
    lines: int = 0
    seconds: float = 0.0
    in_a_row: int = 0
    in_batches: int = 0
    tasks: int = 0
    files: int = 0
    kept_per_child: float = 0.0
    bytes_per_child: float = 0.0
    wrong: list[str] = field(default_factory=list)


def add_tool() -> None:
    """Register a module whose tool returns the identity and contributions of its session."""

    def tools(coordinator: Any) -> dict[str, Tool]:
        mark = coordinator.config["session"]["metadata"].get("mark")
        coordinator.register_contributor("stress.marks", "mark", lambda: mark)

        async def look(given: dict[str, Any]) -> str:
            await asyncio.sleep(0.001 * ((mark or 0) % 7))
            marks = await coordinator.collect_contributions("stress.marks")
            return json.dumps({"session": coordinator.session_id, "mark": mark, "marks": marks})

        return {"look": look}

    add_module("tool-telling", tools)


def plan(folder: Path) -> dict[str, Any]:
    """Return the plan, with a model that looks once and answers."""
    look = {"tool_calls": [{"name": "look", "arguments": {"path": "."}, "id": "look"}]}
    script = folder / "scenario.json"
    script.write_text(json.dumps({"turns": [{"text": "."}], "agents": {"worker": [look, {"text": "Done."}]}}))
    return {**PLAN, "providers": [{"module": "provider-mock", "config": {"scenario": str(script)}}]}


async def run(folder: Path, options: Numbers) -> Counted:
    """Start all children of one session."""
    from amplifier_foundation.children.capabilities import Spawner
    from amplifier_foundation.plan.prepared import Prepared
    from amplifier_foundation.sessions.runtime import SessionRuntime

    counted = Counted()
    prepared = Prepared.from_plan(plan(folder), folder / "home", folder, name="trees")
    async with SessionRuntime(prepared, environ={}, spawner=Spawner()) as runtime:
        spawn = runtime.session.coordinator.get_capability("session.spawn")
        # First what grows: what the many leave free would hide it.
        pace = await _growth(counted, spawn, options)
        await _many_at_once(counted, spawn, options.at_once, pace)
        place = runtime.folder.parent
        for number in range(options.at_once):
            check(counted, place / spawn.child_id("worker", f"c{number}"), number, runtime.session_id)
    return counted


async def _many_at_once(counted: Counted, spawn: Any, count: int, pace: float) -> None:
    started = time.monotonic()

    def start(number: int) -> Any:
        more = {"tool_call_id": f"c{number}", "session_metadata": {"mark": number}}
        return asyncio.ensure_future(spawn("worker", f"Task {number}.", **more))

    tasks = [start(number) for number in range(count)]
    # Some are stopped before they began, others while they are at work.
    for number in range(0, count, 10):
        asyncio.get_running_loop().call_later(pace * number, tasks[number].cancel)
    done = await asyncio.gather(*tasks, return_exceptions=True)
    counted.at_once, counted.seconds = count, time.monotonic() - started
    counted.stopped = sum(isinstance(one, asyncio.CancelledError) for one in done)
    for number, one in enumerate(done):
        if isinstance(one, Exception):
            counted.wrong.append(f"child {number}: {one!r}")
        elif isinstance(one, dict) and one["session_id"] != spawn.child_id("worker", f"c{number}"):
            counted.wrong.append(f"child {number} got the result of {one['session_id']}")


def check(counted: Counted, folder: Path, number: int, parent_id: str) -> None:
    """Look at what a child has left."""
    from amplifier_kit.log.reader import read_log

    if not folder.is_dir():
        return  # stopped before it began
    lines = list(read_log(folder))
    counted.lines += len(lines)
    wrong = counted.wrong
    if {line.record.get("session_id") for line in lines} - {folder.name}:
        wrong.append(f"{folder.name}: lines of another session in its log")
    if [line.record["seq"] for line in lines] != list(range(1, len(lines) + 1)):
        wrong.append(f"{folder.name}: a gap in its log")
    events = [line.event for line in lines]
    facts = json.loads((folder / "metadata.json").read_text(encoding="utf-8"))
    if (facts["parent_id"], facts["config"]["session"]["metadata"]["mark"]) != (parent_id, number):
        wrong.append(f"{folder.name}: the metadata of another child")
    if not facts["turn_count"]:
        return  # stopped before its first turn
    if events[-1:] != ["session:end"] or events.count("execution:start") != events.count("execution:end"):
        wrong.append(f"{folder.name}: its log is not closed")
    transcript = folder / "transcript.jsonl"
    messages = [json.loads(line) for line in transcript.read_text().splitlines()] if transcript.is_file() else []
    tasks = [message["content"] for message in messages if message["role"] == "user"]
    if tasks != [f"Task {number}."] and messages:  # one that was stopped may not have heard of its task
        wrong.append(f"{folder.name}: the task of another child")
    for message in messages:
        is_result = message["role"] == "tool" and message["content"].startswith('{"session"')
        expected = {"session": folder.name, "mark": number, "marks": [number]}
        if is_result and json.loads(message["content"]) != expected:
            wrong.append(f"{folder.name}: its tool saw {message['content']}")


async def _growth(counted: Counted, spawn: Any, options: Numbers) -> float:
    """Start children in a row and in batches; return how long one takes, in seconds."""
    started = time.monotonic()
    for _ in range(options.warm_up):
        await spawn("worker", "Warm up.")
    pace = (time.monotonic() - started) / max(1, options.warm_up)
    # What as many children need at once is not given back to the system, and is used by the next ones.
    await asyncio.gather(*(spawn("worker", "Warm up.") for _ in range(options.batch)))
    before = _held()
    for _ in range(options.in_a_row):
        await spawn("worker", "Go.")
    for _ in range(options.batches):
        await asyncio.gather(*(spawn("worker", "Go.") for _ in range(options.batch)))
    after = _held()
    counted.in_a_row, counted.in_batches = options.in_a_row, options.batches * options.batch
    counted.tasks, counted.files = after[0] - before[0], after[1] - before[1]
    children = counted.in_a_row + counted.in_batches
    counted.bytes_per_child = (after[2] - before[2]) / max(1, children)
    if counted.tasks > 0:
        counted.wrong.append(f"{counted.tasks} tasks were left behind")
    if counted.files > 0:
        counted.wrong.append(f"{counted.files} files were left open")
    if counted.bytes_per_child > BYTES_PER_CHILD:
        counted.wrong.append(f"the process has grown by {counted.bytes_per_child:.0f} bytes with each child")
    counted.kept_per_child = await _kept(spawn, options.counted)
    if counted.kept_per_child > KEPT_PER_CHILD:
        counted.wrong.append(f"{counted.kept_per_child:.0f} bytes stay in memory of each child")
    return pace


async def _kept(spawn: Any, count: int) -> float:
    """Return how many bytes are kept of each child, as Python counts them."""
    tracemalloc.start()
    try:
        sizes = []
        for _ in range(2):
            for _ in range(count):
                await spawn("worker", "Go.")
            gc.collect()
            sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    return (sizes[1] - sizes[0]) / count


def _held() -> tuple[int, int, int]:
    gc.collect()
    return len(asyncio.all_tasks()), len(os.listdir("/proc/self/fd")), resident_bytes()


def describe(counted: Counted) -> str:
    """Return the section of the document."""
    kept, grown = (f"{max(0.0, size):,.0f} B" for size in (counted.kept_per_child, counted.bytes_per_child))
    cells = {
        "At once": f"{counted.at_once:,}",
        "Stopped on the way": f"{counted.stopped:,}",
        "Log lines": f"{counted.lines:,}",
        "Took": f"{counted.seconds:.1f} s",
        "Faults": f"{len(counted.wrong)}",
        "In a row": f"{counted.in_a_row:,}",
        "In batches": f"{counted.in_batches:,}",
        "Tasks left": f"{counted.tasks}",
        "Files left open": f"{counted.files}",
        "Kept per child": kept,
        "Process grew by": grown,
    }
    words = (
        "Every child has a turn with a tool call. A fault would be: a ledger, log line, id, configuration or "
        "contribution of another child, a gap or an open end in a log, a task or file that is left, or more than "
        f"{KEPT_PER_CHILD:,} bytes that Python keeps per child, {BYTES_PER_CHILD:,} by which the process grows.\n\n"
        "Only the id and the cost of a finished child are kept: each child contributes to the channel `session.cost`, "
        "from which the cost of the whole session is summed, and a resumed child continues its own count. Growth "
        "beyond that is memory that children running at the same time needed; later children reuse it.\n"
        "`make bench-trees` counts again."
    )
    return "\n\n".join(
        ["## Sessions started from one session", circumstances(), table(list(cells), [list(cells.values())]), words]
    )


def measure(setting: Setting) -> Found:
    """Start `size` children at once, twice as many in a row, and as many again in five batches."""
    add_tool()
    size = setting.size
    numbers = Numbers(size, 2 * size, 5, max(1, 2 * size // 5), warm_up=size, counted=max(1, 3 * size // 5))
    with tempfile.TemporaryDirectory() as name:
        counted = asyncio.run(run(Path(name).resolve(), numbers))
    rows = [
        Row(f"faults of {setting.size:,} children at once", len(counted.wrong), "faults", most=0),
        Row("kept in memory of each child", max(0.0, counted.kept_per_child), "bytes", most=KEPT_PER_CHILD),
        Row("growth of the process by each child", max(0.0, counted.bytes_per_child), "bytes", most=BYTES_PER_CHILD),
    ]
    return Found(rows, "trees", describe(counted), counted.wrong)

"""The timed workloads. One of them runs per process, unchanged on either kernel, and reports JSON.

    python benchmarks/workloads.py NAME [--count N] [--batches N]

Only the standard library and `amplifier_core` are imported; the floor also uses `pydantic_core`, which both bring.
Every report is a flat object of numbers: times in microseconds, sizes in bytes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from statistics import median
from typing import Any

Report = dict[str, float]

EVENT = "tool:pre"
DEFAULTS = {"session_id": "5f0c6a3e-0000-4000-8000-000000000000", "parent_id": None}
PAYLOAD: dict[str, Any] = {
    "tool_name": "bash",
    "tool_call_id": "toolu_01A09q90qw90lq917835lq9",
    "tool_input": {"command": "git status --short", "timeout": 30, "background": False},
    "iteration": 3,
    "parallel_group_id": "group-7",
}


def large_payload(size: int = 50_000) -> dict[str, Any]:
    """Build a request whose messages take about `size` bytes as JSON."""
    text = "The quick brown fox jumps over the lazy dog. " * 26
    messages = []
    while len(json.dumps(messages)) < size:
        index = len(messages)
        role = "assistant" if index % 2 else "user"
        messages.append({"role": role, "content": [{"type": "text", "text": text}], "metadata": {"index": index}})
    return {"provider": "bench", "model": "bench-1", "messages": messages}


async def time_batches(work: Callable[[int], Awaitable[None]], count: int, batches: int) -> float:
    """Return the median over `batches` of the microseconds one of `count` repetitions takes."""
    await work(max(count // 10, 1))
    times = []
    for _ in range(batches):
        start = time.perf_counter()
        await work(count)
        times.append((time.perf_counter() - start) / count * 1e6)
    return median(times)


def make_handlers(number: int) -> list[Any]:
    """Make `number` distinct async handlers that let everything pass."""
    from amplifier_core import HookResult

    def one() -> Any:
        async def handler(event: str, data: dict[str, Any]) -> HookResult:
            return HookResult(action="continue")

        return handler

    return [one() for _ in range(number)]


def make_emit(handlers: list[Any], payload: dict[str, Any]) -> Callable[[int], Awaitable[None]]:
    """Make the loop that emits one event after another to `handlers`."""
    from amplifier_core import HookRegistry

    registry = HookRegistry()
    registry.set_default_fields(**DEFAULTS)
    for index, handler in enumerate(handlers):
        registry.register(EVENT, handler, priority=index, name=f"handler-{index}")

    async def work(count: int) -> None:
        for _ in range(count):
            await registry.emit(EVENT, payload)

    return work


def fastest_json_copy(payload: dict[str, Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return whichever JSON round trip copies `payload` fastest: pydantic_core's or the standard library's."""
    from pydantic_core import from_json, to_json

    def native(data: dict[str, Any]) -> dict[str, Any]:
        copy: dict[str, Any] = from_json(to_json(data))
        return copy

    def stdlib(data: dict[str, Any]) -> dict[str, Any]:
        copy: dict[str, Any] = json.loads(json.dumps(data))
        return copy

    def cost(copy: Callable[[dict[str, Any]], dict[str, Any]]) -> float:
        best = float("inf")
        for _ in range(20):
            start = time.perf_counter()
            for _ in range(10):
                copy(payload)
            best = min(best, time.perf_counter() - start)
        return best

    return min((native, stdlib), key=cost)


def make_floor(handlers: list[Any], payload: dict[str, Any]) -> Callable[[int], Awaitable[None]]:
    """Make the bare loop: defaults and a timestamp merged in, then each handler awaited with a JSON copy of its own."""
    from datetime import UTC, datetime

    copy = fastest_json_copy(payload)

    async def work(count: int) -> None:
        for _ in range(count):
            data = {**DEFAULTS, **payload, "timestamp": datetime.now(UTC).isoformat()}
            for handler in handlers:
                await handler(EVENT, copy(data))

    return work


async def measure_emit(number: int, payload: dict[str, Any], count: int, batches: int) -> Report:
    """Time emit to `number` handlers, and the floor in the same process, batch by batch in turn."""
    handlers = make_handlers(number)
    emit, floor = make_emit(handlers, payload), make_floor(handlers, payload)
    emits, floors = [], []
    for _ in range(batches):
        emits.append(await time_batches(emit, count, 1))
        floors.append(await time_batches(floor, count, 1))
    return {"us": median(emits), "floor_us": median(floors)}


async def emit_1(count: int, batches: int, folder: Path) -> Report:
    """Emit a small payload to one handler."""
    return await measure_emit(1, PAYLOAD, count, batches)


async def emit_20(count: int, batches: int, folder: Path) -> Report:
    """Emit a small payload to twenty handlers."""
    return await measure_emit(20, PAYLOAD, count, batches)


async def emit_large(count: int, batches: int, folder: Path) -> Report:
    """Emit 50 kB of messages to three handlers."""
    return await measure_emit(3, large_payload(), count, batches)


async def turn(count: int, batches: int, folder: Path) -> Report:
    """Run turns whose orchestrator returns at once, in a session made by real module loading."""
    from amplifier_core import AmplifierSession
    from module_factory import write_session_modules

    session = AmplifierSession(write_session_modules(folder, tools=1))
    await session.initialize()

    async def work(times: int) -> None:
        for _ in range(times):
            await session.execute("hello")

    report = {"us": await time_batches(work, count, batches)}
    await session.cleanup()
    return report


async def session(count: int, batches: int, folder: Path) -> Report:
    """Create, initialise and clean up sessions with an orchestrator, a context, a provider and ten tools, warm."""
    from amplifier_core import AmplifierSession
    from module_factory import write_session_modules

    plan = write_session_modules(folder, tools=10)

    async def work(times: int) -> None:
        for _ in range(times):
            session = AmplifierSession(plan)
            await session.initialize()
            await session.cleanup()

    await work(2)
    return {"us": await time_batches(work, count, batches)}


def resident_bytes() -> int:
    """Return the memory this process holds, native allocations included."""
    import os

    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


async def memory(count: int, batches: int, folder: Path) -> Report:
    """Hold `count` initialised, idle sessions and divide what the process grew by; `batches` is ignored."""
    import gc

    from amplifier_core import AmplifierSession
    from module_factory import write_session_modules

    plan = write_session_modules(folder, tools=10)

    async def live() -> AmplifierSession:
        session = AmplifierSession(plan)
        await session.initialize()
        return session

    held = [await live() for _ in range(20)]
    gc.collect()
    before = resident_bytes()
    held += [await live() for _ in range(count)]
    gc.collect()
    grown = resident_bytes() - before
    for session in held:
        await session.cleanup()
    return {"bytes": grown / count}


Workload = Callable[[int, int, Path], Coroutine[Any, Any, Report]]

#: name -> (workload, default count, default batches)
WORKLOADS: dict[str, tuple[Workload, int, int]] = {
    "emit_1": (emit_1, 400, 5),
    "emit_20": (emit_20, 60, 5),
    "emit_large": (emit_large, 60, 5),
    "turn": (turn, 300, 5),
    "session": (session, 15, 5),
    "memory": (memory, 300, 1),
}


def main() -> None:
    """Run the workload named on the command line and print its report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=list(WORKLOADS))
    parser.add_argument("--folder", type=Path, required=True, help="an empty folder for the modules of the session")
    parser.add_argument("--count", type=int, help="repetitions in a batch")
    parser.add_argument("--batches", type=int, help="batches; the median counts")
    options = parser.parse_args()
    workload, count, batches = WORKLOADS[options.name]
    sys.path.insert(0, str(options.folder))
    report = asyncio.run(workload(options.count or count, options.batches or batches, options.folder))
    print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main()

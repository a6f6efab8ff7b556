"""The timed workloads. One of them runs per process, unchanged on either kernel, and reports JSON.

    python benchmarks/workloads.py NAME [--count N] [--batches N]

Only the standard library and `amplifier_core` are imported; the floor also uses `pydantic_core`, which both bring.
Every report is a flat object of numbers: times in microseconds, sizes in bytes.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from amplifier_core import AmplifierSession, HookRegistry, HookResult, ModuleCoordinator

# The modules of the sessions come from the scenarios that compare the kernels' behaviour. At the end of the search, so
# that no import takes longer for it.
sys.path.append(str(Path(__file__).resolve().parents[1] / "amplifier-core" / "tests"))

from compat.scenarios.module_factory import write_session_modules as write_session_modules

#: how long a batch should take, whatever a repetition costs
BATCH_SECONDS = 0.01

EVENT = "tool:pre"
DEFAULTS = {"session_id": "5f0c6a3e-0000-4000-8000-000000000000", "parent_id": None}
PAYLOAD: dict[str, Any] = {
    "tool_name": "bash",
    "tool_call_id": "toolu_01A09q90qw90lq917835lq9",
    "tool_input": {"command": "git status --short", "timeout": 30, "background": False},
    "iteration": 3,
    "parallel_group_id": "group-7",
}


def large_payload(sentences: int = 26, size: int = 50_000) -> dict[str, Any]:
    """Build a request whose messages of `sentences` sentences take about `size` bytes as JSON."""
    text = "The quick brown fox jumps over the lazy dog. " * sentences
    messages: list[dict[str, Any]] = []
    while len(json.dumps(messages)) < size:
        index = len(messages)
        role = "assistant" if index % 2 else "user"
        messages.append({"role": role, "content": [{"type": "text", "text": text}], "metadata": {"index": index}})
    return {"provider": "bench", "model": "bench-1", "messages": messages}


Work = Callable[[int], Awaitable[None]]


async def calibrate(work: Work, count: int | None) -> int:
    """Return `count`, or when it is None how many repetitions fill a batch; either way `work` is warm afterwards."""
    if count is not None:
        await work(1)
        return count
    number = 1
    await work(2)
    while True:
        start = time.perf_counter()
        await work(number)
        spent = time.perf_counter() - start
        if spent >= BATCH_SECONDS / 2:
            return max(1, round(number * BATCH_SECONDS / spent))
        number *= 2


async def time_in_turn(works: list[Work], count: int | None, batches: int) -> list[float]:
    """Return for each work the microseconds of one repetition, the batches of all of them taken in turn.

    The lower quartile of the batches counts: what else the machine did at the time only ever adds to a batch.
    """
    counts = [await calibrate(work, count) for work in works]
    times: list[list[float]] = [[] for _ in works]
    for _ in range(batches):
        for work, number, taken in zip(works, counts, times, strict=True):
            start = time.perf_counter()
            await work(number)
            taken.append((time.perf_counter() - start) / number * 1e6)
    return [sorted(taken)[len(taken) // 4] for taken in times]


def make_handlers(number: int) -> list[Any]:
    """Make `number` distinct async handlers that let everything pass."""

    def one() -> Any:
        async def handler(event: str, data: dict[str, Any]) -> HookResult:
            return HookResult(action="continue")

        return handler

    return [one() for _ in range(number)]


def make_emit(handlers: list[Any], payload: dict[str, Any]) -> Work:
    """Make the loop that emits one event after another to `handlers`."""
    registry = HookRegistry()
    registry.set_default_fields(**DEFAULTS)
    for index, handler in enumerate(handlers):
        registry.register(EVENT, handler, priority=index, name=f"handler-{index}")

    async def work(count: int) -> None:
        for _ in range(count):
            await registry.emit(EVENT, payload)

    return work


async def check_emit(number: int, payload: dict[str, Any]) -> None:
    """Make sure that what is timed happens: every handler is called, with a complete copy of the data."""
    seen: list[dict[str, Any]] = []

    async def handler(event: str, data: dict[str, Any]) -> None:
        seen.append(data)

    await make_emit([handler] * number, payload)(1)
    insist(len(seen) == number, "not every handler was called")
    insist(len({id(data) for data in seen}) == number, "handlers share their data")
    whole = [{key: data.get(key) for key in payload} == payload and "timestamp" in data for data in seen]
    insist(all(whole), "a handler's data is not whole")


def insist(condition: bool, otherwise: str) -> None:
    """Stop a workload that does not do what it is timed for."""
    if not condition:
        raise SystemExit(f"the workload is not what it says: {otherwise}")


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


def make_floor(handlers: list[Any], payload: dict[str, Any]) -> Work:
    """Make the bare loop: defaults and a timestamp merged in, then each handler awaited with its own JSON copy."""
    from datetime import UTC, datetime

    copy = fastest_json_copy(payload)

    async def work(count: int) -> None:
        for _ in range(count):
            data = {**DEFAULTS, **payload, "timestamp": datetime.now(UTC).isoformat()}
            for handler in handlers:
                await handler(EVENT, copy(data))

    return work


async def emit(number: int, payload: dict[str, Any]) -> list[Work]:
    """Emit to `number` handlers, beside the floor."""
    handlers = make_handlers(number)
    await check_emit(number, payload)
    return [make_emit(handlers, payload), make_floor(handlers, payload)]


async def turn(folder: Path) -> list[Work]:
    """Run turns whose orchestrator returns at once, in a session made by real module loading."""
    session = AmplifierSession(write_session_modules(folder, tools=1))
    await session.initialize()
    insist(await session.execute("hello") == "done", "the orchestrator's answer did not come back")

    async def work(times: int) -> None:
        for _ in range(times):
            await session.execute("hello")

    return [work]


async def session(folder: Path) -> list[Work]:
    """Create, initialise and clean up sessions with an orchestrator, a context, a provider and ten tools, warm."""
    plan = write_session_modules(folder, tools=10)
    first = AmplifierSession(plan)
    await first.initialize()
    insist(len(first.coordinator.get("tools")) == 10, "not every tool was mounted")
    await first.cleanup()

    async def work(times: int) -> None:
        for _ in range(times):
            session = AmplifierSession(plan)
            await session.initialize()
            await session.cleanup()

    return [work]


async def capability(folder: Path) -> list[Work]:
    """Register a capability and read it back."""
    coordinator = ModuleCoordinator()
    coordinator.register_capability("a", 1)
    insist(coordinator.get_capability("a") == 1, "the capability did not come back")

    async def work(times: int) -> None:
        register, read = coordinator.register_capability, coordinator.get_capability
        for number in range(times):
            register("a", number)
            read("a")

    return [work]


async def contributions(folder: Path) -> list[Work]:
    """Collect what ten contributors of a channel give."""
    coordinator = ModuleCoordinator()
    for number in range(10):
        coordinator.register_contributor("events", f"module-{number}", lambda number=number: [f"module:{number}"])  # type: ignore[misc]
    insist(len(await coordinator.collect_contributions("events")) == 10, "not every contributor was asked")

    async def work(times: int) -> None:
        for _ in range(times):
            await coordinator.collect_contributions("events")

    return [work]


def resident_bytes() -> int:
    """Return the memory this process holds, native allocations included."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


async def memory(folder: Path, number: int) -> float:
    """Hold initialised, idle sessions and divide the bytes that the process grew by."""
    plan = write_session_modules(folder, tools=10)

    async def live() -> AmplifierSession:
        session = AmplifierSession(plan)
        await session.initialize()
        return session

    held = [await live() for _ in range(20)]
    gc.collect()
    before = resident_bytes()
    held += [await live() for _ in range(number)]
    gc.collect()
    grown = resident_bytes() - before
    for session in held:
        await session.cleanup()
    return grown / number


WORKLOADS: dict[str, Callable[[Path], Awaitable[list[Work]]]] = {
    "emit_1": lambda _: emit(1, PAYLOAD),
    "emit_20": lambda _: emit(20, PAYLOAD),
    "emit_large": lambda _: emit(3, large_payload()),
    "emit_messages": lambda _: emit(3, large_payload(sentences=1)),
    "turn": turn,
    "session": session,
    "capability": capability,
    "contributions": contributions,
}


async def report(options: argparse.Namespace) -> dict[str, float]:
    """Run a workload and return what it reports."""
    if options.name == "memory":
        return {"bytes": await memory(options.folder, options.count or 300)}
    works = await WORKLOADS[options.name](options.folder)
    taken = await time_in_turn(works, options.count, options.batches)
    return dict(zip(("us", "floor_us"), taken, strict=False))


def main() -> None:
    """Run the workload named on the command line and print its report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=[*WORKLOADS, "memory"])
    parser.add_argument("--folder", type=Path, required=True, help="an empty folder for the modules of the session")
    parser.add_argument("--count", type=int, help="repetitions in a batch (as many as fill it), or sessions held (300)")
    parser.add_argument("--batches", type=int, default=40, help="batches; their lower quartile counts")
    options = parser.parse_args()
    sys.path.insert(0, str(options.folder))
    print(json.dumps(asyncio.run(report(options))), flush=True)


if __name__ == "__main__":
    main()

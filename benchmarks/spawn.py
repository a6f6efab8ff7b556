"""Measure what it costs to start a session from a session.

    python benchmarks/spawn.py [--rounds 60] [--json]

A child of a bundle that is in use anyway, with the usual tools and hooks and several agents, is compared with the same
session started by itself, one after the other in one process: what the child takes longer is the price of starting it
from another session (its plan, its budget, its place in the tree, its result on disk). The lower quartile of the rounds
counts: what else the machine did at the time only ever adds. And a session whose 50 children wait for their models is
told to stop at once: that takes until the last of them has closed its log. Prints a table, or with --json one object
`{"rows": [{"what", "ms", "target_ms", "met"}]}`; exits 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from document import ROOT, table

sys.path[:0] = [str(module) for module in sorted((ROOT / "modules").iterdir())]

TARGET_MS = 3.0
STOP_MS = 1000.0
AT_WORK = 50
AGENTS = ("explorer", "builder", "reviewer", "researcher", "analyst", "architect")

PLAN: dict[str, Any] = {
    "session": {"orchestrator": {"module": "loop-streaming"}, "context": {"module": "context-simple"}},
    "providers": [{"module": "provider-mock", "config": {"responses": ["The answer is on the second page."]}}],
    "tools": [{"module": f"tool-{name}"} for name in ("filesystem", "search", "todo", "bash")],
    "hooks": [{"module": f"hooks-{name}"} for name in ("approval", "redaction", "logging", "todo-reminder")],
    "agents": {
        name: {
            "description": f"{name}: knows its trade.",
            "instruction": f"You are the {name}. " + "Do what you were asked for, and say what you found. " * 40,
            "tools": [{"module": "tool-search"}],
        }
        for name in AGENTS
    },
}


def lower_quartile(values: list[float]) -> float:
    """Return the value that a quarter of the values stays below."""
    return sorted(values)[len(values) // 4]


async def times(folder: Path, rounds: int) -> tuple[list[float], list[float]]:
    """Return how long children and the same sessions by themselves took, in milliseconds."""
    from amplifier_foundation.prepared import Prepared
    from amplifier_foundation.sessions import SessionRuntime
    from amplifier_foundation.spawn import child_plan

    prepared = Prepared.from_plan(PLAN, folder / "home", folder, name="spawn", instruction="You are the first.")
    agent = PLAN["agents"]["explorer"]
    alone = replace(
        prepared,
        composed=replace(prepared.composed, plan=child_plan(PLAN, agent), instruction=agent["instruction"]),
    )
    children: list[float] = []
    by_themselves: list[float] = []
    async with SessionRuntime(prepared) as runtime:
        spawn = runtime.session.coordinator.get_capability("session.spawn")
        for number in range(rounds + 3):
            start = time.perf_counter()
            await spawn(agent_name="explorer", instruction=f"Look at page {number}.", tool_call_id=f"c{number}")
            middle = time.perf_counter()
            async with SessionRuntime(alone) as session:
                await session.execute(f"Look at page {number}.")
            end = time.perf_counter()
            if number >= 3:  # the first ones import what is needed
                children.append((middle - start) * 1000)
                by_themselves.append((end - middle) * 1000)
    return children, by_themselves


async def stop_time(folder: Path) -> float:
    """Return how long it takes until all children are closed after their parent was told to stop, in milliseconds."""
    from amplifier_foundation.prepared import Prepared
    from amplifier_foundation.sessions import SessionRuntime

    script = folder / "slow.json"
    script.write_text(json.dumps({"turns": [{"delay_ms": 600_000, "text": "Never."}], "repeat": True}))
    plan = {**PLAN, "providers": [{"module": "provider-mock", "config": {"scenario": str(script)}}]}
    asked: set[str] = set()
    are_at_work = asyncio.Event()

    def hear(facts: Any, event: str, data: dict[str, Any]) -> None:
        if event == "llm:request":
            asked.add(facts.session_id)
        if len(asked) == AT_WORK:
            are_at_work.set()

    prepared = Prepared.from_plan(plan, folder / "home", folder, name="stop")
    async with SessionRuntime(prepared, on_child_event=hear) as runtime:
        spawn = runtime.session.coordinator.get_capability("session.spawn")
        tasks = [asyncio.ensure_future(spawn("self", f"Task {number}.")) for number in range(AT_WORK)]
        await are_at_work.wait()
        start = time.perf_counter()
        await runtime.session.coordinator.request_cancel(immediate=True)
        await asyncio.gather(*tasks, return_exceptions=True)
        return (time.perf_counter() - start) * 1000


def measure(rounds: int) -> list[dict[str, Any]]:
    """Return the rows: what starting a session from another one adds, and how long stopping many takes."""
    with tempfile.TemporaryDirectory() as name:
        children, by_themselves = asyncio.run(times(Path(name).resolve(), rounds))
        stopping = min(asyncio.run(stop_time(Path(name).resolve())) for _ in range(2))
    child, alone = lower_quartile(children), lower_quartile(by_themselves)
    what = f"start a session from a session, beyond its own {alone:.1f} ms"
    stop = f"stop a session and its {AT_WORK} children at once"
    return [
        {"what": what, "ms": max(0.0, child - alone), "target_ms": TARGET_MS, "met": child - alone <= TARGET_MS},
        {"what": stop, "ms": stopping, "target_ms": STOP_MS, "met": stopping <= STOP_MS},
    ]


def main() -> int:
    """Measure, print, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = measure(options.rounds)
    if options.json:
        print(json.dumps({"rows": rows}))
    else:
        lines = [
            [row["what"], f"{row['ms']:.2f} ms", f"≤ {row['target_ms']:g} ms", "yes" if row["met"] else "NO"]
            for row in rows
        ]
        print(table(["What", "Time", "Target", "Met"], lines))
    return 0 if all(row["met"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())

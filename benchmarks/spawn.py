"""Measure what it costs to start a session from a session.

A child with the usual tools and hooks and several agents is compared with the same session started by itself, one after
the other in one process: what it takes longer is the price of starting it from another session (its plan, its budget,
its place in the tree, its result on disk). Then sessions are cancelled whose children wait for their models or run
commands: at once, until the last child has closed its log and the last command is gone; gracefully, from the end of the
commands on. The best of three counts.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from harness import Row, Setting, lower_quartile

TARGET_MS = 3.0
STOP_MS = 1000.0
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


async def times(folder: Path, rounds: int) -> tuple[list[float], list[float]]:
    """Return how long children and the same sessions by themselves took, in milliseconds."""
    from amplifier_foundation.children.capabilities import Spawner
    from amplifier_foundation.children.plan import child_plan
    from amplifier_foundation.plan.prepared import Prepared
    from amplifier_foundation.sessions.runtime import SessionRuntime

    prepared = Prepared.from_plan(PLAN, folder / "home", folder, name="spawn", instruction="You are the first.")
    agent = PLAN["agents"]["explorer"]
    alone = replace(
        prepared,
        composed=replace(prepared.composed, plan=child_plan(PLAN, agent), instruction=agent["instruction"]),
    )
    children: list[float] = []
    by_themselves: list[float] = []
    async with SessionRuntime(prepared, spawner=Spawner()) as runtime:
        spawn = runtime.session.coordinator.get_capability("session.spawn")
        for number in range(rounds + 3):
            start = time.perf_counter()
            await spawn(agent_name="explorer", instruction=f"Look at page {number}.", tool_call_id=f"c{number}")
            middle = time.perf_counter()
            async with SessionRuntime(alone, spawner=Spawner()) as session:
                await session.execute(f"Look at page {number}.")
            end = time.perf_counter()
            if number >= 3:  # the first ones import what is needed
                children.append((middle - start) * 1000)
                by_themselves.append((end - middle) * 1000)
    return children, by_themselves


class Stopping(NamedTuple):
    """Say which children are stopped, and how."""

    number: int
    has_command: bool = False
    is_at_once: bool = True

    def __str__(self) -> str:
        doing = "whose commands run" if self.has_command else "who wait for their models"
        return f"stop {self.number} children {doing}, {'at once' if self.is_at_once else 'after their step'}"

    def script(self, folder: Path) -> dict[str, Any]:
        """Return what the model of each child says: with a command, one that waits to be allowed to end."""
        if not self.has_command:
            return {"turns": [{"delay_ms": 600_000, "text": "Never."}], "repeat": True}
        command = f"echo $$ > '{folder}'/$$; until [ -e '{folder}/end' ]; do sleep 0.02; done"
        call = {"name": "bash", "arguments": {"command": command, "timeout": 600}}
        return {"turns": [{"tool_calls": [call]}, {"text": "Done."}], "repeat": True}


STOPPED = (
    Stopping(50),
    Stopping(10, has_command=True),
    Stopping(10, has_command=True, is_at_once=False),
)


async def until(is_so: Callable[[], bool]) -> None:
    """Wait for something."""
    for _ in iter(is_so, True):
        await asyncio.sleep(0.005)


def at_work(commands: Path) -> list[int]:
    """Return the processes of commands that are there, by the files that they have made."""
    pids = [int(path.name) for path in commands.iterdir() if path.name.isdigit()]
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


async def stop_time(folder: Path, what: Stopping) -> float:
    """Return how long it takes until all children and their commands are over, in milliseconds."""
    from amplifier_foundation.children.capabilities import Spawner
    from amplifier_foundation.plan.prepared import Prepared
    from amplifier_foundation.sessions.runtime import SessionRuntime

    commands = Path(tempfile.mkdtemp(dir=folder))
    script = commands.with_suffix(".json")
    script.write_text(json.dumps(what.script(commands)))
    (folder / "home").mkdir(exist_ok=True)
    (folder / "home" / "policy.yaml").write_text("rules: [{action: process.exec, verdict: allow}]\n")
    tools = [{"module": "tool-bash", "config": {"sandbox": "off"}}]
    plan = {**PLAN, "tools": tools, "providers": [{"module": "provider-mock", "config": {"scenario": str(script)}}]}
    asked: set[str] = set()

    def hear(facts: Any, event: str, data: dict[str, Any]) -> None:
        if event == "llm:request":
            asked.add(facts.session_id)

    prepared = Prepared.from_plan(plan, folder / "home", folder, name="stop")
    async with SessionRuntime(prepared, on_child_event=hear, spawner=Spawner()) as runtime:
        spawn = runtime.session.coordinator.get_capability("session.spawn")
        tasks = [asyncio.ensure_future(spawn("self", f"Task {number}.")) for number in range(what.number)]
        running = what.number if what.has_command else 0
        await until(lambda: len(asked) == what.number and len(at_work(commands)) == running)
        start = time.perf_counter()
        await runtime.session.coordinator.request_cancel(immediate=what.is_at_once)
        if not what.is_at_once:
            await asyncio.sleep(0.1)  # a graceful cancellation lets running commands finish
            if len(at_work(commands)) < running:
                raise RuntimeError("commands were ended that should have come to their end")
            (commands / "end").touch()
            start = time.perf_counter()
        await asyncio.gather(*tasks, return_exceptions=True)
        await until(lambda: not at_work(commands))
        return (time.perf_counter() - start) * 1000


def measure(setting: Setting) -> list[Row]:
    """Return the rows: what starting a session from another one adds, and how long stopping many takes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        children, by_themselves = asyncio.run(times(folder, setting.rounds))
        stopping = {what: min(asyncio.run(stop_time(folder, what)) for _ in range(3)) for what in STOPPED}
    child, alone = lower_quartile(children), lower_quartile(by_themselves)
    added = Row(
        f"start a session from a session, beyond its own {alone:.1f} ms", max(0.0, child - alone), most=TARGET_MS
    )
    return [added, *(Row(str(what), ms, most=STOP_MS) for what, ms in stopping.items())]

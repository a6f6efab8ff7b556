"""A tree of sessions, killed and resumed: what a child had finished is not done again, every call gets its answer.

A session starts six children at once, one of which starts two more; each calls a tool or two. After the kill the root
is resumed in another process, the same calls are made again, as an engine does that replays a turn, and the root has
another turn. Every log must be without gaps and closed.
"""

from __future__ import annotations

import asyncio
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, ClassVar

from children import environment
from kills import Subject, Tally
from plain_tools import Tool, add_module

CHILDREN = 6
ROOT_ID = "00000000-0000-4000-8000-000000000000"
#: Within so many seconds after it was ready, a tree is killed; the last child takes longer.
SPAN = 1.5


def add_tool() -> None:
    """Make a module known with a tool that delegates, and one that takes a little time."""

    async def work(given: dict[str, Any]) -> str:
        await asyncio.sleep(given["seconds"])
        return "worked"

    def tools(coordinator: Any) -> dict[str, Tool]:
        async def call(given: dict[str, Any]) -> str:
            spawn = coordinator.get_capability("session.spawn")
            result = await spawn(agent_name=given["agent"], instruction=f"{given['agent']}, go.")
            return str(result["output"])

        return {"call": call, "work": work}

    add_module("tool-tree", tools)


def plan(folder: Path, *, is_resumed: bool) -> dict[str, Any]:
    """Return the plan and write its scenario; the resumed run has no delays."""

    def work(seconds: float) -> dict[str, Any]:
        given = {"path": ".", "seconds": 0.0 if is_resumed else seconds}
        return {"tool_calls": [{"name": "work", "arguments": given}]}

    def call(agent: str) -> dict[str, Any]:
        return {"name": "call", "arguments": {"path": ".", "agent": agent}, "id": f"call-{agent}"}

    names = [f"child{number}" for number in range(CHILDREN)]
    agents = {
        name: [work(0.15 * number), work(0.05), {"text": f"{name} is done."}] for number, name in enumerate(names)
    }
    agents["child0"] = [{"tool_calls": [call("inner0"), call("inner1")]}, work(0.1), {"text": "child0 is done."}]
    agents |= {f"inner{number}": [work(0.1 * number), {"text": f"inner{number} is done."}] for number in range(2)}
    agents["child5"] = [work(30), {"text": "child5 is done."}]
    turns = [{"tool_calls": [call(name) for name in names]}, {"text": "All is done."}]
    if is_resumed:  # it has what was found by those it had started
        agents["child0"], turns = [{"text": "child0 is done."}], [{"text": "All is done."}]
    script = folder / "scenario.json"
    script.write_text(json.dumps({"turns": turns, "agents": agents}))
    return {
        "session": {"orchestrator": {"module": "loop-basic"}, "context": {"module": "context-simple"}},
        "providers": [{"module": "provider-mock", "config": {"scenario": str(script)}}],
        "tools": [{"module": "tool-tree"}],
        "hooks": [{"module": "hooks-logging"}],
        "agents": {name: {"description": name, "instruction": f"You are {name}."} for name in agents},
    }


async def play(folder: Path, *, is_resumed: bool) -> None:
    """Run the tree in this process, or take it up."""
    from amplifier_foundation.children.capabilities import Spawner
    from amplifier_foundation.plan.prepared import Prepared
    from amplifier_foundation.sessions.resume import load_session
    from amplifier_foundation.sessions.runtime import SessionRuntime

    add_tool()
    prepared = Prepared.from_plan(plan(folder, is_resumed=is_resumed), folder / "home", folder, name="tree")
    place = prepared.home.sessions(folder)
    saved = load_session(place / ROOT_ID) if is_resumed else None
    async with SessionRuntime(prepared, session_id=ROOT_ID, saved=saved, environ={}, spawner=Spawner()) as runtime:
        print("ready", flush=True)
        if not is_resumed:
            await runtime.execute("Go.")
            return
        spawn = runtime.session.coordinator.get_capability("session.spawn")
        names = [f"child{number}" for number in range(CHILDREN)]
        again = [spawn(name, f"{name}, go.", tool_call_id=f"call-{name}") for name in names]
        print(json.dumps([result["output"] for result in await asyncio.gather(*again)]))
        await runtime.execute("Go on.")


def requests_by_session(place: Path) -> dict[str, int]:
    """Return how often each session has asked its model."""
    from amplifier_kit.log.reader import read_log

    return {
        folder.name: sum(line.event == "llm:request" for line in read_log(folder, on_torn=lambda torn: None))
        for folder in place.iterdir()
    }


class Trees(Subject):
    """Trees of sessions, each in its own home."""

    title: ClassVar = "trees of sessions"
    words: ClassVar = (
        "A session, six children and two grandchildren in one process, killed at any moment; the root is resumed and "
        "the same calls are made again. A fault would be: a finished child that is run again, a call without its "
        "answer, a child that is not finished in the end, a gap or an open end in a log.\n"
        "`make bench-trees` counts again."
    )
    shown: ClassVar = {
        "not_begun": "Before anything began",
        "finished": "Children finished by then",
        "cut_off": "Cut off and taken up",
    }
    at_once: ClassVar = 1

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def kill(self, chance: random.Random, tally: Tally) -> None:
        """Kill one tree in a folder of its own."""
        with tempfile.TemporaryDirectory(dir=self._folder) as name:
            kill_one(Path(name), chance, tally)


def kill_one(folder: Path, chance: random.Random, tally: Tally) -> None:
    """Run a tree, kill it, take it up, and look at what there is."""
    from amplifier_foundation.paths import Home

    command, environ = [sys.executable, __file__, str(folder)], environment()
    environ.pop("AMPLIFIER_HOME", None)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environ)
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(chance.uniform(0, SPAN))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    place = Home(folder / "home").sessions(folder)
    tally.counts["kills"] += 1
    if not (place / ROOT_ID / "metadata.json").is_file():
        tally.counts["not_begun"] += 1
        return
    done = {path.name for path in place.iterdir() if _is_done(path)}
    before = requests_by_session(place)
    tally.counts.update(finished=len(done), cut_off=len(before) - len(done) - 1)
    resumed = subprocess.run(
        [*command, "resumed"], capture_output=True, text=True, timeout=120, env=environ, check=False
    )
    if resumed.returncode != 0:
        tally.faults.append(f"the tree could not be taken up: {resumed.stderr[-500:]}")
        return
    answers = json.loads(resumed.stdout.splitlines()[-1])
    if answers != [f"child{number} is done." for number in range(CHILDREN)]:
        tally.faults.append(f"the calls were answered by {answers}")
    check(place, done, before, tally)


def _is_done(folder: Path) -> bool:
    try:
        results = json.loads((folder / "results.json").read_bytes())["results"]
    except OSError:
        return False
    return any(result["status"] == "success" for result in results.values())


def check(place: Path, done: set[str], before: dict[str, int], tally: Tally) -> None:
    """Look at a tree that was taken up."""
    from amplifier_kit.log.reader import read_log

    after = requests_by_session(place)
    for name in done:
        if after[name] != before[name]:
            tally.faults.append(f"{name} was finished, and was run again")
    if len(after) > CHILDREN + 2 + 1:
        tally.faults.append(f"{len(after)} sessions, more than the tree has: {sorted(after)}")
    for folder in place.iterdir():
        lines = list(read_log(folder, on_torn=lambda torn: None))
        numbers = [line.record["seq"] for line in lines]
        if numbers != sorted(set(numbers)) or (numbers and numbers[-1] - numbers[0] > len(numbers)):
            tally.faults.append(f"{folder.name}: a gap in its log")
        if "_inner" in folder.name:
            continue  # grandchildren that were cut off are not resumed
        # One that had answered when it was killed is not run again, and so has no end in its log.
        is_run_again = after[folder.name] != before.get(folder.name)
        if is_run_again and [line.event for line in lines[-1:]] != ["session:end"]:
            tally.faults.append(f"{folder.name}: its log is not closed")
        if not _is_done(folder) and folder.name != ROOT_ID:
            tally.faults.append(f"{folder.name} is not done")


if __name__ == "__main__":
    asyncio.run(play(Path(sys.argv[1]), is_resumed=sys.argv[2:] == ["resumed"]))

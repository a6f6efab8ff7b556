"""A tree that is killed goes on: what its children have finished is not done again."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.children.capabilities import Spawner
from amplifier_foundation.sessions.resume import load_session
from amplifier_foundation.sessions.runtime import SessionRuntime
from amplifier_kit.log.reader import read_log

_CALLS = [
    {"name": "call", "arguments": {"agent": agent, "task": f"{agent}, go."}, "id": agent}
    for agent in ("quick", "slow", "nested")
]
_AGENTS: dict[str, Any] = {
    "quick": [{"text": "Quick is done."}],
    "slow": [{"delay_ms": 600_000, "text": "never"}],
    "nested": [
        {"tool_calls": [{"name": "call", "arguments": {"agent": "quick", "task": "Inner."}, "id": "inner"}]},
        {"delay_ms": 600_000, "text": "never"},
    ],
}

#: A program that runs the tree, with a tool that delegates.
_PROGRAM = """
import asyncio, json, os, signal, sys, types
from pathlib import Path
from amplifier_foundation.plan.prepared import Prepared
from amplifier_foundation.children.capabilities import Spawner
from amplifier_foundation.sessions.runtime import SessionRuntime
from amplifier_testing.loop.fakes import PlainTool

module = types.ModuleType("amplifier_module_tool_calling")

async def mount(coordinator, config=None):
    async def call(given):
        spawn = coordinator.get_capability("session.spawn")
        for agent, task in given.get("before", []):
            await spawn(agent_name=agent, instruction=task)
        await asyncio.gather(*(spawn(agent_name=agent, instruction=task) for agent, task in given.get("beside", [])))
        return (await spawn(agent_name=given["agent"], instruction=given["task"]))["output"]
    await coordinator.mount("tools", PlainTool("call", call))
    return {"name": "tool-calling"}

mount.__module__ = module.__name__
module.mount = mount
sys.modules[module.__name__] = module

killing = types.ModuleType("amplifier_module_tool_killing")

async def die(coordinator, config=None):
    os.kill(os.getpid(), signal.SIGKILL)

die.__module__ = killing.__name__
killing.mount = die
sys.modules[killing.__name__] = killing

async def main():
    job = json.loads(sys.argv[1])
    prepared = Prepared.from_plan(job["plan"], Path(job["home"]), Path(job["project"]), name="b")
    async with SessionRuntime(prepared, session_id=job["id"], environ={}, spawner=Spawner()) as runtime:
        await runtime.execute("Go.")

asyncio.run(main())
"""


def _kill_when(process: subprocess.Popen[bytes], is_time: Any) -> None:
    """Kill a process when something has come about."""
    import time

    for _ in range(12_000):
        if is_time():
            break
        assert process.poll() is None, "the program ended by itself"
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()


def _agents(tree: Any) -> dict[str, str]:
    return {path.name.partition("_")[2]: path.name for path in tree.place.iterdir() if path.name.count("_")}


def _has(tree: Any, identity: str | None, name: str) -> bool:
    """Tell whether a session has a file with something in it: it is made before it is written."""
    path: Path = tree.place / str(identity) / name
    return path.is_file() and path.stat().st_size > 0


def _start(tree: Any, calls: list[Any], **agents: Any) -> subprocess.Popen[bytes]:
    """Start a tree in a process of its own, with more `agents`."""
    script = tree.folder / "killed.json"
    script.write_text(json.dumps({"turns": [{"tool_calls": calls}], "agents": _AGENTS}), encoding="utf-8")
    tree.plan["providers"] = [{"module": "provider-mock", "config": {"scenario": str(script)}}]
    tree.plan["tools"] = [{"module": "tool-calling"}]
    tree.plan["agents"] = {name: {"description": name, "instruction": f"You are {name}."} for name in _AGENTS} | agents
    job = {"plan": tree.plan, "home": str(tree.home), "project": str(tree.project), "id": "the-root"}
    return subprocess.Popen([sys.executable, "-c", _PROGRAM, json.dumps(job)])


@pytest.fixture
def killed(tree: Any) -> Any:
    """Return a tree that was killed while one child was done, one at work, and one had a finished child itself."""
    process = _start(tree, _CALLS)

    def is_time() -> bool:
        if not tree.place.is_dir():
            return False
        done = [path for path in tree.place.iterdir() if (path / "results.json").is_file()]
        if len(done) != 2 or not _has(tree, _agents(tree).get("slow"), "transcript.jsonl"):
            return False
        return _asked_twice(tree) and _count(tree, "the-root", "tool:post") == 1

    _kill_when(process, is_time)
    return tree


def _asked_twice(tree: Any) -> bool:
    nested = _agents(tree).get("nested")
    return nested is not None and _count(tree, nested, "llm:request") == 2


def _count(tree: Any, identity: str, event: str) -> int:
    return sum(line.event == event for line in read_log(tree.place / identity, on_torn=lambda torn: None))


@pytest.mark.parametrize("is_told", [True, False])
async def test_finished_children_are_not_run_again(killed: Any, delegating: str, is_told: bool) -> None:
    """The resumed root has the result of the finished child, and the names of those that can go on.

    Whether the parent's log had the result already or only the child's folder has it makes no difference.
    """
    tree = killed
    if not is_told:
        for name in ("the-root", _agents(tree)["nested"]):
            _forget_results(tree.place / name / "events.jsonl")
    before = {path.name: _count(tree, path.name, "llm:request") for path in tree.place.iterdir()}
    saved = load_session(tree.place / "the-root")
    tree.plan["tools"] = [{"module": delegating}]
    runtime = SessionRuntime(tree.prepared(), saved=saved, environ={}, spawner=Spawner())
    results = {message["tool_call_id"]: message["content"] for message in _tools(runtime.saved)}
    if is_told:
        assert results["quick"] == "Quick is done."
    else:  # what the tool would have made of it nobody knows
        opening, told = results["quick"].splitlines()
        assert "interrupted" in opening
        assert json.loads(told)["response"] == "Quick is done."
    for name in ("slow", "nested"):
        assert f"of agent {name}" in results[name]
        assert _agents(tree)[name] in results[name]
    closing = runtime.saved.messages[-1] if runtime.saved is not None else {}
    assert closing["role"] == "assistant"
    assert "lost" not in closing["content"]  # or the model would have done again what is there
    agents = {
        "slow": [{"text": "Slow is done."}],
        "nested": [{"expect": {"contains": "Quick is done."}, "text": "All."}],
    }
    tree.script([], agents)
    async with runtime:
        spawn = runtime.session.coordinator.get_capability("session.spawn")
        _use_now(tree, *map(_agents(tree).__getitem__, ("slow", "nested")))
        outputs = [
            (await spawn(agent_name=name, instruction=f"{name}, go.", tool_call_id=name))["output"]
            for name in ("quick", "slow", "nested")
        ]
    assert outputs == ["Quick is done.", "Slow is done.", "All."]
    after = {path.name: _count(tree, path.name, "llm:request") for path in tree.place.iterdir()}
    assert after.keys() == before.keys()
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {_agents(tree)["slow"], _agents(tree)["nested"]}


@pytest.mark.parametrize("how", ["before", "beside"])
async def test_every_child_of_a_call_that_was_interrupted_is_named(tree: Any, how: str) -> None:
    """A tool that starts several is not done with the first: the model reads what each has answered, or how it goes on.

    One agent that got two tasks in one call has two sessions, whether it got them in turn or side by side.
    """
    arguments = {"agent": "slow", "task": "Three.", how: [["quick", "One."], ["quick", "Two."]]}
    process = _start(tree, [{"name": "call", "arguments": arguments, "id": "several"}])

    def is_time() -> bool:
        return tree.place.is_dir() and _has(tree, _agents(tree).get("slow"), "transcript.jsonl")

    _kill_when(process, is_time)
    runtime = SessionRuntime(
        tree.prepared(), saved=load_session(tree.place / "the-root"), environ={}, spawner=Spawner()
    )
    [message] = _tools(runtime.saved)
    opening, *told = message["content"].splitlines()
    assert "interrupted" in opening
    quick = {path.name for path in tree.place.iterdir() if path.name.endswith("_quick")}
    answers = [json.loads(line) for line in told if line.startswith("{")]
    assert {answer["session_id"] for answer in answers} == quick
    assert (len(quick), {answer["response"] for answer in answers}) == (2, {"Quick is done."})
    assert sum(_agents(tree)["slow"] in line and "not done" in line for line in told) == 1


def _forget_results(log: Path) -> None:
    """Take the ends of calls out of a log, as if the process had been killed before they were written."""
    lines = log.read_text(encoding="utf-8").splitlines(keepends=True)
    log.write_text("".join(line for line in lines if '"event": "tool:post"' not in line), encoding="utf-8")


def _tools(saved: Any) -> list[Any]:
    return [message for message in saved.messages if message["role"] == "tool"]


def _use_now(tree: Any, *identities: str) -> None:
    """Let children go on with the providers and tools that the tree has now."""
    for identity in identities:
        path = Path(tree.place / identity / "record.json")
        record = json.loads(path.read_text(encoding="utf-8"))
        record["plan"] |= {"providers": tree.plan["providers"], "tools": tree.plan["tools"]}
        path.write_text(json.dumps(record), encoding="utf-8")


async def test_the_log_of_a_killed_tree_is_sound_and_goes_on(killed: Any, delegating: str) -> None:
    """Every log can be read, numbers go on without a gap, and what was left open is closed by the resumed run."""
    tree = killed
    tree.plan["tools"] = [{"module": delegating}]
    slow = _agents(tree)["slow"]
    tree.script([], {"slow": [{"text": "Slow is done."}]})
    _use_now(tree, slow)
    saved = load_session(tree.place / "the-root")
    async with SessionRuntime(tree.prepared(), saved=saved, environ={}, spawner=Spawner()) as runtime:
        await runtime.session.coordinator.get_capability("session.resume")(slow, "Go on.")
    for folder in tree.place.iterdir():
        numbers = [line.record["seq"] for line in read_log(folder, on_torn=lambda torn: None)]
        assert numbers == list(range(1, len(numbers) + 1))
    assert tree.metadata(slow)["turn_count"] == 2
    assert "incremental" not in tree.metadata(slow)
    await asyncio.sleep(0)
    assert os.path.isfile(tree.place / slow / "results.json")


async def test_a_child_that_was_killed_on_its_way_up_is_called_again(tree: Any, delegating: str) -> None:
    """Nothing was done that could go on: the model reads that, and the same call starts the same child."""
    call = {"name": "call", "arguments": {"agent": "early", "task": "Go."}, "id": "first"}
    early: dict[str, Any] = {"description": "early", "instruction": "You are early."}
    process = _start(tree, [call], early={**early, "tools": [{"module": "tool-killing"}]})
    assert process.wait() == -signal.SIGKILL
    tree.plan["agents"]["early"] = early
    tree.plan["tools"] = [{"module": delegating}]
    tree.script([], {"early": [{"text": "Now it is."}]})
    runtime = SessionRuntime(
        tree.prepared(), saved=load_session(tree.place / "the-root"), environ={}, spawner=Spawner()
    )
    [message] = _tools(runtime.saved)
    assert "nothing was done. Call again" in message["content"]
    async with runtime:
        spawn = runtime.session.coordinator.get_capability("session.spawn")
        result = await spawn(agent_name="early", instruction="Go.", tool_call_id="first")
    assert (result["output"], result["session_id"]) == ("Now it is.", _agents(tree)["early"])

"""How many children may work at the same time, when some of them are started in other processes."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.usage import BudgetExceededError

_ENVIRON = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
_ASK_BUILDER = {"name": "task", "arguments": {"agent": "builder", "instruction": "Build."}}


def _wait_for(file: str) -> dict[str, Any]:
    command = f"until [ -e {file} ]; do sleep 0.02; done"
    return {"tool_calls": [{"name": "bash", "arguments": {"command": command}}]}


@pytest.fixture
def crew(tree: Any) -> Callable[..., None]:
    """Return a function that says what agents do; there may be two at a time in the whole tree."""
    rules = [f"{{action: {action}, verdict: allow}}" for action in ("process.exec", "session.spawn", "tool.wait")]
    (tree.home / "policy.yaml").write_text(f"rules: [{', '.join(rules)}]", encoding="utf-8")
    tree.plan["session"]["budget"] = {"fan_out": 2}
    tree.plan["tools"] = [{"module": "tool-bash", "config": {"sandbox": "off"}}, {"module": "tool-task"}]

    def play(explorer: list[dict[str, Any]], builder: list[dict[str, Any]]) -> None:
        waiter = [{"tool_calls": [{"name": "wait", "arguments": {}}]}, {"text": "Waited."}]
        tree.script([], {"explorer": explorer, "builder": builder, "waiter": waiter})

    return play


def _below(place: Path, child: str) -> list[Path]:
    """Return the transcripts of sessions that a child has started."""
    span = child.partition("-")[2].partition("_")[0]
    return list(place.glob(f"{span}-*/transcript.jsonl"))


async def test_children_of_other_processes_have_places_here(
    tree: Any, crew: Any, spawn_in: Any, eventually: Any
) -> None:
    """A grandchild in another process takes a place of the tree, until its process is gone, however that ends."""
    crew([{"tool_calls": [_ASK_BUILDER]}, {"text": "Built."}], [{"text": "Never.", "delay_ms": 600_000}])
    async with tree.run(environ=_ENVIRON) as runtime:
        child = spawn_in(runtime).child_id("explorer", "c")
        there = asyncio.ensure_future(spawn_in(runtime)("explorer", "Go.", use_subprocess=True, tool_call_id="c"))
        await eventually(lambda: bool(_below(tree.place, child)))
        with pytest.raises(BudgetExceededError, match="2 child sessions at the same time, and 2 are running"):
            await spawn_in(runtime)("builder", "Build here.")
        there.cancel()
        with pytest.raises(asyncio.CancelledError):
            await there
        assert runtime.budget.allowance()["fan_out"] == "2"


async def test_a_process_starts_no_child_that_is_one_too_many(
    tree: Any, crew: Any, spawn_in: Any, gate: Any, eventually: Any
) -> None:
    """What is started here after the process began counts there: refused while it runs, allowed when it has ended."""
    said = "2 child sessions at the same time"
    crew(
        [
            _wait_for("first"),
            {"tool_calls": [_ASK_BUILDER]},
            {**_wait_for("second"), "expect": {"last_role": "tool", "contains": said}},
            {"tool_calls": [_ASK_BUILDER]},
            {"text": "It was built.", "expect": {"last_role": "tool", "contains": ["A house."]}},
        ],
        [{"text": "A house."}],
    )
    tree.plan["agents"]["waiter"] = {"instruction": "You wait.", "tools": [{"module": gate.module}]}
    async with tree.run(environ=_ENVIRON) as runtime:
        child = spawn_in(runtime).child_id("explorer", "c")
        there = asyncio.ensure_future(spawn_in(runtime)("explorer", "Go.", use_subprocess=True, tool_call_id="c"))
        await eventually(lambda: (tree.place / child / "transcript.jsonl").is_file())
        here = asyncio.ensure_future(spawn_in(runtime)("waiter", "Wait."))
        await eventually(lambda: here.done() or gate.begun.is_set())
        (tree.project / "first").touch()
        await eventually(lambda: there.done() or said in (tree.place / child / "transcript.jsonl").read_text())
        gate.going.set()
        assert (await here)["output"] == "Waited."
        (tree.project / "second").touch()
        result = await there
        assert runtime.budget.allowance()["fan_out"] == "2"
    assert (result["status"], result["output"]) == ("success", "It was built.")

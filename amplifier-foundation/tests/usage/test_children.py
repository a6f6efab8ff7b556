"""Budgets of real child sessions: drawn from their parent, laid to their agent, and over for all at once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.children.capabilities import Spawner
from amplifier_foundation.plan.prepared import Prepared
from amplifier_foundation.sessions.runtime import SessionRuntime
from amplifier_foundation.usage.budget import BudgetExceededError
from amplifier_kit.log.reader import read_log

ANSWER = {"text": "Done.", "usage": {"input_tokens": 8, "output_tokens": 2, "cost_usd": "0.5"}, "delay_ms": 20}
OpenTree = Callable[..., SessionRuntime]


@pytest.fixture
def open_tree(tmp_path: Path) -> OpenTree:
    """Return a function that makes a session with two agents and a budget; every answer takes 10 tokens."""

    def make(budget: dict[str, Any], delay_ms: int = 20, **agent: Any) -> SessionRuntime:
        script, said = tmp_path / "script.json", [{**ANSWER, "delay_ms": delay_ms}]
        script.write_text(
            json.dumps({"turns": said, "agents": {"helper": said, "other": said}, "repeat": True}), encoding="utf-8"
        )
        plan = {
            "session": {
                "orchestrator": {"module": "loop-basic"},
                "context": {"module": "context-simple"},
                "budget": budget,
            },
            "providers": [{"module": "provider-mock", "config": {"scenario": str(script)}}],
            "hooks": [{"module": "hooks-logging"}],
            "agents": {
                "helper": {"description": "Helps.", "instruction": "You help.", **agent},
                "other": {"description": "Helps.", "instruction": "You help too."},
            },
        }
        return SessionRuntime(Prepared.from_plan(plan, tmp_path / "home", tmp_path), environ={}, spawner=Spawner())

    return make


def _exhausted(runtime: SessionRuntime) -> list[tuple[str, dict[str, Any]]]:
    """Return the events that a limit was reached, in all logs of the tree, with whose log it is."""
    return [
        (folder.name, line.data)
        for folder in runtime.folder.parent.iterdir()
        for line in read_log(folder)
        if line.event == "budget:exhausted"
    ]


async def test_children_draw_from_their_parent(open_tree: OpenTree) -> None:
    """What children use side by side is the parent's, by agent; when it is used up, all stop, and one log tells it."""
    runtime = open_tree({"tokens": 40})
    async with runtime:
        spawn = runtime.session.coordinator.get_capability("session.spawn")
        assert await runtime.execute("go") == "Done."
        results = await asyncio.gather(*(spawn(agent, "help") for agent in ("helper", "other", "helper")))
        assert [result["status"] for result in results] == ["success"] * 3
        assert runtime.budget.used()["tokens"] == 40
        with pytest.raises(BudgetExceededError, match="the budget of 40 tokens is used up"):
            await spawn("helper", "once more")
        assert "the budget of 40 tokens is used up" in await runtime.execute("more")
    rows = runtime.budget.spent()
    assert sorted((str(row["agent"]), row["tokens"], row["usd"]) for row in rows) == [
        ("None", 10, "0.5"),
        ("helper", 10, "0.5"),
        ("helper", 10, "0.5"),
        ("other", 10, "0.5"),
    ]
    assert {row["session"] for row in rows} == {runtime.session_id, *(result["session_id"] for result in results)}
    [(where, told)] = _exhausted(runtime)
    assert (where, told["limit_of"]) == (runtime.session_id, runtime.session_id)
    assert told["spent"] == rows


async def test_a_child_that_reaches_the_limit_says_so(open_tree: OpenTree) -> None:
    """The event is in the log of the session whose call was refused, and names the session whose limit it was."""
    runtime = open_tree({"turns": 1})
    async with runtime:
        spawn = runtime.session.coordinator.get_capability("session.spawn")
        await spawn("helper", "help")
        refused = await spawn("other", "help")
        assert refused["status"] == "budget_exhausted"
        assert "the budget of 1 turns is used up" in await runtime.execute("go")
    [(where, told)] = _exhausted(runtime)
    assert (where, told["limit_of"]) == (refused["session_id"], runtime.session_id)


def _end(runtime: SessionRuntime, session_id: str) -> Any:
    """Return the status with which a session ended, by its log."""
    lines = read_log(runtime.folder.parent / session_id)
    return [line.record["status"] for line in lines if line.event == "session:end"][-1]


async def test_one_that_is_refused_fails_nobody_else(open_tree: OpenTree) -> None:
    """A child that answers has done its work, although a sibling used up the budget before; a call again finds it."""
    runtime = open_tree({"turns": 2}, delay_ms=700)
    async with runtime:
        spawn = runtime.session.coordinator.get_capability("session.spawn")

        async def refused() -> dict[str, Any]:
            while runtime.budget.used()["turns"] < 2:  # noqa: ASYNC110 - until the others have their turns
                await asyncio.sleep(0)
            result: dict[str, Any] = await spawn("other", "help", tool_call_id="c3")
            return result

        done = [spawn("helper", "help", tool_call_id=call) for call in ("c1", "c2")]
        *answered, late = await asyncio.gather(*done, refused())
        assert [(one["status"], one["output"]) for one in answered] == [("success", "Done.")] * 2
        assert "reason" not in answered[0]["metadata"]
        assert (late["status"], late["metadata"]["reason"]) == (
            "budget_exhausted",
            "the budget of 2 turns is used up (2 used)",
        )
        again = json.loads((runtime.folder.parent / answered[0]["session_id"] / "results.json").read_bytes())
        assert [one["status"] for one in again["results"].values()] == ["success"]
    assert [_end(runtime, one["session_id"]) for one in (*answered, late)] == ["completed", "completed", "failed"]
    assert runtime.session.status.status == "completed", "the session itself was refused nothing"


async def test_a_provider_that_may_not_ask_is_the_same_end(open_tree: OpenTree) -> None:
    """What is used up between the turn and the question ends the child as its budget does, not as a failure."""
    runtime = open_tree({"tokens": 50})

    def use_up(facts: Any, event: str, data: Any) -> None:
        if event == "llm:request":
            runtime.budget.add_usage({"total_tokens": 50, "cost_usd": "0"})

    runtime.on_child_event = use_up
    async with runtime:
        ended = await runtime.session.coordinator.get_capability("session.spawn")("helper", "help")
    assert (ended["status"], ended["metadata"]["reason"]) == (
        "budget_exhausted",
        "the budget of 50 tokens is used up (50 used)",
    )
    assert _end(runtime, ended["session_id"]) == "failed"


async def test_a_session_that_the_budget_ends_says_so(open_tree: OpenTree) -> None:
    """The last word of a session that was refused its question is that it failed, and its status has the reason."""
    runtime = open_tree({"turns": 1})
    async with runtime:
        await runtime.execute("go")
        assert runtime.session.status.status == "completed"
        await runtime.execute("once more")
    assert _end(runtime, runtime.session_id) == "failed"
    assert runtime.session.status.last_error == {"message": "the budget of 1 turns is used up (1 used)"}


async def test_an_agent_has_limits_of_its_own(open_tree: OpenTree) -> None:
    """A limit in an agent's own plan stops that child alone; its parent goes on."""
    runtime = open_tree({"tokens": 100}, session={"budget": {"turns": 0}})
    async with runtime:
        spawn = runtime.session.coordinator.get_capability("session.spawn")
        refused = await spawn("helper", "help")
        assert refused["status"] == "budget_exhausted"
        assert (await spawn("other", "help"))["status"] == "success"
        assert await runtime.execute("go") == "Done."
    assert [(where, told["limit_of"]) for where, told in _exhausted(runtime)] == [(refused["session_id"],) * 2]


async def test_places_are_given_back_on_every_way_out(open_tree: OpenTree) -> None:
    """Children that end, fail, or are cancelled leave their place; one too many is refused and ends nothing."""
    runtime = open_tree({"fan_out": 2})
    async with runtime:
        spawn = runtime.session.coordinator.get_capability("session.spawn")
        results = await asyncio.gather(*(spawn("helper", str(n)) for n in range(3)), return_exceptions=True)
        refused = [result for result in results if isinstance(result, BudgetExceededError)]
        assert [error.limit for error in refused] == ["fan_out"]
        with pytest.raises(Exception, match="nobody"):
            await spawn("nobody", "help")
        task = asyncio.create_task(spawn("helper", "cancelled"))
        while runtime.budget.running_children == 0:  # noqa: ASYNC110 - until it has started
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert runtime.budget.running_children == 0
        again = await asyncio.gather(*(spawn("helper", f"again {n}") for n in range(2)))
        assert [result["status"] for result in again] == ["success"] * 2
        assert await runtime.execute("go") == "Done."
    assert _exhausted(runtime) == []


async def test_no_child_below_the_depth(open_tree: OpenTree) -> None:
    """With a depth of zero no child session is begun, and the session itself goes on."""
    runtime = open_tree({"depth": 0})
    async with runtime:
        with pytest.raises(BudgetExceededError, match="0 levels deep"):
            await runtime.session.coordinator.get_capability("session.spawn")("helper", "help")
        assert await runtime.execute("go") == "Done."

"""What children cost is told once and never lost, and all of a tree draw on one budget."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from amplifier_foundation.children.errors import ChildBusyError, ChildUnknownError
from amplifier_foundation.sessions.resume import load_session
from amplifier_foundation.sessions.runtime import SessionRuntime

_PAID = {"input_tokens": 10, "output_tokens": 5, "cost_usd": "0.5"}


async def _cost(runtime: SessionRuntime) -> Decimal:
    told = await runtime.session.coordinator.collect_contributions("session.cost")
    return sum((Decimal(str(one["cost_usd"])) for one in told if one and one.get("cost_usd")), Decimal(0))


async def test_children_draw_on_one_budget(tree: Any, spawn_in: Callable[..., Any]) -> None:
    """LESSONS: runaway spend. Four children at once call the model no more often than the session may in total."""
    tree.script([], {"explorer": [{"text": "One.", "delay_ms": 50}]})
    environ = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "PYTHONPATH")}
    async with tree.run(environ=environ, budget={"turns": 2}) as runtime:
        spawn = spawn_in(runtime)
        calls = [spawn("explorer", "Go.", tool_call_id=f"c{number}") for number in range(4)]
        results = await asyncio.gather(*calls, return_exceptions=True)
        used = runtime.budget.used()["turns"]
    answered = [one for one in results if isinstance(one, dict) and one["status"] == "success"]
    assert (len(answered), used) == (2, 2)


async def test_tokens_of_children_side_by_side_are_bounded(tree: Any, spawn_in: Callable[..., Any]) -> None:
    """Four children that each call the model ten times use no more than the limit and the calls that were in flight."""
    (tree.home / "policy.yaml").write_text("rules: [{action: process.exec, verdict: allow}]", encoding="utf-8")
    tree.plan["tools"] = [{"module": "tool-bash", "config": {"sandbox": "off"}}]
    used = {"input_tokens": 6, "output_tokens": 4, "cost_usd": "0.1"}
    look = {"tool_calls": [{"name": "bash", "arguments": {"command": "true"}}], "usage": used}
    tree.script([], {"explorer": [look] * 9 + [{"text": "Done.", "usage": used}]})
    environ = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "PYTHONPATH")}
    async with tree.run(environ=environ, budget={"tokens": 50}) as runtime:
        spawn = spawn_in(runtime)
        calls = [spawn("explorer", "Go.", tool_call_id=f"c{number}") for number in range(4)]
        results = await asyncio.gather(*calls)
        tokens = runtime.budget.used()["tokens"]
    assert 50 <= tokens <= 50 + 4 * 10
    assert {result["status"] for result in results} == {"budget_exhausted"}


async def test_a_refused_resume_does_not_forget_the_cost(tree: Any, spawn_in: Callable[..., Any], gate: Any) -> None:
    """A child that is busy and asked for once more has cost what it has cost."""
    tree.plan["tools"] = [{"module": gate.module}]
    calls = [{"name": "wait", "arguments": {}, "id": "g"}]
    tree.script([], {"explorer": [{"tool_calls": calls, "usage": _PAID}, {"text": "One.", "usage": _PAID}]})
    async with tree.run() as runtime:
        resume = runtime.session.coordinator.get_capability("session.resume")
        gate.going.set()
        first = await spawn_in(runtime)("explorer", "Go.", tool_call_id="c1")
        gate.going.clear()
        gate.begun.clear()
        going = asyncio.ensure_future(resume(first["session_id"], "Again."))
        await gate.begun.wait()
        with pytest.raises(ChildBusyError):
            await resume(first["session_id"], "And again.")
        assert await _cost(runtime) >= Decimal("1.0")
        gate.going.set()
        await going
        assert await _cost(runtime) == Decimal("2.0")


async def test_the_cost_of_a_turn_that_was_cut_off_counts(tree: Any, spawn_in: Callable[..., Any]) -> None:
    """A process that is killed keeps no notes of its last turn: the log has what it used, also of children."""
    tree.script([{"text": "Mine.", "usage": _PAID}], {"explorer": [{"text": "One.", "usage": _PAID}]})
    async with tree.run() as runtime:
        child = await spawn_in(runtime)("explorer", "Go.", tool_call_id="c1")
        await runtime.execute("Go.")
        root = runtime.session_id
    for session in (root, child["session_id"]):
        file = tree.place / session / "metadata.json"
        facts = json.loads(file.read_text(encoding="utf-8"))
        del facts["usage"]
        file.write_text(json.dumps({**facts, "incremental": True}), encoding="utf-8")
    assert load_session(tree.place / root).metadata["usage"]["cost_usd"] == "0.5"
    async with tree.run(root) as resumed:
        assert await _cost(resumed) == Decimal("1.0")


async def test_only_its_parent_lets_a_child_go_on(tree: Any, spawn_in: Callable[..., Any]) -> None:
    """Another session of the project that knows the id cannot take a child over: its cost would be told twice."""
    async with tree.run() as runtime:
        child = await spawn_in(runtime)("explorer", "Go.", tool_call_id="c1")
        mine = runtime.session_id
    async with tree.run() as other:
        resume = other.session.coordinator.get_capability("session.resume")
        with pytest.raises(ChildUnknownError, match=f"is a child of session {mine}"):
            await resume(child["session_id"], "Again.")


def _spent(result: dict[str, Any]) -> tuple[Any, ...]:
    known = result["metadata"]
    return known["cost_usd"], known["usage"]["input_tokens"], known["usage"]["cost_usd"], known.get("session_cost_usd")


async def test_each_call_of_a_child_has_its_own_cost(tree: Any, spawn_in: Callable[..., Any]) -> None:
    """What a call took is told of that call alone, so that calls add up; the session counts the child once, in all."""
    tree.script([], {"explorer": [{"text": "One.", "usage": _PAID}] * 3})
    environ = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "PYTHONPATH")}
    async with tree.run(environ=environ) as runtime:
        root = runtime.session_id
        resume = runtime.session.coordinator.get_capability("session.resume")
        first = await spawn_in(runtime)("explorer", "Go.", tool_call_id="c1")
        again = await resume(first["session_id"], "Again.", tool_call_id="c2")
        told = await runtime.session.coordinator.collect_contributions("session.cost")
        assert [_spent(one) for one in (first, again)] == [("0.5", 10, "0.5", None), ("0.5", 10, "0.5", "1.0")]
        assert {"cost_usd": "1.0", "call_cost_usd": "0.5"} in told
        assert again["metadata"]["session_usage"]["input_tokens"] == 20
        assert await _cost(runtime) == runtime.budget.used()["usd"] == Decimal("1.0")
    async with tree.run(root, environ=environ) as later:
        third = await later.session.coordinator.get_capability("session.resume")(first["session_id"], "Once more.")
        assert _spent(third) == ("0.5", 10, "0.5", "1.5")
        assert await _cost(later) == Decimal("1.5")


async def test_a_call_that_is_stopped_has_its_own_cost(tree: Any, spawn_in: Callable[..., Any], gate: Any) -> None:
    """Of a child that goes on and is stopped, the session knows what that call has cost, also while it works."""
    tree.plan["tools"] = [{"module": gate.module}]
    calls = [{"name": "wait", "arguments": {}, "id": "g"}]
    tree.script([], {"explorer": [{"tool_calls": calls, "usage": _PAID}, {"text": "One.", "usage": _PAID}]})
    async with tree.run() as runtime:
        gate.going.set()
        first = await spawn_in(runtime)("explorer", "Go.", tool_call_id="c1")
        gate.going.clear()
        gate.begun.clear()
        resume = runtime.session.coordinator.get_capability("session.resume")
        going = asyncio.ensure_future(resume(first["session_id"], "Again."))
        await gate.begun.wait()
        told = {"cost_usd": "1.5", "call_cost_usd": "0.5"}
        assert told in await runtime.session.coordinator.collect_contributions("session.cost")
        going.cancel()
        with pytest.raises(asyncio.CancelledError):
            await going
        assert told in await runtime.session.coordinator.collect_contributions("session.cost")

"""Parallel children have nothing in common but their parent."""

import asyncio
import gc
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from amplifier_kit.log.reader import read_log
from amplifier_kit.log.verify import verify_log
from amplifier_testing.loop.fakes import PlainTool

#: Configurations by the coordinator they were mounted in, as modules keep them between mount and ready.
_Deferred = dict[int, Any]


@pytest.fixture
def telling(add_tools: Callable[..., str]) -> str:
    """Return a module whose tool tells all that a child has of its own, some of it since its session was ready."""
    deferred: _Deferred = {}

    def make(coordinator: Any) -> list[PlainTool]:
        own = coordinator.config["session"]["metadata"].get("mark")
        deferred[id(coordinator)] = own

        async def look(given: dict[str, Any]) -> str:
            await asyncio.sleep(own["wait"] / 1000 if own else 0)
            told = {
                "session_id": coordinator.session_id,
                "parent_id": coordinator.parent_id,
                "mark": coordinator.config["session"]["metadata"].get("mark"),
                "contributed": await coordinator.collect_contributions("test.marks"),
                "state": list(coordinator.session_state.setdefault("seen", [])),
            }
            coordinator.session_state["seen"].append(own)
            return json.dumps(told)

        return [PlainTool("look", look)]

    async def on_ready(coordinator: Any) -> None:
        mark = deferred.pop(id(coordinator))
        coordinator.register_contributor("test.marks", "mark", lambda: mark)

    return add_tools(make, on_ready)


def _script(tree: Any, module: str) -> None:
    tree.plan["session"]["metadata"] = {}
    tree.plan["tools"] = [{"module": module}]
    look = {"tool_calls": [{"name": "look", "arguments": {}, "id": "the-same-for-all"}]}
    tree.script([], {"explorer": [look, look, {"text": "Done."}]})


@given(
    waits=st.lists(st.integers(0, 8), min_size=2, max_size=7),
    stopped=st.sets(st.integers(0, 6), max_size=3),
)
@settings(
    max_examples=12,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    phases=[Phase.explicit, Phase.generate],
)
def test_parallel_children_mix_nothing_up(tree: Any, telling: str, waits: list[int], stopped: set[int]) -> None:
    """Ledgers, ids, configurations, contributions, deferred state and wishes to stop stay with whose they are."""
    with tempfile.TemporaryDirectory(dir=tree.folder) as folder:
        fresh = type(tree)(Path(folder))
        _script(fresh, telling)
        whole = asyncio.run(_grow(fresh, waits, stopped))
    assert set(range(len(waits))) - stopped <= whole <= set(range(len(waits)))


async def _grow(tree: Any, waits: list[int], stopped: set[int]) -> set[int]:
    """Run children side by side, some of them stopped; return the numbers of those that were looked through whole."""
    whole = set[int]()
    marks = [{"number": number, "wait": wait} for number, wait in enumerate(waits)]
    async with tree.run() as runtime:
        spawn = runtime.session.coordinator.get_capability("session.spawn")
        tasks = [
            asyncio.ensure_future(
                spawn(
                    "explorer",
                    f"Task {mark['number']}.",
                    tool_call_id=f"c{mark['number']}",
                    session_metadata={"mark": mark},
                )
            )
            for mark in marks
        ]
        await asyncio.sleep(0.003)
        for number in stopped & set(range(len(waits))):
            tasks[number].cancel()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        ids = [spawn.child_id("explorer", f"c{mark['number']}") for mark in marks]
        assert not runtime.session.coordinator.cancellation.is_cancelled
        assert runtime.session.coordinator.cancellation._children == []
    assert len(set(ids)) == len(ids)
    for number, (result, mark, identity) in enumerate(zip(done, marks, ids, strict=True)):
        if isinstance(result, BaseException):
            assert isinstance(result, asyncio.CancelledError)
            assert number in stopped
            continue
        assert result["session_id"] == identity
        _check(tree, identity, mark, runtime.session_id)
        whole.add(number)
    return whole


def _check(tree: Any, identity: str, mark: dict[str, Any], parent_id: str) -> None:
    said = tree.said(identity)
    assert [text for role, text in said if role == "user"] == [f"Task {mark['number']}."]
    told = [json.loads(text) for role, text in said if role == "tool"]
    assert len(told) == 2
    for place, one in enumerate(told):
        assert (one["session_id"], one["parent_id"], one["mark"]) == (identity, parent_id, mark)
        assert one["contributed"] == [mark]
        assert one["state"] == [mark] * place
    lines = list(read_log(tree.place / identity))
    assert {line.record["session_id"] for line in lines} == {identity}
    assert [line.record["seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert verify_log(tree.place / identity).ok


async def test_fifty_children_at_once_are_complete(tree: Any, telling: str) -> None:
    """Each has its own session on disk, closed, and the parent knows what all of them cost."""
    _script(tree, telling)
    marks = [{"number": number, "wait": number % 5} for number in range(50)]
    async with tree.run() as runtime:
        spawn = runtime.session.coordinator.get_capability("session.spawn")
        results = await asyncio.gather(
            *(spawn("explorer", f"Task {mark['number']}.", session_metadata={"mark": mark}) for mark in marks)
        )
        told = runtime.session.coordinator.channels["session.cost"]
        assert sum(entry["name"].startswith("delegate:") for entry in told) == 50
    for result, mark in zip(results, marks, strict=True):
        assert result["status"] == "success"
        _check(tree, result["session_id"], mark, runtime.session_id)
    assert len(list(tree.place.iterdir())) == 51


async def test_children_that_are_gone_are_gone(tree: Any, spawn_in: Any) -> None:
    """Neither tasks nor files stay open, and the sessions are let go of."""
    from amplifier_core import AmplifierSession

    async with tree.run() as runtime:
        spawn = spawn_in(runtime)
        await spawn("explorer", "Warm up.")
        gc.collect()
        before = len(asyncio.all_tasks()), len(os.listdir("/proc/self/fd")), _count(AmplifierSession)
        for _ in range(10):
            await spawn("explorer", "Go.")
        await asyncio.gather(*(spawn("builder", "Go.") for _ in range(10)))
        gc.collect()
        after = len(asyncio.all_tasks()), len(os.listdir("/proc/self/fd")), _count(AmplifierSession)
        # What an earlier test had left may end meanwhile.
        assert all(now <= then for now, then in zip(after, before, strict=True)), (before, after)


def _count(kind: type) -> int:
    return sum(type(thing) is kind for thing in gc.get_objects())

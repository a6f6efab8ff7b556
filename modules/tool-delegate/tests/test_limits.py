"""Deadlines, signs of life, depth, fan-out, and the wish to stop."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest


async def forever(stopped: list[bool]) -> Any:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        stopped.append(True)
        raise


async def test_a_child_that_hangs_is_stopped(world: Any) -> None:
    """At its deadline the child is cancelled, the model reads that it can go on, and the log has the error."""
    await world.open({"settings": {"timeout": 0.01}})
    stopped: list[bool] = []
    world.behaviour = lambda: forever(stopped)
    result = await world.call(agent="explorer", instruction="x")
    assert stopped == [True]
    assert result.error["code"] == "timeout"
    assert "timed out after 0.01 s" in result.output
    assert world.spawned[0]["sub_session_id"] in result.output
    assert world.names == ["delegate:agent_spawned", "delegate:error"]
    assert world.events[-1][1]["status"] == "timeout"


async def test_signs_of_life(world: Any) -> None:
    """While a child works there are heartbeats with the ids of the call, and none after its end."""
    await world.open({"settings": {"heartbeat_interval": 0.001, "timeout": 60}})

    async def until_two_beats() -> Any:
        for _ in range(2):
            await world.beats.get()
        return {"output": "alive"}

    world.behaviour = until_two_beats
    assert (await world.call(agent="explorer", instruction="x")).success
    assert world.names[0] == "delegate:agent_spawned"
    assert world.names[-1] == "delegate:agent_completed"
    beat = next(data for name, data in world.events if name == "delegation:heartbeat")
    assert beat.items() >= {"tool": "delegate", "tool_call_id": "call-1", "timeout_seconds": 60.0}.items()
    assert beat["elapsed_seconds"] > 0
    count = len(world.events)
    await asyncio.sleep(0.005)
    assert len(world.events) == count


async def test_cancelled_at_once(world: Any) -> None:
    """Whoever drops the call stops the child first, its end is told, and the cancellation goes on."""
    await world.open()
    stopped: list[bool] = []
    world.behaviour = lambda: forever(stopped)
    call = asyncio.create_task(world.call(agent="explorer", instruction="x"))
    await world.starts.get()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert stopped == [True]
    assert world.names == ["delegate:agent_spawned", "delegate:agent_cancelled"]
    world.behaviour = lambda: {"output": "free again"}
    assert (await world.call(agent="explorer", instruction="x")).success


async def test_a_child_that_cancels_itself(world: Any) -> None:
    """A CancelledError that nobody asked for ends the child, not the parent."""
    await world.open()

    async def cancel() -> Any:
        raise asyncio.CancelledError

    world.behaviour = cancel
    result = await world.call(agent="explorer", instruction="x")
    assert result.error["code"] == "cancelled"
    assert world.names[-1] == "delegate:agent_cancelled"


async def test_fan_out(world: Any) -> None:
    """More children than allowed at the same time are refused, and there is room again when one has ended."""
    await world.open({"settings": {"max_parallel": 2}})
    gate = asyncio.Event()

    async def wait() -> Any:
        await gate.wait()
        return {"output": "done"}

    world.behaviour = wait
    calls = [asyncio.create_task(world.call(f"c{n}", agent="explorer", instruction="x")) for n in range(2)]
    for _ in range(2):
        await world.starts.get()
    refused = await world.call("c2", agent="explorer", instruction="x")
    assert refused.error["code"] == "too_many_children"
    busy = await world.call("c0", agent="explorer", instruction="x")
    assert busy.error["code"] == "child_busy"
    gate.set()
    assert all(result.success for result in await asyncio.gather(*calls))
    assert (await world.call("c3", agent="explorer", instruction="x")).success


async def test_recursion(world: Any) -> None:
    """A session that stands as deep as any may hands nothing further down, whoever it asks."""
    await world.open({"settings": {"max_recursion_depth": 2}})
    world.coordinator.config["session"]["metadata"] = {"delegation_depth": 1}
    await world.call(agent="explorer", instruction="x")
    assert world.spawned[0]["session_metadata"]["delegation_depth"] == 2
    world.coordinator.config["session"]["metadata"] = {"delegation_depth": 2}
    result = await world.call("call-2", agent="explorer", instruction="x")
    assert result.error["code"] == "depth_exceeded"
    assert world.names[-1] == "delegate:error"


async def test_copies_of_itself(world: Any) -> None:
    """A copy is one deeper than its original, until no deeper one is allowed; other agents start at none."""
    await world.open({"features": {"self_delegation": {"max_depth": 2}}})
    await world.call("c0", agent="self", instruction="x")
    world.coordinator.register_capability("self_delegation_depth", 1)
    await world.call("c1", agent="self", instruction="x")
    await world.call("c2", agent="explorer", instruction="x")
    assert [asked["self_delegation_depth"] for asked in world.spawned] == [1, 2, 0]
    assert [asked["agent_name"] for asked in world.spawned] == ["self", "self", "amplifier:explorer"]
    world.coordinator.register_capability("self_delegation_depth", 2)
    result = await world.call("c3", agent="self", instruction="x")
    assert result.error["code"] == "depth_exceeded"
    assert len(world.spawned) == 3

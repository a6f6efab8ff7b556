"""Whatever children do side by side, the trail of events is complete and nobody's is mixed with another's."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from amplifier_core import ToolResult
from amplifier_core.testing import MockCoordinator, wait_for
from amplifier_module_tool_delegate import mount

STARTS = ("delegate:agent_spawned", "delegate:agent_resumed")
ENDS = {
    "answers": "delegate:agent_completed",
    "is stopped": "delegate:agent_cancelled",
    "cancels itself": "delegate:agent_cancelled",
    "raises": "delegate:error",
    "hangs": "delegate:error",
    "is unknown": "delegate:error",
}


async def child(instruction: str, sub_session_id: str) -> dict[str, Any]:
    what = instruction.partition("/")[0]
    await asyncio.sleep(0)
    if what == "raises":
        raise RuntimeError(instruction)
    if what == "cancels itself":
        raise asyncio.CancelledError
    if what == "hangs":
        await asyncio.Event().wait()
    status = "cancelled" if what == "is stopped" else "success"
    return {"output": instruction, "session_id": sub_session_id, "status": status}


async def side_by_side(works: list[str]) -> tuple[list[ToolResult], list[tuple[str, dict[str, Any]]]]:
    """Call the tool once for each piece of work, all at the same time; return results and events."""
    coordinator, events = MockCoordinator(), []
    coordinator.config["agents"] = {"helper": {}}

    async def spawn(agent_name: str, instruction: str, sub_session_id: str, **_: Any) -> dict[str, Any]:
        return await child(instruction, sub_session_id)

    coordinator.register_capability("session.spawn", spawn)
    await mount(coordinator, {"settings": {"timeout": 100, "max_parallel": 50}})
    for name in {*STARTS, *ENDS.values()}:
        coordinator.hooks.register(name, lambda event, data: events.append((event, data)), name=name)
    coordinator._tool_dispatch_contexts = {}
    tool = coordinator.get("tools")["delegate"]

    async def call(number: int, work: str) -> Any:
        ids = {"tool_call_id": f"call-{number}", "parallel_group_id": "group"}
        coordinator._tool_dispatch_contexts[asyncio.current_task()] = ids
        agent = "nobody" if work == "is unknown" else "helper"
        return await tool.execute({"agent": agent, "instruction": f"{work}/{number}", "context_depth": "none"})

    calls = [asyncio.create_task(call(number, work)) for number, work in enumerate(works)]
    others = [each for each, work in zip(calls, works, strict=True) if work != "hangs"]
    await asyncio.gather(*others)
    begun = len(works) - works.count("is unknown")
    assert await wait_for(lambda: sum(event in STARTS for event, _ in events) == begun, timeout=60)
    # Nobody but those that hang is left to be late: by the loop's clock their time is up now.
    loop = asyncio.get_running_loop()
    loop.time = lambda: time.monotonic() + 1000  # type: ignore[method-assign]
    return await asyncio.gather(*calls), events


@given(st.lists(st.sampled_from(sorted(ENDS)), min_size=1, max_size=12))
def test_every_child_has_one_end_of_its_own(works: list[str]) -> None:
    """Each call has its own result, at most one start, exactly one end, and one child that no other call has."""
    results, events = asyncio.run(side_by_side(works))
    children = set()
    for number, (work, result) in enumerate(zip(works, results, strict=True)):
        mine = [(event, data) for event, data in events if data["tool_call_id"] == f"call-{number}"]
        assert [event for event, _ in mine] == [*(() if work == "is unknown" else STARTS[:1]), ENDS[work]]
        assert result.success is (work == "answers")
        if work == "answers":
            assert result.output["response"] == f"answers/{number}"
        if work != "is unknown":
            [one] = {data["sub_session_id"] for _, data in mine}
            children.add(one)
    assert len(children) == sum(work != "is unknown" for work in works)
    assert len(events) == sum(1 if work == "is unknown" else 2 for work in works)

"""A thousand sessions in one process: none sees another's state, and nothing of them stays."""

from __future__ import annotations

import asyncio
import gc
import itertools
import tracemalloc
import weakref
from typing import Any

import pytest

from amplifier_core import AmplifierSession, ModuleLoader

LOOP = """
import asyncio

class Loop:
    async def execute(self, prompt, context, providers, tools, hooks, coordinator=None):
        await context.add_message({"role": "user", "content": prompt})
        await asyncio.sleep(0)
        seen = [(coordinator.session_id, coordinator.turn_id)]
        for _ in range(2):
            await hooks.emit("tool:pre", {"tool_name": "witness"})
            seen.append(await tools["witness"].execute({}))
        results = await asyncio.gather(*(tools["witness"].execute({}) for _ in range(2)))
        return [*seen, *results], await context.get_messages()

async def mount(coordinator, config):
    await asyncio.sleep(0)
    await coordinator.mount("orchestrator", Loop())
"""
TOOL = """
import asyncio

class Witness:
    name = "witness"
    description = "Say whose turn it is"
    def __init__(self, coordinator, config):
        self.coordinator, self.config = coordinator, config
    async def execute(self, input):
        await asyncio.sleep(0)
        assert self.config["number"] == self.coordinator.get_capability("number")
        return self.coordinator.session_id, self.coordinator.turn_id

async def mount(coordinator, config):
    coordinator.register_capability("number", config["number"])
    await asyncio.sleep(0)
    await coordinator.mount("tools", Witness(coordinator, config))
"""
HOOK = """
import asyncio
_deferred_configs = []

async def mount(coordinator, config):
    _deferred_configs.append(config)
    await asyncio.sleep(0)

async def on_session_ready(coordinator):
    config = _deferred_configs.pop(0)
    heard = []
    async def hear(event, data):
        await asyncio.sleep(0)
        heard.append((event, data["session_id"], data.get("turn_id")))
    coordinator.register_capability("heard", heard)
    coordinator.register_capability("ready number", config["number"])
    for event in ("session:start", "tool:pre", "session:end"):
        coordinator.register_cleanup(coordinator.hooks.register(event, hear))
"""


@pytest.fixture
def plan_of(make_plan: Any, make_module: Any) -> Any:
    """Give `plan_of(number)`: a plan whose tool and hook are configured with that number and watch closely."""
    make_module("loop-scale", LOOP)
    make_module("tool-witness", TOOL)
    make_module("hooks-witness", HOOK)

    def plan(number: int) -> dict[str, Any]:
        config = {"number": number}
        made: dict[str, Any] = make_plan(
            session={"orchestrator": "loop-scale"},
            tools=[{"module": "tool-witness", "config": config}],
            hooks=[{"module": "hooks-witness", "config": config}],
        )
        return made

    return plan


async def live_once(plan: dict[str, Any], number: int, loader: Any, refs: list[weakref.ref[Any]]) -> str:
    """Start a session, run a turn, clean up; check that all of it was this session's; return the turn's id."""
    session = AmplifierSession(plan, loader, session_id=f"session-{number}")
    coordinator = session.coordinator
    refs.extend(map(weakref.ref, (session, coordinator, coordinator.hooks)))
    await session.initialize()
    seen, messages = await session.execute(f"prompt {number}")
    heard = coordinator.get_capability("heard")
    await session.cleanup()

    turn_id = seen[0][1]
    assert seen == [(f"session-{number}", turn_id)] * 5
    assert messages == [{"role": "user", "content": f"prompt {number}"}]
    assert coordinator.get_capability("ready number") == number
    assert heard == [
        ("session:start", session.session_id, turn_id),
        *[("tool:pre", session.session_id, turn_id)] * 2,
        ("session:end", session.session_id, None),
    ]
    assert session.status.status == "completed"
    return str(turn_id)


async def test_a_thousand_sessions(plan_of: Any) -> None:
    """1,000 sessions start, run a turn and clean up at the same time; every one sees itself alone; all are freed."""
    loader = ModuleLoader()
    refs: list[weakref.ref[Any]] = []

    turns = await asyncio.gather(
        *(live_once(plan_of(number), number, loader if number % 2 else None, refs) for number in range(1000))
    )

    assert len(set(turns)) == 1000
    gc.collect()
    assert len(refs) == 3000
    assert [ref() for ref in refs if ref() is not None] == []


@pytest.mark.system
async def test_memory_returns(plan_of: Any) -> None:
    """Once the first sessions have filled the caches, hundreds more leave no memory behind."""
    loader = ModuleLoader()
    plans = [plan_of(number) for number in range(300)]

    async def settled_memory() -> int:
        await asyncio.gather(*(live_once(plan, number, loader, []) for number, plan in enumerate(plans)))
        await asyncio.sleep(0)  # the event loop lets go of finished tasks when it comes around
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        rounds = [await settled_memory() for _ in range(5)]
    finally:
        tracemalloc.stop()

    # What stays of sessions stays of every round; what else there is in the process may grow once.
    least = min(later - earlier for earlier, later in itertools.pairwise(rounds))
    assert least < 300 * 100  # one dict that stays of each session would be more

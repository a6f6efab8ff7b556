"""Rolling back modules: the ledger, and unmounting whole modules from a live session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_core import AmplifierSession, ModuleCoordinator
from amplifier_core._mount import Ledger
from amplifier_core.coordinator import emit, get_context, mount, unmount
from amplifier_core.session import get_session, session_create
from amplifier_core.trace import open_module

KEYS = st.sampled_from(["x", "y"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from(["a", "b", "c", None]), KEYS),
        st.tuples(st.just("undo"), st.sampled_from(["a", "b", "c"]), st.just("")),
        st.tuples(st.just("pop"), st.none(), KEYS),
    ),
    max_size=14,
)


class Owner:
    """Stand for a coordinator: the ledger only asks whose scope it is."""


@given(STEPS)
def test_an_undone_module_might_never_have_been_there(steps: list[tuple[str, str | None, str]]) -> None:
    """After any puts, removals and undos a table is what it would be without the modules that were undone."""
    owner, table = Owner(), dict[str, Any]()
    ledger = Ledger(owner)
    history: list[tuple[str, str | None, str, object]] = []

    async def act() -> None:
        for kind, module, key in steps:
            if kind == "undo":
                await ledger.undo(module)
                history[:] = [step for step in history if step[1] != module]
                continue
            value = object()
            history.append((kind, module, key, value))
            if kind == "pop":
                table.pop(key, None)
                continue
            with open_module(owner, module):
                ledger.put(table, key, value)

    asyncio.run(act())

    expected: dict[str, Any] = {}
    for kind, _, key, value in history:
        if kind == "put":
            expected[key] = value
        else:
            expected.pop(key, None)
    assert table == expected


async def undo(kernel: ModuleCoordinator, module: str) -> None:
    """Take back what a module did."""
    await kernel._ledger.undo(module)


MakeModule = Callable[[str, str], Path]
MakePlan = Callable[..., dict[str, Any]]

#: A tool module that leaves something everywhere a module can.
EVERYTHING = """
from amplifier_core import ToolResult
from amplifier_core.coordinator import register_hook, set_context_fragment

class Tool:
    name = "everything"
    description = "Leaves something everywhere"
    input_schema = {"type": "object"}
    async def execute(self, input):
        return ToolResult(success=True)

async def mount(coordinator, config):
    seen = config["seen"]
    await coordinator.mount("tools", Tool(), name="everything")
    coordinator.hooks.register("probe", lambda event, data: seen.append("handler"))
    register_hook("probe", lambda event, data: seen.append("syscall handler"))
    coordinator.register_capability("everything", seen)
    coordinator.register_contributor("observability.events", "everything", lambda: ["probe"])
    coordinator.register_policy("everything", lambda action, details: "allow")
    coordinator.add_log_sink(lambda record: seen.append("sink"))
    coordinator.add_log_processor(lambda record: seen.append("processor") or record)
    set_context_fragment("everything", "text")
    coordinator.register_cleanup(lambda: seen.append("registered cleanup"))
    return lambda: seen.append("returned cleanup")

async def on_session_ready(coordinator):
    coordinator.hooks.register("probe", lambda event, data: coordinator.get_capability("everything").append("ready"))
"""


async def traces(coordinator: ModuleCoordinator) -> list[str]:
    """Return where the module is still to be found, by poking everywhere."""
    found = []
    if coordinator.get("tools"):
        found.append("tool")
    if coordinator.get_capability("everything") is not None:
        found.append("capability")
    if await coordinator.collect_contributions("observability.events"):
        found.append("contributor")
    if await coordinator.authorize("x"):
        found.append("policy")
    if get_context(session_id=coordinator.session_id).fragments:
        found.append("fragment")
    await coordinator.hooks.emit("probe", {})
    coordinator.log("INFO", "m")
    return found


@pytest.fixture
async def session(make_plan: MakePlan) -> AmplifierSession:
    """Give a live session without tools."""
    return get_session(await session_create(make_plan()))


async def test_unmounting_a_module_takes_back_everything(session: AmplifierSession, make_module: MakeModule) -> None:
    """All that mount() and on_session_ready() registered is gone, and the cleanups ran, the newest first, once."""
    make_module("tool-everything", EVERYTHING)
    at: dict[str, Any] = {"session_id": session.session_id}
    seen: list[str] = []
    mounted = await mount("tools", "tool-everything", {"seen": seen}, **at)
    coordinator = session.coordinator

    assert list(mounted) == ["everything"]
    assert len(seen) == 0
    own: list[str] = coordinator.get_capability("everything")
    assert await traces(coordinator) == ["tool", "capability", "contributor", "policy", "fragment"]
    assert own == ["handler", "syscall handler", "ready", "processor", "sink"]

    own.clear()
    await unmount("tools", "tool-everything", **at)
    assert own == ["returned cleanup", "registered cleanup"]
    assert await traces(coordinator) == []
    await session.cleanup()
    assert own == ["returned cleanup", "registered cleanup"]


async def test_unmount_removes_handlers(make_plan: MakePlan, make_module: MakeModule) -> None:
    """The handlers of a hook module that was mounted at session start do not fire after it is unmounted."""
    make_module(
        "hooks-count",
        """
        async def mount(coordinator, config):
            coordinator.register_capability("count", [])
            coordinator.hooks.register("tick", lambda event, data: coordinator.get_capability("count").append(1))
        """,
    )
    async with AmplifierSession(make_plan(hooks=[{"module": "hooks-count"}])) as session:
        count = session.coordinator.get_capability("count")
        await emit("tick", session_id=session.session_id)
        await unmount("hooks", "hooks-count", session_id=session.session_id)
        await emit("tick", session_id=session.session_id)

    assert count == [1]


async def test_unmounting_one_module_leaves_the_others(session: AmplifierSession, make_module: MakeModule) -> None:
    """Modules that offer the same capability give way to each other in whatever order they leave."""
    source = EVERYTHING.replace('"everything", seen)', '"everything", config)').replace("seen = config", "seen = [],")
    at: dict[str, Any] = {"session_id": session.session_id}
    for name in ("one", "two", "three"):
        module = source.replace('seen = [],["seen"]', "seen = []").replace('name="everything")', f'name="{name}")')
        make_module(f"tool-{name}", module.partition("async def on_session_ready")[0])
        await mount("tools", f"tool-{name}", {"who": name}, **at)
    capability = session.coordinator.get_capability

    assert list(session.coordinator.get("tools")) == ["one", "two", "three"]
    assert capability("everything") == {"who": "three"}
    await unmount("tools", "tool-two", **at)
    assert capability("everything") == {"who": "three"}
    await unmount("tools", "tool-three", **at)
    assert capability("everything") == {"who": "one"}
    await unmount("tools", "tool-one", **at)
    assert capability("everything") is None
    assert session.coordinator.get("tools") == {}

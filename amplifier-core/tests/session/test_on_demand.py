"""Modules that come after initialize(): through coordinator.loader, and by the system call."""

from __future__ import annotations

import asyncio
import importlib
import sys
from typing import Any

import pytest

from amplifier_core import AmplifierSession, ModuleValidationError
from amplifier_core.coordinator import mount, unmount

TOOL = """
from amplifier_core import ToolResult

class Tool:
    description = "d"
    def __init__(self, name, config): self.name, self.config = name, config
    async def execute(self, input): return ToolResult(output=self.config)
"""


@pytest.fixture
async def session(make_plan: Any) -> Any:
    """Give an initialised session and clean it up."""
    async with AmplifierSession(make_plan()) as session:
        yield session


async def test_through_the_loader(session: AmplifierSession, make_tool: Any) -> None:
    """coordinator.loader loads with a config; awaiting the result mounts, on this coordinator."""
    make_tool("late")
    coordinator = session.coordinator

    mount_late = await coordinator.loader.load("tool-late", {"n": 1}, coordinator=coordinator)
    assert coordinator.get("tools") == {}
    await mount_late(coordinator)

    assert coordinator.get("tools", "late").config == {"n": 1}


async def test_through_the_loader_inside_mounts(make_plan: Any, make_module: Any, make_tool: Any) -> None:
    """A hook may load a tool while it mounts or gets ready: the tool is taken for what it is, not for a hook."""
    package = make_module(
        "tool-inner",
        "__amplifier_module_type__ = 'tool'\n"
        + TOOL
        + """
async def mount(coordinator, config):
    await coordinator.mount("tools", Tool(config["name"], config))
""",
    )
    loading = """
    mount = await coordinator.loader.load("tool-inner", {"name": NAME}, coordinator=coordinator)
    await mount(coordinator)
    """
    make_module(
        "hooks-outer",
        f"async def mount(coordinator, config):{loading.replace('NAME', repr('mounting'))}\n"
        f"async def on_session_ready(coordinator):{loading.replace('NAME', repr('ready'))}\n",
    )
    installed = AmplifierSession(make_plan(hooks=[{"module": "hooks-outer"}]))
    resolved = AmplifierSession(make_plan(hooks=[{"module": "hooks-outer"}]))

    class Resolver:
        async def async_resolve(self, module_id: str, **hints: Any) -> Any:
            return package.parent / f"amplifier_module_{module_id.replace('-', '_')}"

    await resolved.coordinator.mount("module-source-resolver", Resolver())
    for session in (installed, resolved):
        await session.initialize()

        assert list(session.coordinator.get("tools")) == ["mounting", "ready"]
        await session.cleanup()


async def test_by_system_call(session: AmplifierSession, make_module: Any) -> None:
    """mount(point, id, config) loads, checks and mounts, runs on_session_ready at once and the cleanup at the end."""
    make_module(
        "tool-late",
        TOOL
        + """
async def mount(coordinator, config):
    await coordinator.mount("tools", Tool("late", config))
    return lambda: coordinator.register_capability("cleaned", True)
async def on_session_ready(coordinator):
    coordinator.register_capability("ready with", list(coordinator.get("tools")))
""",
    )
    config = {"n": [1]}

    mounted = await mount("tools", "tool-late", config, session_id=session.session_id)

    tool = mounted["late"]
    assert tool.config == config
    assert tool.config["n"] is not config["n"]
    assert session.coordinator.get_capability("ready with") == ["late"]
    await session.cleanup()
    assert session.coordinator.get_capability("cleaned") is True


async def test_system_call_mounts_once(session: AmplifierSession, make_module: Any) -> None:
    """A module mounted on demand is mounted once, without a trial."""
    make_module(
        "tool-late",
        TOOL
        + """
MOUNTS = []
async def mount(coordinator, config):
    MOUNTS.append(1)
    await coordinator.mount("tools", Tool("late", config))
""",
    )

    await mount("tools", "tool-late", session_id=session.session_id)

    assert sys.modules["amplifier_module_tool_late"].MOUNTS == [1]


async def test_failing_system_call_takes_everything_back(session: AmplifierSession, make_module: Any) -> None:
    """A module that fails on demand raises its own error and leaves nothing behind."""
    make_module(
        "tool-bad",
        TOOL
        + """
async def mount(coordinator, config):
    await coordinator.mount("tools", Tool("bad", config))
    coordinator.hooks.register("x:y", lambda event, data: None)
    coordinator.register_capability("bad", True)
    coordinator.register_cleanup(lambda: coordinator.register_capability("cleaned", True))
    raise ConnectionError("not now")
""",
    )

    with pytest.raises(ConnectionError, match="not now"):
        await mount("tools", "tool-bad", session_id=session.session_id)

    coordinator = session.coordinator
    assert coordinator.get("tools") == {}
    assert coordinator.hooks.list_handlers("x:y") == {"x:y": []}
    assert coordinator.get_capability("bad") is None
    assert coordinator.get_capability("cleaned") is True


async def test_invalid_on_demand(session: AmplifierSession, make_module: Any) -> None:
    """A module that breaks its kind's contract is a ModuleValidationError of the call."""
    make_module("tool-mute", "async def mount(coordinator, config): ...")

    with pytest.raises(ModuleValidationError, match="No tool was mounted"):
        await mount("tools", "tool-mute", session_id=session.session_id)


async def test_failure_does_not_touch_what_others_mount_meanwhile(
    session: AmplifierSession, make_module: Any, make_tool: Any
) -> None:
    """Two modules on demand at once: the one that fails takes back its own tools only, mounted objects stay too."""
    make_tool("good")
    make_module(
        "tool-bad",
        TOOL
        + """
import asyncio
async def mount(coordinator, config):
    await coordinator.mount("tools", Tool("bad", config))
    while "good" not in coordinator.get("tools") or "object" not in coordinator.get("tools"):
        await asyncio.sleep(0)
    raise OSError
""",
    )

    class Thing:
        name = "object"

    outcomes = await asyncio.gather(
        mount("tools", "tool-bad", session_id=session.session_id),
        mount("tools", "tool-good", session_id=session.session_id),
        mount("tools", Thing(), session_id=session.session_id),
        return_exceptions=True,
    )

    assert isinstance(outcomes[0], OSError)
    assert sorted(session.coordinator.get("tools")) == ["good", "object"]


async def test_failure_does_not_touch_objects_mounted_meanwhile(session: AmplifierSession, make_module: Any) -> None:
    """What a turn or the app mounts while a module on demand is failing stays, though no module put it there."""
    make_module(
        "tool-bad",
        """
        import asyncio
        async def mount(coordinator, config):
            while "object" not in coordinator.get("tools"):
                await asyncio.sleep(0)
            raise OSError
        """,
    )
    task = asyncio.ensure_future(mount("tools", "tool-bad", session_id=session.session_id))
    await asyncio.sleep(0)
    await session.coordinator.mount("tools", object(), name="object")

    with pytest.raises(OSError):
        await task

    assert list(session.coordinator.get("tools")) == ["object"]


@pytest.mark.parametrize("in_turn", [True, False])
async def test_cancelled_system_call(session: AmplifierSession, make_module: Any, in_turn: bool) -> None:
    """Cancelling the caller propagates and takes the module back."""
    make_module(
        "tool-hangs",
        TOOL
        + """
import asyncio
ENTERED = asyncio.Event()
async def mount(coordinator, config):
    await coordinator.mount("tools", Tool("hangs", config))
    ENTERED.set()
    await asyncio.Event().wait()
""",
    )

    class Loop:
        async def execute(self, **arguments: Any) -> None:
            await mount("tools", "tool-hangs")

    await session.coordinator.mount("orchestrator", Loop())
    call = session.execute("x") if in_turn else mount("tools", "tool-hangs", session_id=session.session_id)
    task = asyncio.ensure_future(call)
    await importlib.import_module("amplifier_module_tool_hangs").ENTERED.wait()

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert session.coordinator.get("tools") == {}


async def test_unmounted_module_can_come_back(session: AmplifierSession, make_tool: Any) -> None:
    """A module unmounted by id is gone with all it registered, and may be mounted again."""
    make_tool("a")
    for number in (1, 2):
        await mount("tools", "tool-a", {"n": number}, session_id=session.session_id)
        assert session.coordinator.get("tools", "a").config == {"n": number}

        await unmount("tools", "tool-a", session_id=session.session_id)
        assert session.coordinator.get("tools") == {}

"""Modules that come after initialize(): through coordinator.loader, and by the system call."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from amplifier_core import AmplifierSession
from amplifier_core.coordinator import mount

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

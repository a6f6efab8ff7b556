"""Modules that lie in what they are: names, descriptions, schemas and methods of the wrong types."""

from __future__ import annotations

from typing import Any

import pytest

TOOL = """
class Tool:
    name = "lying"
    description = "A tool"
    input_schema = {"type": "object"}

    async def execute(self, input):
        return "done"

    LIE


async def mount(coordinator, config=None):
    tool = Tool()
    await coordinator.mount("tools", tool, NAME)
"""

#: A lie, and whether the module is mounted all the same.
LIES = {
    "name: a number": ("name = 42", False),
    "name: nothing": ("name = None", False),
    "name: empty": ("name = ''", False),
    "name: bytes": ("name = b'lying'", False),
    "name: raising": ("name = property(lambda self: 1 / 0)", False),
    "name: a method": ("def name(self): return 'lying'", False),
    "description: a number": ("description = 42", True),
    "description: nothing": ("description = None", True),
    "description: raising": ("description = property(lambda self: 1 / 0)", False),
    "input_schema: a list": ("input_schema = [1]", True),
    "input_schema: nothing": ("input_schema = None", True),
    "input_schema: raising": ("input_schema = property(lambda self: 1 / 0)", False),
    "input_schema: recursive": ("input_schema = {}; input_schema['self'] = input_schema", True),
    "execute: sync": ("def execute(self, input): return 'done'", False),
    "execute: a number": ("execute = 42", False),
    "execute: no parameters": ("async def execute(self): ...", False),
    "execute: raising": ("execute = property(lambda self: 1 / 0)", False),
    "every attribute exists": ("def __getattr__(self, name): return 42", True),
    "equality raises": ("def __eq__(self, other): raise RuntimeError('no')\n    __hash__ = None", True),
    "truth raises": ("def __bool__(self): raise RuntimeError('no')", True),
    "length raises": ("def __len__(self): raise RuntimeError('no')", True),
    "it can be called": ("def __call__(self, *a): raise RuntimeError('no')", True),
}


@pytest.mark.parametrize(("lie", "mounted"), LIES.values(), ids=LIES)
@pytest.mark.parametrize("way", ["mounted", "returned"])
async def test_tool_that_lies_about_itself(world: Any, make_module: Any, lie: str, mounted: bool, way: str) -> None:
    """A tool is judged by what it is; a lie that matters is refused with its reason, any other does no harm."""
    source = TOOL.replace("LIE", lie).replace("NAME", "name='lying'")
    if way == "returned":
        source = source.replace("await coordinator.mount(\"tools\", tool, name='lying')", "return tool")
    make_module("tool-lying", source)
    session = world.session("tool-lying")
    failures: list[str] = []
    session.coordinator.hooks.register("module:load_failed", lambda event, data: failures.append(data["error"]))
    await session.initialize()
    assert ("lying" in session.coordinator.get("tools")) is mounted
    assert len(failures) == (not mounted)
    if mounted:
        assert await session.execute("lying") == "done"
    await world.check(session)


@pytest.mark.parametrize("name", ["[]", "42", "object()", "b'x'", "float('nan')", "'\\ud800'", "''"])
async def test_mounting_under_an_odd_name(world: Any, make_module: Any, name: str) -> None:
    """A name that is none is refused or taken as it is; neither harms the session."""
    make_module("tool-lying", TOOL.replace("LIE", "pass").replace("NAME", f"name={name}"))
    session = world.session("tool-lying")
    failures: list[str] = []
    session.coordinator.hooks.register("module:load_failed", lambda event, data: failures.append(data["error"]))
    await session.initialize()
    taken = session.coordinator.to_dict()["tools"]
    assert "steady" in taken
    assert len(taken) + len(failures) == 2, "one or the other"
    await world.check(session)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("provider", "await coordinator.mount('providers', object(), name='lying')"),
        ("provider", "await coordinator.mount('tools', object(), name='lying')"),
        ("tool", "await coordinator.mount('tools', None, name='lying')"),
        ("tool", "await coordinator.mount('tools', type('T', (), {}), name='lying')"),
        ("tool", "await coordinator.mount('orchestrator', object())"),
        ("tool", "await coordinator.mount('nowhere', object())"),
        ("tool", "await coordinator.mount('hooks', object())"),
        ("hooks", "coordinator.hooks.register(42, print)"),
        ("hooks", "coordinator.hooks.register('x:y', print, priority='high')"),
        ("hooks", "coordinator.hooks.register('x:y', print, name=42)"),
        ("hooks", "coordinator.register_capability(42, 'x')"),
        ("hooks", "return type('Handler', (), {'__call__': lambda self, event, data: None})()"),
    ],
)
async def test_mounting_the_wrong_thing(world: Any, make_module: Any, kind: str, body: str) -> None:
    """A module that mounts or registers the wrong thing is refused alone, and leaves nothing behind."""
    make_module(f"{kind}-lying", f"async def mount(coordinator, config=None):\n    {body}\n")
    session = world.session(f"{kind}-lying")
    failures: list[str] = []
    session.coordinator.hooks.register("module:load_failed", lambda event, data: failures.append(data["error"]))
    await session.initialize()
    assert len(failures) == 1
    assert set(session.coordinator.get("tools")) == set(session.coordinator.get("providers")) == {"steady"}
    await world.check(session)

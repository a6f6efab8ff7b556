"""In a live session a module is mounted once, and the rules of its kind are checked on that mount."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from amplifier_core import AmplifierSession, ModuleLoader

TOOL = """
from amplifier_core import ToolResult

class Tool:
    description = "d"
    input_schema = {}
    def __init__(self, name="a"): self.name = name
    async def execute(self, input): return ToolResult()
"""
COUNTING = """
MOUNTS = []
async def mount(coordinator, config):
    MOUNTS.append(config)
    await coordinator.mount("tools", Tool())
"""


async def start(plan: dict[str, Any], listen: Any) -> tuple[AmplifierSession, list[dict[str, Any]]]:
    """Initialise a session; return it and what its failure events said."""
    session = AmplifierSession(plan)
    heard = listen(session)
    await session.initialize()
    return session, [data for event, data in heard if event == "module:load_failed"]


async def test_installed_module_is_mounted_once(make_plan: Any, make_module: Any) -> None:
    """A module-level counter sees one mount per session: there is no trial mount."""
    make_module("tool-counting", TOOL + COUNTING)
    plan = make_plan(tools=[{"module": "tool-counting", "config": {"n": 1}}])
    for _ in range(3):
        async with AmplifierSession(plan):
            pass

    assert sys.modules["amplifier_module_tool_counting"].MOUNTS == [{"n": 1}] * 3


async def test_the_iron_law(make_plan: Any, make_module: Any, listen: Any) -> None:
    """A tool module that mounts nothing and returns nothing fails, with exactly this text."""
    make_module("tool-x", "async def mount(coordinator, config):\n    pass")

    _, [failure] = await start(make_plan(tools=[{"module": "tool-x"}]), listen)

    assert failure["error"] == (
        "Module 'tool-x' failed validation: FAILED: 3/4 checks passed (1 errors, 0 warnings). "
        "Errors: protocol_compliance: No tool was mounted and mount() did not return a Tool instance"
    )
    assert failure["reason_code"] == "validation_failed"


async def test_invalid_module_is_taken_back(make_plan: Any, make_module: Any, listen: Any) -> None:
    """A module that breaks its contract keeps nothing: tools, handlers, capabilities, contributors; cleanups run."""
    make_module(
        "tool-bad",
        """
        CLEANED = []
        async def mount(coordinator, config):
            await coordinator.mount("tools", object(), name="nonsense")
            coordinator.hooks.register("x:y", lambda event, data: None)
            coordinator.register_capability("bad", True)
            coordinator.register_contributor("channel", "bad", lambda: 1)
            coordinator.register_policy("bad", lambda action, details: "allow")
            coordinator.register_cleanup(lambda: CLEANED.append(1))
        """,
    )

    session, [failure] = await start(make_plan(tools=[{"module": "tool-bad"}]), listen)

    coordinator = session.coordinator
    assert "Tool 'nonsense' does not implement Tool interface" in failure["error"]
    assert coordinator.get("tools") == {}
    assert coordinator.hooks.list_handlers("x:y") == {"x:y": []}
    assert coordinator.get_capability("bad") is None
    assert await coordinator.collect_contributions("channel") == []
    assert not (await coordinator.authorize("anything", {})).granted
    assert sys.modules["amplifier_module_tool_bad"].CLEANED == [1]
    await session.cleanup()
    assert sys.modules["amplifier_module_tool_bad"].CLEANED == [1]


@pytest.mark.parametrize(
    ("section", "source", "name"),
    [
        ("tools", TOOL + "async def mount(coordinator, config):\n    return Tool('given')", "given"),
        (
            "providers",
            """
            from amplifier_module_provider_plain import Provider
            async def mount(coordinator, config):
                return Provider("given", config)
            """,
            "given",
        ),
    ],
)
async def test_returned_instance_is_mounted(
    make_plan: Any, make_module: Any, listen: Any, section: str, source: str, name: str
) -> None:
    """A tool or provider that mount() returns without mounting it is mounted under its own name, and is no cleanup."""
    make_module("given", source)

    session, failed = await start(make_plan(**{section: [{"module": "given"}]}), listen)

    assert failed == []
    assert list(session.coordinator.get(section)) == [name]
    assert session.coordinator._cleanup_fns == []


async def test_returned_singles_are_mounted(make_plan: Any, make_module: Any) -> None:
    """An orchestrator and a context that mount() returns are mounted."""
    make_module(
        "loop-given",
        "from amplifier_module_loop_plain import Loop\nasync def mount(coordinator, config):\n    return Loop()",
    )
    make_module(
        "context-given",
        "from amplifier_module_context_plain import Context\n"
        "async def mount(coordinator, config):\n    return Context()",
    )
    session = AmplifierSession(make_plan(session={"orchestrator": "loop-given", "context": "context-given"}))

    await session.initialize()

    assert await session.execute("hi") == "echo: hi"
    assert session.coordinator._cleanup_fns == []


@pytest.mark.parametrize(
    ("body", "cleanups"),
    [
        ("return Handler()", 0),
        ("handler = Handler()\n    coordinator.hooks.register('x:y', handler)\n    return handler", 0),
        ("return lambda: None", 1),
        ("return functools.partial(print, end='')", 1),
        ("return coordinator.hooks.register('x:y', Handler())", 1),
    ],
)
async def test_what_hooks_return(make_plan: Any, make_module: Any, listen: Any, body: str, cleanups: int) -> None:
    """A handler object says itself what it hears and is never a cleanup; functions, partials and lambdas are."""
    make_module(
        "hooks-a",
        f"""
import functools
class Handler:
    async def __call__(self, event, data): ...
async def mount(coordinator, config):
    {body}
""",
    )

    session, failed = await start(make_plan(hooks=[{"module": "hooks-a"}]), listen)

    assert failed == []
    assert len(session.coordinator._cleanup_fns) == cleanups
    await session.cleanup()


async def test_declared_kind_in_the_wrong_section(make_plan: Any, make_module: Any, listen: Any) -> None:
    """A module that says what it is, listed as something else, is refused with where to list it."""
    make_module("tool-a", "__amplifier_module_type__ = 'tool'\n" + TOOL + COUNTING)

    _, [failure] = await start(make_plan(hooks=[{"module": "tool-a"}]), listen)

    assert failure["error"] == "Module 'tool-a' is a tool, but the plan lists it as a hook: move it to 'tools'"
    assert failure["reason_code"] == "invalid_module_metadata"


async def test_undeclared_kind_in_the_wrong_section(make_plan: Any, make_module: Any, listen: Any) -> None:
    """The error for a module that mounts something else names the section it belongs to."""
    make_module("tool-a", TOOL + COUNTING)

    session, [failure] = await start(make_plan(providers=[{"module": "tool-a"}]), listen)

    assert failure["error"].endswith(". It mounted a tool instead: list it under 'tools'")
    assert session.coordinator.get("tools") == {}


async def test_others_only_call_mount(make_plan: Any, make_module: Any) -> None:
    """Awaited by anybody but a session, the loaded function calls mount() and checks nothing."""
    make_module("tool-x", "async def mount(coordinator, config):\n    return 'whatever'")
    session = AmplifierSession(make_plan())

    mount = await ModuleLoader().load("tool-x", {"n": 1})

    assert await mount(session.coordinator) == "whatever"


async def test_what_a_module_registered_can_be_found_and_detached(
    make_plan: Any, make_module: Any, listen: Any
) -> None:
    """The coordinator knows who mounted an object; a module's handlers go, and come back in their places."""
    make_module(
        "tool-x",
        """
        class T:
            name, description, input_schema = "t", "T.", {"type": "object"}
            async def execute(self, input): return None
        async def mount(coordinator, config):
            await coordinator.mount("tools", T())
            coordinator.hooks.register("x:y", lambda event, data: None, name="own")
        """,
    )
    session, failures = await start(make_plan(tools=[{"module": "tool-x"}]), listen)
    assert failures == []
    coordinator = session.coordinator
    assert coordinator.mounted_by("tools", "t") == "tool-x"
    assert coordinator.mounted_by("tools", "gone") is None
    assert coordinator.mounted_by("context") == coordinator.config["session"]["context"]
    coordinator.hooks.register("x:y", lambda event, data: None, name="of the app")
    attach = coordinator.hooks.detach("tool-x")
    assert coordinator.hooks.list_handlers("x:y") == {"x:y": ["of the app"]}
    attach()
    attach()
    assert coordinator.hooks.list_handlers("x:y") == {"x:y": ["own", "of the app"]}
    coordinator.hooks.detach("unknown")()
    await session.cleanup()

"""The canonical template keeps its config in a module-level list: each session must find exactly its own there."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from amplifier_core import AmplifierSession, ModuleLoader
from amplifier_core.coordinator import mount as mount_call

#: The template as the seed prints it; `MyInstance` and the capability it asks for are the reader's part.
TEMPLATE = '''
from amplifier_core import ModuleCoordinator

class MyInstance:
    def __init__(self, config):
        self.config = config

# Module-level deferred state
# list avoids `global`; .append() / .pop(0) mutate without reassignment
_deferred_configs: list[dict] = []

async def mount(coordinator: ModuleCoordinator, config: dict | None = None) -> None:
    _deferred_configs.append(config or {})   # slim — just defer

async def on_session_ready(coordinator: ModuleCoordinator) -> None:
    """Runs after ALL modules are mounted. Coordinator is fully composed."""
    while _deferred_configs:
        config = _deferred_configs.pop(0)

        # ✅ Safe to call collect_contributions() here
        contributions = await coordinator.collect_contributions("observability.events")

        # ✅ Safe to get_capability() for any module
        tool = coordinator.get_capability("my-required-tool")
        if tool is None:
            return   # fail gracefully — on_session_ready is non-fatal

        # ✅ Store session-scoped state via capabilities (not process globals)
        coordinator.register_capability("my-module.instance", MyInstance(config))
'''
#: What a slow neighbour does: give every other session a chance to mount or get ready in between.
PACING = """
import asyncio
async def mount(coordinator, config):
    for _ in range(config["steps"]):
        await asyncio.sleep(0)
    coordinator.register_capability("my-required-tool", True)
async def on_session_ready(coordinator):
    await asyncio.sleep(0)
"""
COLLECTING = """
import asyncio
LISTNAME = []
async def mount(coordinator, config):
    LISTNAME.append(config)
    await asyncio.sleep(0)
async def on_session_ready(coordinator):
    BODY
    seen = coordinator.get_capability("seen") or []
    coordinator.register_capability("seen", [*seen, *mine])
"""
DRAINING = {
    "slice and clear": "mine = NAME[:]; NAME.clear()",
    "copy and clear": "mine = NAME.copy(); NAME.clear()",
    "list and clear": "mine = list(NAME); NAME.clear()",
    "pop all": "mine = []\n    while NAME: mine.append(NAME.pop())",
    "sum and clear": "mine = NAME + []; NAME.clear()",
}


def collecting(name: str = "_deferred_configs", way: str = "pop all") -> str:
    """Return a module that fills a list of that name in mount() and empties it that way in on_session_ready()."""
    return COLLECTING.replace("BODY", DRAINING[way]).replace("LISTNAME", name).replace("NAME", name)


def template_plan(make_plan: Any, number: int, loader_steps: int = 0) -> dict[str, Any]:
    """Return a plan whose template gets its number, between neighbours that wait."""
    pacing = {"module": "hooks-pacing", "config": {"steps": loader_steps}}
    template = {"module": "hooks-template", "config": {"number": number}}
    made: dict[str, Any] = make_plan(hooks=[pacing, template, pacing])
    return made


def instance_number(session: AmplifierSession) -> Any:
    """Return the number that the template found for this session."""
    return session.coordinator.get_capability("my-module.instance").config["number"]


@pytest.mark.parametrize("count", [1, 2, 100])
@pytest.mark.parametrize("shared_loader", [True, False])
async def test_sessions_starting_together(make_plan: Any, make_module: Any, count: int, shared_loader: bool) -> None:
    """However many sessions of a process start at the same time, each finds exactly its own config."""
    make_module("hooks-pacing", PACING)
    make_module("hooks-template", TEMPLATE)
    loader = ModuleLoader() if shared_loader else None
    sessions = [AmplifierSession(template_plan(make_plan, number, 3 + number % 5), loader) for number in range(count)]

    await asyncio.gather(*(session.initialize() for session in sessions))

    assert [instance_number(session) for session in sessions] == list(range(count))
    assert sys.modules["amplifier_module_hooks_template"]._deferred_configs == []


async def test_two_entries_in_one_session(make_plan: Any, make_module: Any) -> None:
    """Listed twice in one session, the template sees both configs in the first callback, as its loop intends."""
    make_module("hooks-twice", collecting())
    section = [{"module": "hooks-twice", "config": {"n": 1}}, {"module": "hooks-twice", "config": {"n": 2}}]
    session = AmplifierSession(make_plan(hooks=section))

    await session.initialize()

    assert session.coordinator.get_capability("seen") == [{"n": 2}, {"n": 1}]


@pytest.mark.parametrize("name", ["_deferred_configs", "_pending"])
@pytest.mark.parametrize("way", list(DRAINING))
async def test_other_ways_to_empty_the_list(make_plan: Any, make_module: Any, name: str, way: str) -> None:
    """A list of any name that mount() fills and on_session_ready() empties is kept apart as well."""
    make_module("hooks-collecting", collecting(name, way))
    loader = ModuleLoader()
    sessions = [
        AmplifierSession(make_plan(hooks=[{"module": "hooks-collecting", "config": {"n": number}}]), loader)
        for number in range(5)
    ]

    await asyncio.gather(*(session.initialize() for session in sessions))

    seen = [session.coordinator.get_capability("seen") for session in sessions]
    assert seen == [[{"n": number}] for number in range(5)]


async def test_template_in_a_submodule(make_plan: Any, make_module: Any) -> None:
    """A package that imports mount() and on_session_ready() from a file of its own is served as well."""
    make_module("hooks-pacing", PACING)
    package = make_module("hooks-template", "from .inner import mount, on_session_ready")
    (package / "inner.py").write_text(TEMPLATE, encoding="utf-8")
    sessions = [AmplifierSession(template_plan(make_plan, number, 3 - number)) for number in range(3)]

    await asyncio.gather(*(session.initialize() for session in sessions))

    assert [instance_number(session) for session in sessions] == [0, 1, 2]


@pytest.mark.parametrize("moment", ["mount", "on_session_ready"])
async def test_child_started_by_a_module(make_plan: Any, make_module: Any, moment: str) -> None:
    """A child that starts inside its parent's mount or callback, with the parent's loader, finds its own config."""
    make_module("hooks-pacing", PACING)
    make_module("hooks-template", TEMPLATE)
    spawn = """
    from amplifier_core import AmplifierSession
    if coordinator.parent_id is None:
        plan = coordinator.get_capability("child-plan")
        child = AmplifierSession(plan, coordinator.loader, parent_id=coordinator.session_id)
        await child.initialize()
        coordinator.register_capability("child", child)
    """
    nothing = "    pass"
    make_module(
        "hooks-spawning",
        f"async def mount(coordinator, config):\n{spawn if moment == 'mount' else nothing}\n"
        f"async def on_session_ready(coordinator):\n{spawn if moment != 'mount' else nothing}\n",
    )
    parent_plan, child_plan = template_plan(make_plan, 1), template_plan(make_plan, 2)
    parent_plan["hooks"].insert(1, {"module": "hooks-spawning"})
    parent_plan["hooks"].append({"module": "hooks-spawning"})
    parent = AmplifierSession(parent_plan)
    parent.coordinator.register_capability("child-plan", child_plan)

    await parent.initialize()

    child = parent.coordinator.get_capability("child")
    assert child.loader is parent.loader
    assert (instance_number(parent), instance_number(child)) == (1, 2)


async def test_failed_mount_leaves_no_config_behind(make_plan: Any, make_module: Any) -> None:
    """The config of a mount that failed is not found by the callback of another entry of the same module."""
    make_module(
        "hooks-template",
        """
        _deferred_configs = []
        async def mount(coordinator, config):
            _deferred_configs.append(config)
            if config["fail"]:
                raise OSError
        async def on_session_ready(coordinator):
            while _deferred_configs:
                seen = coordinator.get_capability("seen") or []
                coordinator.register_capability("seen", [*seen, _deferred_configs.pop(0)])
        """,
    )
    section = [{"module": "hooks-template", "config": {"fail": fail}} for fail in (True, False)]
    session = AmplifierSession(make_plan(hooks=section))

    await session.initialize()

    assert session.coordinator.get_capability("seen") == [{"fail": False}]


async def test_failed_start_leaves_no_config_behind(make_plan: Any, make_module: Any) -> None:
    """A start that failed after the mount does not add its config to the next try."""
    wait = "await asyncio.sleep(0)"
    mounting = "from amplifier_module_loop_plain import Loop; await coordinator.mount('orchestrator', Loop())"
    make_module("loop-template", collecting().replace(wait, mounting))
    spec = {"module": "loop-template", "config": {"n": 1}}
    plan = make_plan(session={"orchestrator": spec, "context": "context-none"})
    session = AmplifierSession(plan)
    with pytest.raises(RuntimeError):
        await session.initialize()
    plan["session"]["context"] = "context-plain"

    await session.initialize()

    assert session.coordinator.get_capability("seen") == [{"n": 1}]


async def test_on_demand_in_two_turns(make_plan: Any, make_module: Any) -> None:
    """Loaded on demand in turns of two sessions at once, the template finds the config of its session."""
    make_module("hooks-pacing", PACING)
    make_module("hooks-template", TEMPLATE)
    make_module(
        "loop-demanding",
        """
        import asyncio
        class Loop:
            async def execute(self, prompt, context, providers, tools, hooks, coordinator=None):
                mount = await coordinator.loader.load("hooks-template", {"number": prompt})
                await mount(coordinator)
                await asyncio.sleep(0)
                _, ready = mount.__on_session_ready__
                await ready(coordinator)
        async def mount(coordinator, config):
            await coordinator.mount("orchestrator", Loop())
        """,
    )
    plan = make_plan(session={"orchestrator": "loop-demanding"})
    sessions = [AmplifierSession(plan) for _ in range(4)]
    for session in sessions:
        session.coordinator.register_capability("my-required-tool", True)
        await session.initialize()

    # The loop takes the prompt for the number, so it is not a text here.
    prompts: list[Any] = list(range(4))
    await asyncio.gather(*(session.execute(prompt) for prompt, session in zip(prompts, sessions, strict=True)))

    assert [instance_number(session) for session in sessions] == [0, 1, 2, 3]


async def test_on_demand_by_system_call(make_plan: Any, make_module: Any) -> None:
    """Mounted by the system call in many sessions at once, the template finds the config of its session."""
    make_module("hooks-template", TEMPLATE)
    sessions = [AmplifierSession(make_plan()) for _ in range(20)]
    for session in sessions:
        session.coordinator.register_capability("my-required-tool", True)
        await session.initialize()

    await asyncio.gather(
        *(
            mount_call("hooks", "hooks-template", {"number": number}, session_id=session.session_id)
            for number, session in enumerate(sessions)
        )
    )

    assert [instance_number(session) for session in sessions] == list(range(20))


async def test_list_that_is_no_inbox_stays_a_list(make_plan: Any, make_module: Any) -> None:
    """A module-level list that on_session_ready() only reads is left as it is: a process may want to count."""
    make_module(
        "hooks-registry",
        """
        SESSIONS = []
        async def mount(coordinator, config):
            SESSIONS.append(coordinator.session_id)
        async def on_session_ready(coordinator):
            coordinator.register_capability("seen", list(SESSIONS))
        """,
    )
    sessions = [AmplifierSession(make_plan(hooks=[{"module": "hooks-registry"}]), session_id=name) for name in "ab"]
    for session in sessions:
        await session.initialize()

    assert sessions[1].coordinator.get_capability("seen") == ["a", "b"]


async def test_session_keeps_its_contents(make_plan: Any, make_module: Any) -> None:
    """What a session left in such a list is still there for its handlers and cleanups."""
    make_module(
        "hooks-keeping",
        """
        _kept = []
        async def mount(coordinator, config):
            _kept.append(config["n"])
            coordinator.hooks.register("x:y", lambda event, data: {"action": "modify", "data": {"kept": list(_kept)}})
            return lambda: coordinator.register_capability("at the end", list(_kept))
        async def on_session_ready(coordinator):
            if len(_kept) > 1:
                _kept.pop()
        """,
    )
    sessions = [AmplifierSession(make_plan(hooks=[{"module": "hooks-keeping", "config": {"n": n}}])) for n in (1, 2)]
    for session in sessions:
        await session.initialize()

    kept = [(await session.coordinator.hooks.emit("x:y", {})).data for session in sessions]
    for session in sessions:
        await session.cleanup()

    assert kept == [{"kept": [1]}, {"kept": [2]}]
    assert [session.coordinator.get_capability("at the end") for session in sessions] == [[1], [2]]


async def test_the_seeds_test_pattern(make_module: Any) -> None:
    """Outside of sessions the list is common: a test calls mount(), looks, calls on_session_ready() and clears."""
    make_module("hooks-template", TEMPLATE)
    await ModuleLoader().load("hooks-template")
    module = sys.modules["amplifier_module_hooks_template"]
    coordinator = AmplifierSession({"session": {"orchestrator": "o", "context": "c"}}).coordinator
    coordinator.register_capability("my-required-tool", True)

    await module.mount(coordinator, {"number": 5})
    assert module._deferred_configs == [{"number": 5}]
    await module.on_session_ready(coordinator)
    assert coordinator.get_capability("my-module.instance").config == {"number": 5}

    await module.mount(coordinator, {})
    module._deferred_configs.clear()
    assert not module._deferred_configs

"""The canonical template keeps its config in a module-level list: each session must find exactly its own there."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from amplifier_core import AmplifierSession, ModuleLoader

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

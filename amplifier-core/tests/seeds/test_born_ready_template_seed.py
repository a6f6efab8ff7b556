"""The canonical template: one module-level list, many sessions, and each gets its own config back."""

from __future__ import annotations

import asyncio
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import amplifier_core
from amplifier_core.testing import wait_for

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

        # Safe to call collect_contributions() here
        contributions = await coordinator.collect_contributions("observability.events")

        # Safe to get_capability() for any module
        tool = coordinator.get_capability("my-required-tool")
        if tool is None:
            return   # fail gracefully — on_session_ready is non-fatal

        # Store session-scoped state via capabilities (not process globals)
        coordinator.register_capability("my-module.instance", MyInstance(config))
        coordinator.session_state.setdefault("configs", []).append(config)
'''

#: Holds every session in its mount wave until all of them are there.
TOGETHER = """
async def mount(coordinator, config=None):
    coordinator.register_capability("my-required-tool", object())
    await config["barrier"].wait()
"""

WITHOUT_TOOL = """
async def mount(coordinator, config=None):
    await config["barrier"].wait()
"""

ID = "hooks-template"


def together(bench: Any, sessions: int, without_tool: frozenset[int] = frozenset()) -> list[Any]:
    """Return sessions that are all mounted before any gets ready; each lists the template twice."""
    bench.install(ID, TEMPLATE)
    bench.install("hooks-together", TOGETHER)
    bench.install("hooks-without-tool", WITHOUT_TOOL)
    barrier = asyncio.Barrier(sessions)
    plans = [
        bench.plan(
            hooks=[
                {"module": ID, "config": {"number": number}},
                {"module": ID, "config": {"number": number, "again": True}},
                {
                    "module": "hooks-without-tool" if number in without_tool else "hooks-together",
                    "config": {"barrier": barrier},
                },
            ]
        )
        for number in range(sessions)
    ]
    return [bench.session(plan) for plan in plans]


def own(number: int) -> list[dict[str, Any]]:
    return [{"number": number}, {"number": number, "again": True}]


async def start(sessions: list[Any]) -> list[Any]:
    await asyncio.gather(*(session.initialize() for session in sessions))
    return [session.coordinator.session_state.get("configs") for session in sessions]


async def clean_up(sessions: list[Any]) -> None:
    await asyncio.gather(*(session.cleanup() for session in sessions))


async def test_one_session(bench: Any) -> None:
    """Alone, the template gets its config in on_session_ready and keeps its instance as a capability."""
    (session,) = sessions = together(bench, 1)
    assert await start(sessions) == [own(0)]
    assert session.coordinator.get_capability("my-module.instance").config == own(0)[1]
    await clean_up(sessions)


@pytest.mark.parametrize("number", [2, 100])
async def test_sessions_that_start_at_the_same_time(bench: Any, number: int) -> None:
    """Sessions that are all mounted before any gets ready each see exactly their own configs, in order."""
    sessions = together(bench, number)
    assert await start(sessions) == [own(n) for n in range(number)]
    await clean_up(sessions)


async def test_sessions_that_start_at_the_same_time_from_a_source(bench: Any) -> None:
    """The same holds for a module that a resolver finds in a folder, loaded by two loaders of one process."""
    bench.folder(ID, TEMPLATE)
    bench.install("hooks-together", TOGETHER)
    barrier = asyncio.Barrier(2)
    sessions = []
    for number in range(2):
        hooks = [
            {"module": ID, "source": f"modules/{ID}", "config": {"n": number}},
            {"module": "hooks-together", "config": {"barrier": barrier}},
        ]
        sessions.append(bench.session(bench.plan(hooks=hooks)))
        await sessions[-1].coordinator.mount("module-source-resolver", bench.resolver)
    assert await start(sessions) == [[{"n": 0}], [{"n": 1}]]
    await clean_up(sessions)


async def test_return_in_the_loop_leaves_nothing_for_others(bench: Any) -> None:
    """A session that returns early leaves a config behind; neither the one beside it nor a later one gets it."""
    sessions = together(bench, 2, without_tool=frozenset({0}))
    assert await start(sessions) == [None, own(1)]
    await clean_up(sessions)
    async with bench.session(bench.plan(hooks=[ID])) as later:
        later.coordinator.register_capability("my-required-tool", object())
        assert "configs" not in later.coordinator.session_state
    session = bench.session(bench.plan(hooks=[{"module": ID, "config": {"mine": 1}}]))
    session.coordinator.register_capability("my-required-tool", object())
    async with session:
        assert session.coordinator.session_state["configs"] == [{"mine": 1}]


async def test_child_that_starts_between_mount_and_ready_of_its_parent(bench: Any) -> None:
    """A child that a later hook spawns in its mount() pops its own config, and the parent still gets its own."""
    bench.install(ID, TEMPLATE)
    bench.install(
        "hooks-spawning",
        f"""
        from amplifier_core import AmplifierSession

        async def mount(coordinator, config=None):
            coordinator.register_capability("my-required-tool", object())
            plan = {{**coordinator.config, "hooks": [{{"module": "{ID}", "config": {{"who": "child"}}}}]}}
            child = AmplifierSession(plan, loader=coordinator.loader, parent_id=coordinator.session_id)
            child.coordinator.register_capability("my-required-tool", object())
            async with child:
                coordinator.session_state["child"] = child.coordinator.session_state["configs"]
        """,
    )
    plan = bench.plan(hooks=[{"module": ID, "config": {"who": "parent"}}, "hooks-spawning"])
    async with bench.session(plan) as parent:
        assert parent.coordinator.session_state == {"child": [{"who": "child"}], "configs": [{"who": "parent"}]}


async def test_failed_start_leaves_nothing_for_the_next_try(bench: Any) -> None:
    """A session whose start was cancelled between mount and ready starts later with its config once."""
    bench.install(ID, TEMPLATE)
    bench.install("hooks-together", TOGETHER)
    barrier = asyncio.Barrier(2)
    hooks = [{"module": ID, "config": {"n": 1}}, {"module": "hooks-together", "config": {"barrier": barrier}}]
    session = bench.session(bench.plan(hooks=hooks))
    starting = asyncio.create_task(session.initialize())
    assert await wait_for(lambda: barrier.n_waiting == 1, timeout=30)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    _, _ = await asyncio.gather(session.initialize(), barrier.wait())
    assert session.coordinator.session_state["configs"] == [{"n": 1}]
    await session.cleanup()


async def test_instance_is_session_scoped(bench: Any) -> None:
    """State kept as a capability belongs to one session; the module-level list is empty outside of every start."""
    sessions = together(bench, 2)
    await start(sessions)
    first, second = (session.coordinator.get_capability("my-module.instance") for session in sessions)
    assert first is not second
    assert list(sys.modules[f"amplifier_module_{ID.replace('-', '_')}"]._deferred_configs) == []
    await clean_up(sessions)


async def test_template_kept_in_a_file_of_the_package(bench: Any) -> None:
    """The template works the same when `__init__.py` only re-exports its two functions."""
    package = bench.install(ID, "from ._hook import mount, on_session_ready\n")
    (package / "_hook.py").write_text(TEMPLATE, encoding="utf-8")
    bench.install("hooks-together", TOGETHER)
    barrier = asyncio.Barrier(2)
    sessions = [
        bench.session(
            bench.plan(
                hooks=[
                    {"module": ID, "config": {"n": number}},
                    {"module": "hooks-together", "config": {"barrier": barrier}},
                ]
            )
        )
        for number in range(2)
    ]
    assert await start(sessions) == [[{"n": 0}], [{"n": 1}]]
    await clean_up(sessions)


PYPROJECT = """
[project]
name = "amplifier-module-hooks-template"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = []

[dependency-groups]
dev = ["amplifier-core>=1.4.0", "pytest", "pytest-asyncio"]

[tool.pytest.ini_options]
asyncio_mode = "auto"
asyncio_default_fixture_loop_scope = "function"
"""

AUTHORS_TESTS = """
import amplifier_module_hooks_template as _module
import pytest
from amplifier_core.testing import MockCoordinator
from amplifier_module_hooks_template import mount, on_session_ready


@pytest.fixture(autouse=True)
def clear_deferred_state():
    _module._deferred_configs.clear()
    yield
    _module._deferred_configs.clear()


async def test_mount_defers_config():
    await mount(MockCoordinator(), {"a": 1})
    assert _module._deferred_configs == [{"a": 1}]


async def test_on_session_ready_after_mount():
    coordinator = MockCoordinator()
    coordinator.register_capability("my-required-tool", object())
    await mount(coordinator, {"b": 2})
    await on_session_ready(coordinator)
    assert coordinator.get_capability("my-module.instance").config == {"b": 2}
    assert _module._deferred_configs == []


async def test_nothing_is_left_of_other_tests():
    assert _module._deferred_configs == []
"""


def test_adoption_steps_and_test_pattern(bench: Any, run_pytest: Any, tmp_path: Path) -> None:
    """A module adopted by the five steps: no entry point, a list, an empty runtime dependency, and the test pattern."""
    bench.install(ID, TEMPLATE)
    repository = tmp_path / "repository"
    (repository / "tests").mkdir(parents=True)
    (repository / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
    (repository / "tests" / "test_template.py").write_text(AUTHORS_TESTS, encoding="utf-8")
    code, output = run_pytest(repository, bench.site)
    assert code == 0, output
    assert "3 passed" in output


def test_pinned_versions_accept_this_kernel() -> None:
    """`amplifier-core>=1.4.0` among the development dependencies is satisfied; at run time nothing is required."""
    project = tomllib.loads(PYPROJECT)
    assert project["project"]["dependencies"] == []
    (pin,) = [entry for entry in project["dependency-groups"]["dev"] if entry.startswith("amplifier-core")]
    least = tuple(int(part) for part in pin.partition(">=")[2].split("."))
    assert tuple(int(part) for part in amplifier_core.__version__.split(".")[:3]) >= least

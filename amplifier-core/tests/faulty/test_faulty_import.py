"""Modules that fail before they can mount: while they are imported."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

MOUNT = """
async def mount(coordinator, config=None):
    coordinator.hooks.register("prompt:submit", lambda event, data: None, name="faulty")
"""

FAULTS = {
    "a syntax error": "def mount(:",
    "a missing dependency": "import a_package_that_nobody_has\n" + MOUNT,
    "a missing submodule": "from . import nowhere\n" + MOUNT,
    "an exception": "raise RuntimeError('at import')",
    "a division": "1 / 0\n" + MOUNT,
    "endless recursion": "def deeper(): return deeper()\ndeeper()",
    "no mount": "x = 1",
    "a mount that is none": "mount = None",
    "a mount that raises when looked up": "def __getattr__(name):\n    raise RuntimeError('no ' + name)",
    "null bytes": "x = 1\0",
}


@pytest.mark.parametrize("source", FAULTS.values(), ids=FAULTS)
async def test_failing_at_import(world: Any, make_module: Any, source: str) -> None:
    """A module that cannot be imported is left out and named, and everyone else is there."""
    make_module("hooks-faulty", source)
    session = world.session("hooks-faulty")
    failures: list[str] = []
    session.coordinator.hooks.register("module:load_failed", lambda event, data: failures.append(data["module_id"]))
    await session.initialize()
    assert failures == ["hooks-faulty"]
    await world.check(session)


async def test_repaired_module(world: Any, make_module: Any) -> None:
    """A failed import leaves nothing in the way: the next session loads the module as it is then."""
    package = make_module("hooks-faulty", "raise RuntimeError('at import')")
    await world.started("hooks-faulty", refused=True)
    (package / "__init__.py").write_text(MOUNT, encoding="utf-8")
    importlib.invalidate_caches()
    session = await world.started("hooks-faulty")
    assert "faulty" in session.coordinator.hooks.list_handlers("prompt:submit")["prompt:submit"]
    await world.check(session)


async def test_exit_at_import_propagates(world: Any, make_module: Any) -> None:
    """sys.exit() at import goes through, and no session but this one is touched."""
    make_module("hooks-faulty", "import sys\nsys.exit(7)\n")
    session = world.session("hooks-faulty")
    with pytest.raises(SystemExit) as leaving:
        await session.initialize()
    assert leaving.value.code == 7
    assert session.coordinator.get("tools") == session.coordinator.get("providers") == {}
    await world.check()

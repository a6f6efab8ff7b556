"""The loader without a resolver: discovery, loading, closures and errors."""

from __future__ import annotations

import importlib.metadata
import os
import sys
from typing import Any

from amplifier_core import ModuleCoordinator, ModuleLoader

from .base import Stage, outcome, scenario
from .module_factory import write_module, write_tool
from .parts import TRACED_TOOL


@scenario
async def not_found(stage: Stage) -> Any:
    """A module that is not installed."""
    text = await outcome(lambda: ModuleLoader().load("tool-absent"))
    return [text, [line for line in stage.journal.lines if line.startswith("ERROR")]]


@scenario
async def loads_and_mounts(stage: Stage) -> Any:
    """Each load gives a closure with its own config."""
    write_module(stage.folder, "tool-twice", TRACED_TOOL.format(id="tool-twice", name="twice"))
    loader, hub = ModuleLoader(), ModuleCoordinator()
    first = await loader.load("tool-twice", {"n": 1})
    second = await loader.load("tool-twice", {"n": 2})
    third = await loader.load("tool-twice")
    for mount in (second, first, third):
        await mount(hub)
    return [first is second, hub.session_state["trace"], sorted(hub.get("tools"))]


@scenario
async def ready_attribute(stage: Stage) -> Any:
    """Every closure carries the ready callback; the loader queues nothing by itself."""
    write_module(stage.folder, "tool-ready", TRACED_TOOL.format(id="tool-ready", name="ready"))
    loader = ModuleLoader()
    found: list[Any] = [getattr(await loader.load("tool-ready"), "__on_session_ready__", None) for _ in range(2)]
    return [[pair[0] for pair in found], [pair[1].__name__ for pair in found], loader.get_on_session_ready_queue()]


@scenario
async def no_ready_attribute(stage: Stage) -> Any:
    """Without a callback there is no attribute, or an empty one."""
    write_tool(stage.folder, "tool-plain", "plain")
    mount = await ModuleLoader().load("tool-plain")
    return getattr(mount, "__on_session_ready__", None)


@scenario
async def queue(stage: Stage) -> Any:
    """The queue of ready callbacks: copies, order, clearing."""
    loader = ModuleLoader()
    loader.enqueue_on_session_ready("a", len)
    loader.enqueue_on_session_ready("b", max)
    snapshot = loader.get_on_session_ready_queue()
    snapshot.clear()
    names = [name for name, _ in loader.get_on_session_ready_queue()]
    loader.clear_on_session_ready_queue()
    return [names, loader.get_on_session_ready_queue()]


@scenario
async def module_without_mount(stage: Stage) -> Any:
    """A package that has no mount."""
    write_module(stage.folder, "tool-mountless", "x = 1\n")
    return await outcome(lambda: ModuleLoader().load("tool-mountless"))


@scenario
async def module_that_breaks_at_import(stage: Stage) -> Any:
    """A package that raises while it is imported."""
    write_module(stage.folder, "tool-broken", "raise ValueError('at import')\n")
    write_module(stage.folder, "tool-needy", "import no_such_module_anywhere\n")
    return [
        await outcome(lambda: ModuleLoader().load("tool-broken")),
        await outcome(lambda: ModuleLoader().load("tool-needy")),
    ]


@scenario
async def returned_values(stage: Stage) -> Any:
    """The closure returns what mount returned."""
    write_module(
        stage.folder, "tool-returns", "async def mount(coordinator, config=None):\n    return {'meta': config}\n"
    )
    mount = await ModuleLoader().load("tool-returns", {"a": 1})
    return await mount(ModuleCoordinator())


@scenario
async def initialize(stage: Stage) -> Any:
    """initialize awaits the closure and passes errors on."""
    loader, hub = ModuleLoader(), ModuleCoordinator()

    async def good(coordinator: Any) -> Any:
        return coordinator is hub

    async def bad(coordinator: Any) -> Any:
        raise OSError("no")

    return [await loader.initialize(good, hub), await outcome(lambda: loader.initialize(bad, hub))]


def _installed() -> set[str]:
    """Return the modules that happen to be installed in this environment: not what is compared."""
    return {entry_point.name for entry_point in importlib.metadata.entry_points(group="amplifier.modules")}


@scenario
async def discovers_folders(stage: Stage) -> Any:
    """Folders named amplifier-module-* below the search paths."""
    for name in ("loop-a", "provider-b", "tool-c", "hooks-d", "context-e", "plain-f"):
        folder = stage.folder / "found" / f"amplifier-module-{name}"
        package = write_tool(folder, name, name)
        if name == "plain-f":
            (package / "__init__.py").write_text(
                '__amplifier_module_type__ = "hook"\n' + (package / "__init__.py").read_text()
            )
    (stage.folder / "found" / "amplifier-module-empty").mkdir()
    (stage.folder / "found" / "other").mkdir()
    loader = ModuleLoader(search_paths=[stage.folder / "found", stage.folder / "absent"])
    found = [info for info in await loader.discover() if info.id not in _installed()]
    return [sorted(([info.id, info.model_dump()] for info in found), key=lambda pair: pair[0]), stage.warnings()]


@scenario
async def discovers_by_environment(stage: Stage) -> Any:
    """The environment names folders when no search path is given."""
    write_tool(stage.folder / "env" / "amplifier-module-tool-env", "tool-env", "env")
    os.environ["AMPLIFIER_MODULES"] = f"{stage.folder / 'env'}:{stage.folder / 'absent'}"
    try:
        by_environment = [info.id for info in await ModuleLoader().discover() if info.id not in _installed()]
        by_path = [info.id for info in await ModuleLoader(search_paths=[]).discover() if info.id not in _installed()]
    finally:
        del os.environ["AMPLIFIER_MODULES"]
    return [by_environment, by_path]


@scenario
async def discovers_entry_points(stage: Stage) -> Any:
    """Installed entry points are found, and loaded before a package of the same name."""
    write_module(stage.folder, "tool-entry", "async def mount(coordinator, config=None):\n    return 'package'\n")
    (stage.folder / "installed_entry.py").write_text(
        "async def mount(coordinator, config=None):\n    return 'entry point'\n"
    )
    info = stage.folder / "installed_entry-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: installed-entry\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[amplifier.modules]\ntool-entry = installed_entry:mount\n")
    loader = ModuleLoader()
    mount = await loader.load("tool-entry")
    return [await mount(ModuleCoordinator()), [found for found in await loader.discover() if found.id == "tool-entry"]]


@scenario
async def cleanup(stage: Stage) -> Any:
    """Cleaning up a loader that added nothing changes nothing."""
    before = list(sys.path)
    loader: Any = ModuleLoader()
    return [loader.cleanup(), sys.path == before]


@scenario
async def config_of_the_closure(stage: Stage) -> Any:
    """Whether the closure hands on the very dict it was given."""
    write_module(stage.folder, "tool-same", "async def mount(coordinator, config=None):\n    return config\n")
    given = {"a": 1}
    mount = await ModuleLoader().load("tool-same", given)
    return [
        await mount(ModuleCoordinator()) == given,
        await (await ModuleLoader().load("tool-same", None))(ModuleCoordinator()),
    ]

"""The loader with a resolver: sources, validation on load, reasons, transports."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from amplifier_core import ModuleCoordinator, ModuleLoader
from amplifier_core.loader import module_failure_reason
from amplifier_core.module_sources import ModuleNotFoundError

from .base import Stage, describe, scenario
from .module_factory import TOOL, write_module, write_tool


class Source:
    """A source that is a folder."""

    def __init__(self, path: Any) -> None:
        self.path = path

    def resolve(self) -> Any:
        """Return the folder."""
        return self.path

    def __str__(self) -> str:
        return "source-text"


class Resolver:
    """A resolver that knows some folders."""

    def __init__(self, **folders: Any) -> None:
        self.folders = {name.replace("_", "-"): path for name, path in folders.items()}
        self.asked: list[Any] = []

    def resolve(self, module_id: str, source_hint: Any = None, profile_hint: Any = None) -> Source:
        """Return the source of a module."""
        self.asked.append([module_id, source_hint, profile_hint])
        if module_id not in self.folders:
            raise ModuleNotFoundError(f"no source for {module_id}")
        return Source(self.folders[module_id])


async def load(resolver: Any, module_id: str, *, give: bool = True, **options: Any) -> Any:
    """Load a module through a resolver, mount it, and tell what happened."""
    hub = ModuleCoordinator()
    await hub.mount("module-source-resolver", resolver)
    loader = ModuleLoader(coordinator=hub)
    before = list(sys.path)
    try:
        mount = await loader.load(module_id, {"c": 1}, coordinator=hub if give else None, **options)
        result = await mount(hub)
    except Exception as error:
        return [describe(error), module_failure_reason(error)]
    added = [path for path in sys.path if path not in before]
    loader.cleanup()
    return [result, sorted(hub.get("tools")), added, [path for path in sys.path if path not in before]]


def repository(stage: Stage, module_id: str, source: str | None = None) -> Path:
    """Write a module's folder, with its package inside, and return the folder."""
    folder = stage.folder / "repositories" / f"amplifier-module-{module_id}"
    if source is None:
        write_tool(folder, module_id, module_id)
    else:
        write_module(folder, module_id, source)
    return folder


@scenario
async def found(stage: Stage) -> Any:
    """A module is loaded from its source; the path is there until cleanup."""
    resolver = Resolver(tool_found=repository(stage, "tool-found"))
    result = await load(resolver, "tool-found", source_hint="a hint")
    lines = [line for line in stage.journal.lines if "[module:" in line]
    return [result, resolver.asked, lines]


@scenario
async def async_resolver(stage: Stage) -> Any:
    """An async resolver is preferred."""

    class Async(Resolver):
        async def async_resolve(self, module_id: str, source_hint: Any = None, profile_hint: Any = None) -> Source:
            self.asked.append("async")
            return Source(self.folders[module_id])

    resolver = Async(tool_async=repository(stage, "tool-async"))
    return [await load(resolver, "tool-async"), resolver.asked]


@scenario
async def unknown_to_the_resolver(stage: Stage) -> Any:
    """The direct way is tried; else the resolver's own error is raised."""
    write_tool(stage.folder, "tool-direct", "direct")
    return [await load(Resolver(), "tool-direct"), await load(Resolver(), "tool-nowhere")]


@scenario
async def other_package_name(stage: Stage) -> Any:
    """A package with another name of the right form."""
    folder = stage.folder / "repositories" / "odd"
    write_tool(folder, "tool-renamed", "renamed")
    return await load(Resolver(tool_other=folder), "tool-other")


@scenario
async def path_is_the_package(stage: Stage) -> Any:
    """A source that points into the package."""
    package = repository(stage, "tool-inner") / "amplifier_module_tool_inner"
    return (await load(Resolver(tool_inner=package), "tool-inner"))[:2]


@scenario
async def no_package(stage: Stage) -> Any:
    """A folder without a package, and one that does not exist."""
    (stage.folder / "hollow").mkdir()
    hollow = await load(Resolver(tool_hollow=stage.folder / "hollow"), "tool-hollow", give=False)
    absent = await load(Resolver(tool_gone=stage.folder / "gone"), "tool-gone", give=False)
    return [hollow, absent]


@scenario
async def no_package_with_coordinator(stage: Stage) -> Any:
    """The same when the coordinator is handed to load."""
    (stage.folder / "hollow").mkdir()
    hollow = await load(Resolver(tool_hollow=stage.folder / "hollow"), "tool-hollow")
    absent = await load(Resolver(tool_gone=stage.folder / "gone"), "tool-gone")
    return [hollow, absent]


@scenario
async def checks_fail(stage: Stage) -> Any:
    """Modules whose structure is wrong are refused with the checks that failed."""
    sources = {
        "tool-mountless": "x = 1\n",
        "tool-syncmount": "def mount(coordinator, config=None):\n    return None\n",
        "tool-shortmount": "async def mount(coordinator):\n    return None\n",
        "tool-badready": TOOL.format(name="b") + "\n\ndef on_session_ready(coordinator):\n    pass\n",
    }
    seen = []
    for module_id, source in sources.items():
        folder = repository(stage, module_id, source)
        seen.append(await load(Resolver(**{module_id.replace("-", "_"): folder}), module_id))
    return seen


@scenario
async def mounts_nothing(stage: Stage) -> Any:
    """A tool that mounts nothing, loaded by hand."""
    folder = repository(stage, "tool-idle", "async def mount(coordinator, config=None):\n    return None\n")
    return await load(Resolver(tool_idle=folder), "tool-idle")


@scenario
async def declared_types(stage: Stage) -> Any:
    """A declared type wins over the name; an unknown one is refused."""
    hook = "__amplifier_module_type__ = 'hook'\n\n\nasync def mount(coordinator, config=None):\n    return None\n"
    good = await load(Resolver(tool_declared=repository(stage, "tool-declared", hook)), "tool-declared")
    bad = await load(Resolver(tool_odd=repository(stage, "tool-odd", hook.replace("hook", "gadget"))), "tool-odd")
    return [good[:2], bad]


@scenario
async def resolver_modules_are_not_validated(stage: Stage) -> Any:
    """A module of the type resolver has no validator."""
    source = "__amplifier_module_type__ = 'resolver'\n\n\nasync def mount(coordinator, config=None):\n    return 'up'\n"
    result = await load(Resolver(some_resolver=repository(stage, "some-resolver", source)), "some-resolver")
    return [result[0], [line.split(" ")[0] for line in stage.warnings()]]


@scenario
async def moved_module(stage: Stage) -> Any:
    """The same id from another path is refused."""
    first, second = repository(stage, "tool-moved"), stage.folder / "elsewhere"
    write_tool(second, "tool-moved", "tool-moved")
    resolver = Resolver(tool_moved=first)
    hub = ModuleCoordinator()
    await hub.mount("module-source-resolver", resolver)
    loader = ModuleLoader(coordinator=hub)
    seen = []
    for path in (first, first, second):
        resolver.folders["tool-moved"] = path
        try:
            await loader.load("tool-moved", coordinator=hub)
            seen.append("loaded")
        except Exception as error:
            seen.append(describe(error))
    loader.cleanup()
    return seen


@scenario
async def transports(stage: Stage) -> Any:
    """Transports other than Python, and files that cannot be read."""
    files = {
        "tool-python": '[module]\ntype = "tool"\ntransport = "python"\n',
        "tool-remote": '[module]\ntype = "tool"\ntransport = "grpc"\n[grpc]\nendpoint = "http://localhost:1"\n',
        "tool-alien": '[module]\ntype = "tool"\ntransport = "telepathy"\n',
        "tool-garbled": "[module\n",
        "tool-typeless": "[module]\n",
    }
    seen = {}
    for module_id, text in files.items():
        folder = repository(stage, module_id)
        (folder / "amplifier.toml").write_text(text)
        result = await load(Resolver(**{module_id.replace("-", "_"): folder}), module_id)
        seen[module_id] = "loaded" if result[0] is None else [str(result[0]).split(":")[0], result[1]]
    return seen


@scenario
async def raising_resolver(stage: Stage) -> Any:
    """Whatever else a resolver raises passes through."""

    class Broken:
        def resolve(self, module_id: str, **hints: Any) -> Any:
            raise OSError("index gone")

    return await load(Broken(), "tool-any")


@scenario
async def session_with_resolver(stage: Stage) -> Any:
    """A whole session whose tool comes from a resolver mounts it, however often the mount is tried."""
    from amplifier_core.session import AmplifierSession

    from .parts import base_plan

    counting = TOOL.format(name="counted") + "\n\nseen = []\n"
    counting = counting.replace(
        "    await coordinator.mount", "    seen.append(coordinator.session_id)\n    await coordinator.mount"
    )
    folder = repository(stage, "tool-counted", counting)
    plan = base_plan(stage)
    plan["tools"] = [{"module": "tool-counted", "source": "hint"}, {"module": "tool-idle2"}]
    idle = repository(stage, "tool-idle2", "async def mount(coordinator, config=None):\n    return None\n")
    session = AmplifierSession(plan, session_id="me")
    resolver = Resolver(tool_counted=folder, tool_idle2=idle)
    await session.coordinator.mount("module-source-resolver", resolver)
    events: list[Any] = []
    session.coordinator.hooks.register("module:load_failed", lambda event, data: events.append(data))
    await session.initialize()
    counted = sys.modules["amplifier_module_tool_counted"].seen
    await session.cleanup()
    return {
        "said": [line for line in stage.journal.lines if "[module:" in line and "counted" in line],
        "asked": resolver.asked,
        "tools": sorted(session.coordinator.get("tools")),
        "mounts": counted,
        "failed": events,
    }

"""Find the modules of a plan that do not come with the program, and say who named each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from amplifier_foundation.bundles.agents import agent_declared_by
from amplifier_foundation.bundles.explain import named_at, origin_of
from amplifier_foundation.bundles.layer import Layer, Namer
from amplifier_foundation.composed import ModuleUse
from amplifier_foundation.merge import module_key
from amplifier_foundation.paths import Home
from amplifier_foundation.settings import Settings
from amplifier_foundation.settings.layers import override_origin
from amplifier_foundation.settings.variables import VARIABLE
from amplifier_foundation.sources.module_resolver import find_module_folder, module_variable
from amplifier_foundation.trust import NamedModule, NamedSetting

_SECTIONS = ("providers", "tools", "hooks")
_SINGLE = ("orchestrator", "context")
#: The section of the Python packages that bundles bring themselves.
PACKAGES = "packages"


class _Entry(NamedTuple):
    #: The place in the plan, `tools` or `agents.explorer.tools`.
    section: str
    #: What tells the entry from others of its section.
    key: str
    module: str
    source: str | None


def module_uses(
    plan: Mapping[str, Any],
    layers: Sequence[Layer],
    settings: Settings,
    project: Path,
    home: Home,
    environ: Mapping[str, str],
) -> list[ModuleUse]:
    """Return every module of the plan that has a source, or whose folder was put in place of what is installed.

    A folder named by `AMPLIFIER_MODULE_<ID>`, in the project's `.amplifier/modules` or in the home's `modules` counts
    more than a source. Raises ModuleFolderError when the variable names no folder.
    """
    uses: dict[tuple[str, str], ModuleUse] = {}
    for entry in _entries(plan):
        use = _placed(entry, project, home, environ) or _named(entry, layers, settings)
        if use is not None:
            uses.setdefault((use.module, use.source), use)
    return list(uses.values())


def package_uses(packages: Sequence[Path], layers: Sequence[Layer]) -> list[ModuleUse]:
    """Return the Python packages of the bundles themselves, each on the word of the files that lie in it."""
    uses = []
    for root in packages:
        within = [layer for layer in layers if layer.document.path.is_relative_to(root)]
        # The one who is trusted least decides, as for everything that several files name.
        layer = next((one for one in within if one.named_by == "project"), within[-1] if within else None)
        where = str(layer.document.path) if layer is not None else str(root)
        uses.append(_use(PACKAGES, root.name, str(root), layer, where))
    return uses


def provider_settings(plan: Mapping[str, Any], layers: Sequence[Layer]) -> Iterator[NamedSetting]:
    """Yield every configured value of a provider in every file and agent, for the check of where credentials go."""
    for layer in layers:
        if not layer.given_by_user:
            for keys, place in _configured(layer.document.data):
                yield NamedSetting(".".join(keys), layer, layer.document.where(*place))
    for name, agent in (plan.get("agents") or {}).items():
        declared = agent_declared_by(layers, name)
        if declared is not None and isinstance(agent, Mapping):
            layer, where = declared
            yield from (NamedSetting(".".join(("agents", name, *keys)), layer, where) for keys, _ in _configured(agent))


def variables_used(layers: Sequence[Layer]) -> Iterator[NamedSetting]:
    """Yield every value, in every file that the user has not given, that takes in a variable of the environment."""
    for layer in layers:
        if layer.given_by_user:
            continue
        for section in ("session", "orchestrator", "agents", *_SECTIONS):
            for place in _variables(layer.document.data.get(section)):
                yield NamedSetting(".".join(map(str, (section, *place))), layer, layer.document.where(section, *place))


def _variables(value: Any) -> Iterator[tuple[str | int, ...]]:
    """Yield the places of nested data that have a variable in them."""
    if isinstance(value, str):
        if "${" in value and any(not found["escape"] for found in re.finditer(VARIABLE, value)):
            yield ()
    elif isinstance(value, Mapping | list):
        entries = value.items() if isinstance(value, Mapping) else enumerate(value)
        for key, item in entries:
            yield from ((key, *rest) for rest in _variables(item))


def _configured(part: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], tuple[str | int, ...]]]:
    """Yield the key in the plan and the place in the file of every configured value of the providers of a part."""
    entries = part.get("providers")
    for index, entry in enumerate(entries if isinstance(entries, list) else []):
        config = entry.get("config") if isinstance(entry, Mapping) else None
        for path in _paths(config):
            yield ("providers", str(module_key(entry)), "config", *path), ("providers", index, "config", *path)


def named_modules(uses: Sequence[ModuleUse]) -> list[NamedModule]:
    """Return the same modules in the form that the check of trust asks for."""
    return [
        NamedModule(
            use.section,
            use.module,
            use.source,
            Path(use.source) if use.source.startswith("/") else None,
            use,
            use.where,
        )
        for use in uses
    ]


def _entries(plan: Mapping[str, Any]) -> Iterator[_Entry]:
    yield from _entries_of(plan, "")
    for name, agent in (plan.get("agents") or {}).items():
        if isinstance(agent, Mapping):
            yield from _entries_of(agent, f"agents.{name}.")


def _entries_of(part: Mapping[str, Any], prefix: str) -> Iterator[_Entry]:
    session = part.get("session")
    session = session if isinstance(session, Mapping) else {}
    for kind in _SINGLE:
        spec = session.get(kind)
        if isinstance(spec, str):
            yield _Entry(f"{prefix}session", kind, spec, _text(session.get(f"{kind}_source")))
        elif isinstance(spec, Mapping) and spec.get("module"):
            yield _Entry(f"{prefix}session", kind, str(spec["module"]), _text(spec.get("source")))
    for section in _SECTIONS:
        entries = part.get(section)
        for entry in entries if isinstance(entries, list) else []:
            if isinstance(entry, Mapping) and entry.get("module"):
                key = module_key(entry) or str(entry["module"])
                yield _Entry(f"{prefix}{section}", key, str(entry["module"]), _text(entry.get("source")))


def _placed(entry: _Entry, project: Path, home: Home, environ: Mapping[str, str]) -> ModuleUse | None:
    """Return the module when a folder was put in its place."""
    found = find_module_folder(entry.module, project, home, environ)
    if found is None:
        return None
    folder, who = found
    whose: Namer = "project" if who == "project" else "user"
    where = f"${module_variable(entry.module)}" if who == "environment" else str(folder)
    return ModuleUse(entry.section, entry.module, str(folder), whose, whose, False, where)


def _named(entry: _Entry, layers: Sequence[Layer], settings: Settings) -> ModuleUse | None:
    """Return the module when a file gives its source."""
    if entry.source is None:
        return None
    layer: Layer | None = origin_of(layers, entry.section, entry.key)
    where = named_at(layers, entry.section, entry.key)
    if entry.section.startswith("agents."):
        name = entry.section.removeprefix("agents.").rpartition(".")[0]
        # Settings count most. A source in an agent's own file is there on the word of whoever put it on the roster.
        decided = override_origin(settings, entry.module) or (
            agent_declared_by(layers, name) if layer is None else None
        )
        if decided is not None:
            layer, where = decided
    return _use(entry.section, entry.module, entry.source, layer, where or entry.section)


def _use(section: str, module: str, source: str, layer: Layer | None, where: str) -> ModuleUse:
    if layer is None:  # nobody knows who named it: it needs trust
        return ModuleUse(section, module, source, "project", "project", False, where)
    return ModuleUse(section, module, source, layer.owner, layer.named_by, layer.given_by_user, where)


def _paths(value: Any) -> Iterator[tuple[str, ...]]:
    """Yield the keys that lead to every value of nested mappings."""
    if not isinstance(value, Mapping):
        return
    for key, item in value.items():
        yield (str(key),)
        for rest in _paths(item):
            yield (str(key), *rest)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None

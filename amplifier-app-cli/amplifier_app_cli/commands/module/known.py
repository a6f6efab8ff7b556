"""The known modules: those that are installed, and those that the plan of a bundle names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any, Final

from amplifier_app_cli.commands.bundle.show import safe, safe_text
from amplifier_core.loader import ModuleLoader
from amplifier_foundation.bundles.explain import named_at
from amplifier_foundation.bundles.plan_modules import all_modules
from amplifier_foundation.errors import FoundationError
from amplifier_foundation.plan.prepare import Composition

#: The types of modules in the order they are listed.
TYPES: Final = ("provider", "tool", "hook", "orchestrator", "context")


class ModuleUnknownError(FoundationError):
    """No module has that id."""

    code = "module_not_found"


@dataclass(frozen=True)
class Installed:
    """A module that is installed with the program."""

    package: str
    version: str
    summary: str
    #: `module:attribute` of its mount function.
    entry_point: str
    folder: str


@dataclass(frozen=True)
class Placed:
    """One mention of a module in a plan."""

    #: `tools`, `session`, `agents.explorer.tools`.
    section: str
    #: What tells it from others of the section.
    key: str
    #: `file:line` of the words that name it or its source.
    where: str | None
    source: str | None
    config: Mapping[str, Any]


@dataclass
class KnownModule:
    """Everything known of one module."""

    id: str
    type: str
    installed: Installed | None = None
    placed: list[Placed] = field(default_factory=list)

    @property
    def origin(self) -> str:
        """Return, for people, where its code comes from."""
        sources = list(dict.fromkeys(one.source for one in self.placed if one.source))
        if sources:
            return ", ".join(safe_text("source", source) for source in sources)
        return f"{self.installed.package} {self.installed.version}" if self.installed else "not installed"

    def record(self) -> dict[str, Any]:
        """Return it as plain data, without secrets."""
        return {
            "id": self.id,
            "type": self.type,
            "from": self.origin,
            "installed": None if self.installed is None else vars(self.installed),
            "plan": [
                {
                    "section": one.section,
                    "key": one.key,
                    "where": one.where,
                    "source": safe("source", one.source),
                    "config": safe(f"{one.section}.{one.key}.config", dict(one.config)),
                }
                for one in self.placed
            ],
        }


async def known_modules(composition: Composition | None) -> list[KnownModule]:
    """Return the installed modules and those of a plan, sorted by type and id."""
    known = await _installed()
    for module_id, kind, placed in _placed(composition) if composition is not None else ():
        known.setdefault(module_id, KnownModule(module_id, kind)).placed.append(placed)
    return sorted(known.values(), key=lambda one: (TYPES.index(one.type) if one.type in TYPES else 9, one.id))


async def _installed() -> dict[str, KnownModule]:
    types = {info.id: str(info.type) for info in await ModuleLoader().discover()}
    known: dict[str, KnownModule] = {}
    for entry in entry_points(group="amplifier.modules"):
        package = entry.dist
        described = (
            Installed(
                package.name,
                package.version,
                _summary(package.metadata),
                entry.value,
                str(package.locate_file("")),
            )
            if package is not None
            else Installed("?", "?", "", entry.value, "?")
        )
        known.setdefault(entry.name, KnownModule(entry.name, types.get(entry.name, "tool"), described))
    return known


def _summary(metadata: Any) -> str:
    return str(metadata["Summary"] or "") if "Summary" in metadata else ""


def _placed(composition: Composition) -> Iterator[tuple[str, str, Placed]]:
    """Yield id, type and place of every module of a plan."""
    uses = {(use.section, use.module): use for use in composition.composed.modules}
    for entry in all_modules(composition.composed.plan):
        module_id, section = entry.module, entry.section
        use = uses.get((section, module_id))
        # A module that is fetched for one place serves the others too.
        use = use or next((one for one in uses.values() if one.module == module_id), None)
        where = use.where if use is not None else named_at(composition.layers, section, entry.key)
        source = use.source if use is not None else entry.source
        yield module_id, entry.kind, Placed(section, entry.key, where, source, entry.entry.get("config") or {})

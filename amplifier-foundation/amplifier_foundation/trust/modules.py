"""Find the modules of a plan that do not come with the program, and who named each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from amplifier_foundation.bundles.agents import agent_declared_by
from amplifier_foundation.bundles.bundle import Layer, Namer
from amplifier_foundation.bundles.plan_modules import ModuleEntry, all_modules
from amplifier_foundation.paths import Home
from amplifier_foundation.settings.plan import override_origin
from amplifier_foundation.settings.settings import Settings
from amplifier_foundation.sources.module_resolver import find_module_folder, module_variable
from amplifier_foundation.trust.check import PACKAGES, ModuleUse
from amplifier_kit.struct import FrozenStruct


class Origin(Protocol):
    """Who owns a file, and who named it; a Layer is one."""

    @property
    def owner(self) -> str: ...
    @property
    def named_by(self) -> str: ...
    @property
    def given_by_user(self) -> bool: ...


class _FileOrigin(FrozenStruct):
    owner: str
    named_by: str
    given_by_user: bool = False


class AgentFiles(FrozenStruct):
    """The agents of a bundle as their files define them, before any setting."""

    definitions: Mapping[str, Mapping[str, Any]]
    #: The files that agents were read from; one that is defined inline has none.
    files: Mapping[str, Path]
    is_project: Callable[[Path], bool]

    def origin(self, name: str, layers: Sequence[Layer]) -> tuple[Origin, str] | None:
        """Return the origin of an agent, and its place: the project for its own files, else who declares the agent.

        The declaration is not enough for files of the project: it may claim the namespace of another bundle.
        """
        file = self.files.get(name)
        if file is not None and self.is_project(file):
            return _FileOrigin("project", "project"), str(file)
        return agent_declared_by(layers, name)


def module_uses(
    plan: Mapping[str, Any],
    layers: Sequence[Layer],
    settings: Settings,
    agents: AgentFiles,
    project: Path,
    home: Home,
    environ: Mapping[str, str],
) -> list[ModuleUse]:
    """Return every module of the plan that has a source or a folder that replaces the installed one.

    A folder named by `AMPLIFIER_MODULE_<ID>`, in the project's `.amplifier/modules` or in the home's `modules` counts
    more than a source. Raises ModuleFolderError when the variable names no folder.
    """
    uses: dict[tuple[str, str], ModuleUse] = {}
    for entry in all_modules(plan):
        use = _placed(entry, project, home, environ) or _named(entry, layers, settings, agents)
        if use is not None:
            uses.setdefault((use.module, use.source), use)
    return list(uses.values())


def package_uses(packages: Sequence[Path], layers: Sequence[Layer]) -> list[ModuleUse]:
    """Return the Python packages of the bundles themselves, with the origin of the files in each."""
    uses = []
    for root in packages:
        within = [layer for layer in layers if layer.document.path.is_relative_to(root)]
        # The least trusted origin decides.
        layer = next((one for one in within if one.named_by == "project"), within[-1] if within else None)
        where = str(layer.document.path) if layer is not None else str(root)
        uses.append(_use(PACKAGES, root.name, str(root), layer, where))
    return uses


def _placed(entry: ModuleEntry, project: Path, home: Home, environ: Mapping[str, str]) -> ModuleUse | None:
    """Return the use of a module that a folder replaces."""
    found = find_module_folder(entry.module, project, home, environ)
    if found is None:
        return None
    folder, who = found
    whose: Namer = "project" if who == "project" else "user"
    where = f"${module_variable(entry.module)}" if who == "environment" else str(folder)
    return ModuleUse(entry.section, entry.module, str(folder), whose, whose, False, where)


def _named(entry: ModuleEntry, layers: Sequence[Layer], settings: Settings, agents: AgentFiles) -> ModuleUse | None:
    """Return the use of a module whose source a file names."""
    if entry.source is None:
        return None
    from amplifier_foundation.bundles.explain import named_at, origin_of

    layer: Origin | None = origin_of(layers, entry.section, entry.key)
    where = named_at(layers, entry.section, entry.key)
    if entry.section.startswith("agents."):
        name = entry.section.removeprefix("agents.").rpartition(".")[0]
        # Settings win. A source in an agent's own file has the origin of that file.
        decided: tuple[Origin, str] | None = override_origin(settings, entry.module)
        if decided is None and layer is None:
            decided = agents.origin(name, layers)
        if decided is not None:
            layer, where = decided
    return _use(entry.section, entry.module, entry.source, layer, where or entry.section)


def _use(section: str, module: str, source: str, layer: Origin | None, where: str) -> ModuleUse:
    if layer is None:  # unknown origin: it needs trust
        return ModuleUse(section, module, source, "project", "project", False, where)
    return ModuleUse(section, module, source, layer.owner, layer.named_by, layer.given_by_user, where)

"""Find the modules of a plan that do not come with the program, and say who named each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from amplifier_foundation.bundles.agents import agent_declared_by
from amplifier_foundation.bundles.layer import Layer, Namer
from amplifier_foundation.bundles.plan_modules import ModuleEntry, all_modules
from amplifier_foundation.paths import Home
from amplifier_foundation.plan.composed import PACKAGES, ModuleUse
from amplifier_foundation.settings import Settings
from amplifier_foundation.settings.plan import override_origin
from amplifier_foundation.sources.module_resolver import find_module_folder, module_variable
from amplifier_foundation.trust.projects import NamedBy, NamedModule


class _Word(NamedTuple):
    """Whose a file is and on whose word it was read, where there is no layer."""

    owner: str
    named_by: str
    given_by_user: bool = False


class AgentFiles(NamedTuple):
    """The agents of a bundle as their files define them, before any setting, and whose those files are."""

    definitions: Mapping[str, Mapping[str, Any]]
    #: The files that agents were read from; one that is defined inline has none.
    files: Mapping[str, Path]
    is_project: Callable[[Path], bool]

    def spoken_for(self, name: str, layers: Sequence[Layer]) -> tuple[NamedBy, str] | None:
        """Return on whose word an agent is what it is, and where: a file of the project is on the project's.

        Who puts it on the roster vouches for it otherwise. A name alone, though, may lead into a project that claims
        the namespace of somebody else's bundle.
        """
        file = self.files.get(name)
        if file is not None and self.is_project(file):
            return _Word("project", "project"), str(file)
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
    """Return every module of the plan that has a source, or whose folder was put in place of what is installed.

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
    """Return the Python packages of the bundles themselves, each on the word of the files that lie in it."""
    uses = []
    for root in packages:
        within = [layer for layer in layers if layer.document.path.is_relative_to(root)]
        # The one who is trusted least decides, as for everything that several files name.
        layer = next((one for one in within if one.named_by == "project"), within[-1] if within else None)
        where = str(layer.document.path) if layer is not None else str(root)
        uses.append(_use(PACKAGES, root.name, str(root), layer, where))
    return uses


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


def _placed(entry: ModuleEntry, project: Path, home: Home, environ: Mapping[str, str]) -> ModuleUse | None:
    """Return the module when a folder was put in its place."""
    found = find_module_folder(entry.module, project, home, environ)
    if found is None:
        return None
    folder, who = found
    whose: Namer = "project" if who == "project" else "user"
    where = f"${module_variable(entry.module)}" if who == "environment" else str(folder)
    return ModuleUse(entry.section, entry.module, str(folder), whose, whose, False, where)


def _named(entry: ModuleEntry, layers: Sequence[Layer], settings: Settings, agents: AgentFiles) -> ModuleUse | None:
    """Return the module when a file gives its source."""
    if entry.source is None:
        return None
    from amplifier_foundation.bundles.explain import named_at, origin_of

    layer: NamedBy | None = origin_of(layers, entry.section, entry.key)
    where = named_at(layers, entry.section, entry.key)
    if entry.section.startswith("agents."):
        name = entry.section.removeprefix("agents.").rpartition(".")[0]
        # Settings count most. A source in an agent's own file is there on the word of whoever speaks for that file.
        decided: tuple[NamedBy, str] | None = override_origin(settings, entry.module)
        if decided is None and layer is None:
            decided = agents.spoken_for(name, layers)
        if decided is not None:
            layer, where = decided
    return _use(entry.section, entry.module, entry.source, layer, where or entry.section)


def _use(section: str, module: str, source: str, layer: NamedBy | None, where: str) -> ModuleUse:
    if layer is None:  # nobody knows who named it: it needs trust
        return ModuleUse(section, module, source, "project", "project", False, where)
    return ModuleUse(section, module, source, layer.owner, layer.named_by, layer.given_by_user, where)

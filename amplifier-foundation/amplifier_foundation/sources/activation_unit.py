"""Follow modules through their activation: what each is, what it lacks, and whether all of them can live together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from amplifier_foundation.errors import FoundationError
from amplifier_foundation.sources.module_project import ModuleProject, other_transport, read_module_project

if TYPE_CHECKING:
    from packaging.requirements import Requirement

    from amplifier_foundation.sources.environment import Environment
    from amplifier_foundation.sources.site_folder import Installation, SiteFolder


@dataclass(frozen=True)
class ModuleFolder:
    """A module that lies on this machine, fetched or local."""

    id: str
    path: Path
    is_local: bool = False


@dataclass
class Unit:
    """One module or package on its way."""

    id: str
    project: ModuleProject
    missing: list[Requirement] = field(default_factory=list)
    site: SiteFolder | None = None
    installation: Installation | None = None
    failed: bool = False

    @property
    def is_installed(self) -> bool:
        """Return whether an installer has to do something for it."""
        return self.project.is_built or bool(self.missing)


def units_of(folders: Sequence[ModuleFolder], failures: list[str]) -> tuple[dict[Path, Unit], set[Path]]:
    """Return what there is to activate by its folder, and the folders of modules that are no Python code.

    What cannot be understood is added to the failures.
    """
    units: dict[Path, Unit] = {}
    others: set[Path] = set()
    for folder in folders:
        try:
            if folder.path in units or folder.path in others:
                continue
            if other_transport(folder.path) is not None:
                others.add(folder.path)
            else:
                units[folder.path] = Unit(folder.id, _project(folder))
        except FoundationError as error:
            failures.append(f"{folder.id}: {error}")
    return units, others


def _project(folder: ModuleFolder) -> ModuleProject:
    if not folder.path.is_dir():
        raise FoundationError(f"{folder.path}: there is no such folder")
    project = read_module_project(folder.path)
    if project.name is None:
        return project
    from packaging.utils import canonicalize_name

    return replace(project, name=canonicalize_name(project.name))


def said_twice(modules: Sequence[ModuleFolder]) -> list[str]:
    """Return a failure for each id that is given with two folders: only one of them could be loaded."""
    first: dict[str, Path] = {}
    failures = []
    for module in modules:
        path = first.setdefault(module.id, module.path)
        if path != module.path:
            failures.append(f"{module.id}: named with two sources, {path} and {module.path}: keep one of them")
    return failures


def by_name(units: Sequence[Unit]) -> dict[str, ModuleProject]:
    """Return the projects that are distributions by their names."""
    return {unit.project.name: unit.project for unit in units if unit.project.name is not None}


def folders_of(units: Sequence[Unit]) -> list[Path]:
    """Return the units' site folders, each once, in order."""
    return list(dict.fromkeys(unit.site.path for unit in units if unit.site is not None))


def differing_versions(units: Sequence[Unit], entered: Sequence[Path]) -> list[str]:
    """Return, in words, the distributions of which two modules brought different versions."""
    from amplifier_foundation.sources.environment import installed_in

    brought: dict[str, dict[str, str]] = {}
    for folder in entered:
        for name, version in installed_in(folder).items():
            brought.setdefault(name, {version: "what this process uses already"})
    for unit in units:
        for name, version in (unit.installation.installed if unit.installation else {}).items():
            brought.setdefault(name, {}).setdefault(version, unit.id)
    return [
        " and ".join(f"{by} brings {name} {version}" for version, by in versions.items())
        for name, versions in sorted(brought.items())
        if len(versions) > 1
    ]


def clashes_of(units: Sequence[Unit], folders: Sequence[Path], environment: Environment) -> list[str]:
    """Return what modules need and would not get if these folders were on the path in this order."""
    from packaging.requirements import Requirement

    from amplifier_foundation.sources.environment import installed_in, unmet

    clashes = []
    for unit in units:
        built = installed_in(unit.site.path) if unit.project.is_built and unit.site is not None else {}
        found = unmet([*unit.missing, *(Requirement(name) for name in built)], folders, environment)
        clashes += [f"{unit.id}: {conflict}" for conflict in found.conflicts]
    return clashes

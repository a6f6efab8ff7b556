"""Make fetched modules ready to be loaded: each from its own folder, its missing dependencies beside the program.

Nothing is installed into the program's environment. What a module needs and the program does not have goes into a
folder of its own in the cache, which is put at the end of the path, so that the program's own packages always win.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from amplifier_foundation.errors import FoundationError
from amplifier_foundation.files import LOCK_TIMEOUT, FileBusyError
from amplifier_foundation.paths import Home
from amplifier_foundation.sources.activation_unit import (
    ModuleFolder,
    Unit,
    by_name,
    clashes_of,
    differing_versions,
    folders_of,
    said_twice,
    units_of,
)
from amplifier_foundation.sources.module_project import ModuleProject, code_folder, package_folders

__all__ = ["Activated", "Activator", "ModuleActivationError", "ModuleFolder", "enter"]

if TYPE_CHECKING:
    import asyncio

    from amplifier_foundation.sources.environment import Environment
    from amplifier_foundation.sources.installer import Installer, Wanted
    from amplifier_foundation.sources.site_folder import Installation, SiteFolder

#: So many installers run at the same time.
_AT_ONCE: Final = 8


class ModuleActivationError(FoundationError):
    """Modules cannot be made ready; every one that failed is named, with its reason."""

    code = "module_activation"

    def __init__(self, failures: Sequence[str]) -> None:
        self.failures = list(failures)
        listed = "\n".join(f"  {failure}" for failure in failures)
        what = "a module" if len(failures) == 1 else f"{len(failures)} modules"
        super().__init__(f"{what} could not be made ready:\n{listed}")


@dataclass
class Activated:
    """What a session needs to load its modules."""

    #: The folder of each module, for the kernel's resolver.
    paths: dict[str, Path] = field(default_factory=dict)
    #: Folders of installed dependencies, for the end of the path.
    site_folders: list[Path] = field(default_factory=list)
    #: Folders of bundles' own packages, for the end of the path.
    package_paths: list[Path] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def enter(activated: Activated) -> list[str]:
    """Put what was activated at the end of `sys.path`, and return what was not there already."""
    import importlib

    wanted = [*activated.site_folders, *activated.package_paths, *activated.paths.values()]
    added = [path for path in dict.fromkeys(str(path) for path in wanted) if path not in sys.path]
    sys.path.extend(added)
    importlib.invalidate_caches()
    return added


class Activator:
    """Activate modules for one home and one interpreter."""

    def __init__(
        self,
        home: Home,
        *,
        offline: bool = False,
        python: str = sys.executable,
        environ: Mapping[str, str] = os.environ,
        on_progress: Callable[[str], None] | None = None,
        installer: Installer | None = None,
    ) -> None:
        self._root = home.cache / "installed"
        self._cache = home.cache
        self._offline = offline
        self._python = python
        self._environ = environ
        self._on_progress = on_progress
        self._installer = installer

    async def activate(
        self, modules: Sequence[ModuleFolder], packages: Sequence[Path] = (), *, allow_missing: bool = False
    ) -> Activated:
        """Install what is missing, all modules at the same time, and return what to load them from.

        A module that needs nothing starts no process and works without anything being written. Raises
        ModuleActivationError with all failures, when all others are done; with `allow_missing` the modules that failed
        are left out, and the failures are among the warnings.
        """
        activated, failures = Activated(), said_twice(modules)
        units, others = units_of([*modules, *(ModuleFolder(path.name, path) for path in packages)], failures)
        failures += await self._install_all(list(units.values()), activated)
        if failures and not allow_missing:
            raise ModuleActivationError(failures)
        activated.warnings += failures
        ready = {path: unit for path, unit in units.items() if not unit.failed}
        built = {path: unit.site.path for path, unit in ready.items() if unit.project.is_built and unit.site}
        for module in modules:
            if module.path in ready or module.path in others:
                activated.paths.setdefault(module.id, built.get(module.path) or code_folder(module.path))
        for package in packages:
            if package in ready:
                activated.package_paths += [built[package]] if package in built else package_folders(package)
        return activated

    async def _install_all(self, units: list[Unit], activated: Activated) -> list[str]:
        """Give each unit its site folder; return the failures."""
        import asyncio

        from amplifier_foundation.sources.environment import Environment

        if not units:
            return []
        environment = Environment(self._root, by_name(units))
        slots = asyncio.Semaphore(_AT_ONCE)
        results = await asyncio.gather(
            *(self._install_one(unit, environment, slots, activated) for unit in units), return_exceptions=True
        )
        failures = []
        for unit, result in zip(units, results, strict=True):
            if isinstance(result, FoundationError | OSError):
                unit.failed = True
                failures.append(f"{unit.id}: {result}")
            elif isinstance(result, BaseException):
                raise result
        return failures + await self._reconcile([unit for unit in units if not unit.failed], environment, activated)

    async def _install_one(
        self, unit: Unit, environment: Environment, slots: asyncio.Semaphore, activated: Activated
    ) -> None:
        from packaging.requirements import Requirement

        from amplifier_foundation.sources.installer import InstallError, Wanted

        project = unit.project
        if not project.is_built:
            found = environment.unmet(Requirement(wish) for wish in project.dependencies)
            if found.conflicts:
                raise InstallError("; ".join(found.conflicts))
            unit.missing = found.missing
        if not unit.is_installed:
            await self._announce(unit, activated)
            return
        source = project.root if project.is_built else None
        wanted = Wanted(tuple(unit.missing), source, project.name if source else None)
        unit.site, unit.installation = await self._install(unit.id, [project], wanted, environment, slots)

    async def _install(
        self,
        name: str,
        projects: list[ModuleProject],
        wanted: Wanted,
        environment: Environment,
        slots: asyncio.Semaphore,
    ) -> tuple[SiteFolder, Installation]:
        """Return the folder with what is wanted, installed now unless it is there and still right."""
        from amplifier_foundation.sources.installer import install_timeout
        from amplifier_foundation.sources.site_folder import Installation, write_dist_info

        site = self._site(name, projects, wanted)
        timeout = install_timeout(self._environ)
        installed = _usable(site, environment, projects)
        if installed is not None:
            return site, installed
        async with site.locked(timeout * 2), slots:
            installed = _usable(site, environment, projects)  # another process may have done it while we waited
            if installed is not None:
                return site, installed
            self._say(f"installing for {name}: {_listed(wanted)}")
            with site.staging() as staging:
                filled = await self._found_installer().fill(staging, wanted, environment, timeout)
                for project in projects:
                    if not project.is_built:
                        write_dist_info(filled.path, project)
                installed = Installation(filled.installed, tuple(filled.relies_on))
                site.finish(filled.path, installed)
        return site, installed

    async def _reconcile(self, units: list[Unit], environment: Environment, activated: Activated) -> list[str]:
        """Choose the folders for the path so that every module finds the versions it needs; return what cannot be.

        Modules installed at different times have different versions of the same thing. One that does for all is used
        for all; where no folder has it, everything is installed once more together.
        """
        import asyncio

        from amplifier_foundation.sources.installer import InstallError, Wanted

        chosen = [unit for unit in units if unit.site is not None and unit.is_installed]
        activated.site_folders = folders_of(units)
        differing = differing_versions(chosen, self._entered())
        if not differing or not clashes_of(chosen, [*self._entered(), *folders_of(chosen)], environment):
            return []
        together = [unit for unit in chosen if not unit.project.is_built]
        wishes = list(dict.fromkeys(wish for unit in together for wish in unit.missing))
        try:
            if not together:
                raise InstallError("each brings its own")
            projects = [unit.project for unit in together]
            site, installed = await self._install(
                "shared", projects, Wanted(tuple(wishes)), environment, asyncio.Semaphore(1)
            )
        except (FoundationError, OSError) as error:
            return [f"{difference}: {error}" for difference in differing]
        for unit in together:
            unit.site, unit.installation = site, installed
        activated.site_folders = folders_of(units)
        clashes = clashes_of(chosen, [*self._entered(), *folders_of(chosen)], environment)
        return [f"{difference}: {'; '.join(clashes)}" for difference in differing] if clashes else []

    async def _announce(self, unit: Unit, activated: Activated) -> None:
        """Make a module that needs nothing known by its name and version; it runs without that, too."""
        from amplifier_foundation.sources.installer import Wanted
        from amplifier_foundation.sources.site_folder import Installation, write_dist_info

        if unit.project.name is None:
            return
        try:
            site = self._site(unit.id, [unit.project], Wanted())
            if site.installation() is None:
                async with site.locked(LOCK_TIMEOUT):
                    if site.installation() is None:
                        with site.staging() as staging:
                            write_dist_info(staging, unit.project)
                            site.finish(staging, Installation())
            unit.site = site
        except (OSError, FileBusyError) as error:
            activated.warnings.append(f"{unit.id}: its version is not known to Python: {error}")

    def _site(self, name: str, projects: Sequence[ModuleProject], wanted: Wanted) -> SiteFolder:
        from amplifier_foundation.sources.fingerprint import fingerprint, tree_facts
        from amplifier_foundation.sources.site_folder import SiteFolder

        facts: list[str | bytes] = [fact for project in projects for fact in project.facts]
        facts += sorted(str(wish) for wish in wanted.requirements)
        if wanted.project is not None:
            facts += tree_facts(wanted.project)
        return SiteFolder(self._root, name, fingerprint(facts, self._python))

    def _entered(self) -> list[Path]:
        """Return the folders of an earlier activation that this process uses already."""
        return [Path(path) for path in sys.path if Path(path).parent == self._root]

    def _found_installer(self) -> Installer:
        from amplifier_foundation.sources.installer import find_installer

        if self._installer is None:
            self._installer = find_installer(self._python, self._environ, self._cache / "uv", offline=self._offline)
        return self._installer

    def _say(self, text: str) -> None:
        if self._on_progress is not None:
            self._on_progress(text)


def _usable(site: SiteFolder, environment: Environment, projects: Sequence[ModuleProject]) -> Installation | None:
    """Return what a folder holds if the environment still has what it relies on, and nothing else has come to it."""
    from packaging.requirements import Requirement

    installed = site.installation()
    if installed is None:
        return None
    own = {project.name for project in projects}
    if any(
        environment.version(name) not in (None, was) for name, was in installed.installed.items() if name not in own
    ):
        return None  # the environment's version would be imported, and nobody has checked that one
    open_again = environment.unmet(Requirement(wish) for wish in installed.relies_on)
    return None if open_again.missing or open_again.conflicts else installed


def _listed(wanted: Wanted) -> str:
    names = [str(wish) for wish in wanted.requirements]
    return ", ".join([*names, *([str(wanted.project)] if wanted.project is not None else [])])

"""Make fetched modules ready to be loaded, each from its own folder, with what they require beside the program.

Nothing is installed into the program's environment. What modules require and the program does not have is installed
together, by one run of uv, into a folder of the cache at the end of the path: the program's own packages come first.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from amplifier_foundation.errors import FoundationError
from amplifier_foundation.paths import Home
from amplifier_foundation.sources.module_project import (
    ModuleProject,
    code_folder,
    other_transport,
    package_folders,
    read_module_project,
    write_dist_info,
)
from amplifier_kit.named_tuple import NamedTuple

if TYPE_CHECKING:
    from packaging.requirements import Requirement

    from amplifier_foundation.sources.requirements import Environment


class ModuleActivationError(FoundationError):
    """Modules cannot be made ready; every one that failed is named, with its reason."""

    code = "module_activation"

    def __init__(self, failures: Sequence[str]) -> None:
        self.failures = list(failures)
        listed = "\n".join(f"  {failure}" for failure in failures)
        what = "a module" if len(failures) == 1 else f"{len(failures)} modules"
        super().__init__(f"{what} could not be made ready:\n{listed}")


class ModuleFolder(NamedTuple):
    """A module on this machine, fetched or local."""

    id: str
    path: Path
    is_local: bool = False


@dataclass
class Activated:
    """What a session needs to load its modules."""

    #: The folder of each module, for the kernel's resolver.
    paths: dict[str, Path] = field(default_factory=dict)
    #: Folders of installed distributions, for the end of the path.
    site_folders: list[Path] = field(default_factory=list)
    #: Folders of bundles' own packages, for the end of the path.
    package_paths: list[Path] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def enter(activated: Activated) -> list[str]:
    """Add what was activated to the end of `sys.path`, and return what was added."""
    import importlib

    wanted = [*activated.site_folders, *activated.package_paths, *activated.paths.values()]
    added = [path for path in dict.fromkeys(str(path) for path in wanted) if path not in sys.path]
    sys.path.extend(added)
    importlib.invalidate_caches()
    return added


@dataclass
class _Unit:
    """A module, or a bundle's package, that is being activated."""

    id: str
    project: ModuleProject
    missing: list[Requirement] = field(default_factory=list)

    @property
    def needs_install(self) -> bool:
        return self.project.is_built or bool(self.missing)


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
        command: tuple[str, ...] = (),
    ) -> None:
        """`command` replaces the `uv pip` that is installed with the program."""
        self._root = home.cache / "installed"
        self._uv_cache = home.cache / "uv"
        self._offline = offline
        self._python = python
        self._environ = environ
        self._on_progress = on_progress or (lambda text: None)
        self._command = command

    async def activate(
        self,
        modules: Sequence[ModuleFolder],
        packages: Sequence[Path] = (),
        *,
        allow_missing: bool = False,
        install: bool = True,
    ) -> Activated:
        """Install what is missing, unless told not to, and return what to load the modules from.

        Modules that require nothing start no process and need no writable home. Raises ModuleActivationError with all
        failures; with `allow_missing` the modules that failed are left out, and the failures are warnings.
        """
        activated, failures = Activated(), _duplicate_ids(modules)
        units, others = _units_of([*modules, *(ModuleFolder(path.name, path) for path in packages)], failures)
        self._announce(list(units.values()), activated)
        layer = await self._install(units, failures, activated) if install else None
        if failures and not allow_missing:
            raise ModuleActivationError(failures)
        activated.warnings += failures
        for module in modules:
            if (unit := units.get(module.path)) is not None or module.path in others:
                is_built = unit is not None and unit.project.is_built and layer is not None
                activated.paths.setdefault(module.id, layer if is_built and layer else code_folder(module.path))
        for package in packages:
            if (unit := units.get(package)) is not None:
                activated.package_paths += [layer] if unit.project.is_built and layer else package_folders(package)
        return activated

    async def _install(self, units: dict[Path, _Unit], failures: list[str], activated: Activated) -> Path | None:
        """Install what the units miss and return the folder; take the units that fail out of `units`."""
        if not units:
            return None
        from packaging.requirements import Requirement

        from amplifier_foundation.sources.requirements import Environment

        named = {unit.project.name: unit.project for unit in units.values() if unit.project.name is not None}
        environment = Environment(self._root, named)
        for path, unit in list(units.items()):
            if not unit.project.is_built:
                found = environment.unmet(Requirement(text) for text in unit.project.dependencies)
                unit.missing = found.missing
                if found.conflicts:
                    failures.append(f"{unit.id}: {'; '.join(found.conflicts)}")
                    del units[path]
        wanting = {path: unit for path, unit in units.items() if unit.needs_install}
        if not wanting:
            return None
        while True:
            try:
                layer = await self._layer(list(wanting.values()), environment)
                break
            except (FoundationError, OSError) as error:
                failed = await self._find_failures(wanting, environment, error)
            failures += dict.fromkeys(failed.values())
            for path in failed:
                del units[path], wanting[path]
            if not wanting:
                return None
        activated.site_folders.append(layer)
        return layer

    async def _find_failures(
        self, wanting: Mapping[Path, _Unit], environment: Environment, error: Exception
    ) -> dict[Path, str]:
        """Return why each unit that cannot be installed fails. When each can be, all fail, because of each other."""
        import asyncio

        if len(wanting) == 1:
            return {path: f"{unit.id}: {error}" for path, unit in wanting.items()}

        alone = await asyncio.gather(
            *(self._layer([unit], environment) for unit in wanting.values()), return_exceptions=True
        )
        failed = {}
        for (path, unit), result in zip(wanting.items(), alone, strict=True):
            if isinstance(result, FoundationError | OSError):
                failed[path] = f"{unit.id}: {result}"
            elif isinstance(result, BaseException):
                raise result
        ids = ", ".join(unit.id for unit in wanting.values())
        return failed or dict.fromkeys(wanting, f"{ids}: their requirements contradict each other: {error}")

    async def _layer(self, units: Sequence[_Unit], environment: Environment) -> Path:
        """Return the folder with everything the units miss. Raises InstallError, FileBusyError and OSError."""
        from packaging.requirements import Requirement

        from amplifier_foundation.sources.content import content_hash
        from amplifier_foundation.sources.install import (
            Installer,
            InstallError,
            content_key,
            fill_once,
            install_timeout,
        )
        from amplifier_foundation.sources.requirements import installed_in

        requirements = sorted({str(requirement) for unit in units for requirement in unit.missing})
        projects = [unit.project for unit in units if unit.project.is_built]
        facts = [*requirements, *(content_hash(project.root) for project in projects)]
        name = units[0].id if len(units) == 1 else "modules"
        folder = self._root / f"{_safe_name(name)}-{content_key(facts, self._python)}"
        entered = [Path(path) for path in sys.path if Path(path).parent == self._root and Path(path) != folder]

        def problems(site: Path, others: Sequence[Path] = ()) -> list[str]:
            roots = [*requirements, *installed_in(site)]
            found = environment.unmet((Requirement(root) for root in roots), [*others, site])
            return sorted([*found.conflicts, *(f"{one} was not installed" for one in found.missing)])

        async def fill(staging: Path) -> Path:
            wanted = [*requirements, *(str(project.root) for project in projects)]
            self._on_progress(f"installing for {', '.join(unit.id for unit in units)}: {', '.join(wanted)}")
            built = {project.name for project in projects}
            (staging / "excludes").write_text("\n".join(sorted(environment.names() - built)), encoding="utf-8")
            (staging / "requirements").write_text("\n".join(requirements), encoding="utf-8")
            options = ["--no-sources", "--excludes", str(staging / "excludes"), "-r", str(staging / "requirements")]
            for number, project in enumerate(projects):
                # A build leaves files behind: it gets a copy, and the module's own folder stays as it was fetched.
                options.append(str(shutil.copytree(project.root, staging / f"project-{number}", symlinks=True)))
            await installer.install(staging / "site", options)
            if found := problems(staging / "site"):
                raise InstallError("; ".join(found))
            return staging / "site"

        installer = Installer(self._python, self._environ, self._uv_cache, self._offline, self._command)
        timeout = install_timeout(self._environ) * 2
        await fill_once(folder, fill, lambda site: site.is_dir() and not problems(site), timeout)
        if entered and (found := problems(folder, entered)):
            raise InstallError(f"this process already uses other versions: {'; '.join(found)}")
        return folder

    def _announce(self, units: Sequence[_Unit], activated: Activated) -> None:
        """Make modules that run from their own folders known to `importlib.metadata`; they run without that, too."""
        from amplifier_foundation.sources.install import content_key

        projects = [unit.project for unit in units if unit.project.name is not None and not unit.project.is_built]
        if not projects:
            return
        try:
            folder = self._root / f"metadata-{content_key((f for p in projects for f in p.facts), self._python)}"
            if not folder.is_dir():
                staging = folder.with_name(f"{folder.name}.{os.getpid()}")
                for project in projects:
                    write_dist_info(staging, project)
                try:
                    os.rename(staging, folder)
                except OSError:
                    shutil.rmtree(staging, ignore_errors=True)
                    if not folder.is_dir():  # else another process was first
                        raise
            activated.site_folders.append(folder)
        except OSError as error:
            ids = ", ".join(unit.id for unit in units)
            activated.warnings.append(f"{ids}: the version is not known to Python: {error}")


def _duplicate_ids(modules: Sequence[ModuleFolder]) -> list[str]:
    """Return a failure for each id with two folders: only one of them could be loaded."""
    first: dict[str, Path] = {}
    failures = []
    for module in modules:
        path = first.setdefault(module.id, module.path)
        if path != module.path:
            failures.append(f"{module.id}: named with two sources, {path} and {module.path}: keep one of them")
    return failures


def _units_of(folders: Sequence[ModuleFolder], failures: list[str]) -> tuple[dict[Path, _Unit], set[Path]]:
    """Return what to activate by its folder, and the folders of modules that are not Python code; add to `failures`."""
    units: dict[Path, _Unit] = {}
    others: set[Path] = set()
    for folder in folders:
        try:
            if not folder.path.is_dir():
                raise FoundationError(f"{folder.path}: no such folder")
            if other_transport(folder.path) is not None:
                others.add(folder.path)
            elif folder.path not in units:
                units[folder.path] = _Unit(folder.id, _read_project(folder.path))
        except FoundationError as error:
            failures.append(f"{folder.id}: {error}")
    return units, others


def _read_project(folder: Path) -> ModuleProject:
    project = read_module_project(folder)
    if project.name is None:
        return project
    from packaging.utils import canonicalize_name

    return replace(project, name=canonicalize_name(project.name))


def _safe_name(name: str) -> str:
    return "".join(char if char.isalnum() or char in "._-" else "-" for char in name).strip(".-")[:80] or "module"

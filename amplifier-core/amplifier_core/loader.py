"""Find, check and bind modules: from an id and a config to a function that mounts on a coordinator.

Loading is the only I/O of the kernel. A resolver, if the app mounted one, decides where a module comes from; otherwise
it must be installed.
"""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Awaitable, Callable
from inspect import iscoroutinefunction
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

from amplifier_core._discovery import (
    LOAD_FAILURE,
    MODULE_FAILURE_REASONS,
    ModuleValidationError,
    NotFoundError,
    UnloadableError,
    check_manifest,
    find_entry_point,
    find_package_dir,
    guess_type,
    module_failure_reason,
    package_name,
    validation_error,
)
from amplifier_core._mount import mount_checked, separate_deferred_lists
from amplifier_core.bounded_call import maybe_await
from amplifier_core.data import describe
from amplifier_core.module_sources import ModuleNotFoundError as SourceNotFoundError
from amplifier_core.plan import TYPE_TO_MOUNT_POINT
from amplifier_core.trace import current_scope

if TYPE_CHECKING:
    from amplifier_core._session_init import MountWave
    from amplifier_core.models import ModuleInfo
    from amplifier_core.validation.base import ValidationResult

__all__ = [
    "MODULE_FAILURE_REASONS",
    "TYPE_TO_MOUNT_POINT",
    "ModuleLoader",
    "ModuleValidationError",
    "module_failure_reason",
]

logger = logging.getLogger(__name__)

MountFunction = Callable[[Any], Awaitable[Any]]
Ready = Callable[[Any], Any]

#: By kind and place: the mount function that was checked, and what was found; the same function is the same code.
_checked: dict[tuple[str, str], tuple[Any, ValidationResult]] = {}


class _Loaded:
    """A loaded module: its origin, its mount function and its on_session_ready."""

    __slots__ = ("module", "mount", "path", "ready", "ready_is_sync")

    def __init__(self, module_id: str, module: ModuleType | None, mount: Any, path: Path | None) -> None:
        self.module = module
        self.mount = mount
        self.path = path
        ready = getattr(module, "on_session_ready", None)
        self.ready_is_sync = callable(ready) and not iscoroutinefunction(ready)
        self.ready: Ready | None = ready if callable(ready) and not self.ready_is_sync else None
        if self.ready_is_sync:
            what = "Module '%s' defines on_session_ready() as sync — must be async. Skipping."
            logger.warning(what, module_id, extra={"module_file": getattr(module, "__file__", None)})
        if self.ready is not None:
            separate_deferred_lists(module, mount, self.ready)
            _mark_ready(mount, module_id, self.ready)


class ModuleLoader:
    """Load modules by id; a loader may be shared by the sessions of a tree."""

    def __init__(self, coordinator: Any = None, search_paths: list[Path] | None = None) -> None:
        self._coordinator = coordinator
        self._search_paths = search_paths
        self._loaded: dict[str, _Loaded] = {}
        self._added_paths: list[str] = []
        self._queue: list[tuple[str, Ready]] = []

    # -- the ready queue of the current session --

    def _ready_queue(self) -> list[tuple[str, Ready]]:
        scope = current_scope()
        wave: MountWave | None = scope.wave if scope is not None else None
        return self._queue if wave is None else wave.ready

    def get_on_session_ready_queue(self) -> list[tuple[str, Ready]]:
        """Return a copy of the queue of the session being initialised."""
        return list(self._ready_queue())

    def enqueue_on_session_ready(self, module_id: str, function: Ready) -> None:
        self._ready_queue().append((module_id, function))

    def clear_on_session_ready_queue(self) -> None:
        self._ready_queue().clear()

    # -- loading --

    async def load(
        self,
        module_id: str,
        config: dict[str, Any] | None = None,
        source_hint: Any = None,
        coordinator: Any = None,
    ) -> MountFunction:
        """Return an async function that mounts the module with `config` on the coordinator it is given.

        Raises ValueError when no module of that id is installed, ModuleValidationError when the one found must not be
        used, ImportError when it cannot be imported or comes from another place than before, and the resolver's
        errors. Each is logged.
        """
        try:
            loaded = await self._find(module_id, source_hint, coordinator)
            wave = _live_wave(module_id, coordinator)
            structure = None
            if loaded.path is not None or wave is not None:
                structure = self._check_structure(module_id, loaded, wave)
        except Exception as error:
            logger.error("Failed to load module '%s': %s", module_id, describe(error), extra=LOAD_FAILURE)
            raise
        self._loaded[module_id] = loaded
        return self._bound(module_id, loaded, config or {}, wave, structure)

    async def initialize(self, module: MountFunction, coordinator: Any) -> Any:
        """Await `module(coordinator)` and return its result; errors are logged and raised again."""
        try:
            return await module(coordinator)
        except Exception as error:
            logger.error("Failed to initialize module: %s", describe(error))
            raise

    async def discover(self) -> list[ModuleInfo]:
        """List installed modules, then those in the search paths, or else in $AMPLIFIER_MODULES."""
        from amplifier_core.utils.discover import discover

        return discover(self._search_paths)

    def cleanup(self) -> None:
        """Remove the entries this loader added to sys.path."""
        while self._added_paths:
            added = self._added_paths.pop()
            if added in sys.path:
                sys.path.remove(added)

    async def _find(self, module_id: str, source_hint: Any, coordinator: Any) -> _Loaded:
        known = self._loaded.get(module_id)
        resolver = self._resolver(coordinator)
        if resolver is None or (known is not None and known.path is None):
            return known or self._load_installed(module_id)
        try:
            path = await self._resolve(resolver, module_id, source_hint)
        except SourceNotFoundError as missing:
            try:
                return known or self._load_installed(module_id)
            except NotFoundError as error:
                raise missing from error  # which names the nearest module
        if known is not None:
            if path != known.path and (known.path is None or path.resolve() != known.path.resolve()):
                raise ImportError(f"Refusing to load '{module_id}' from {path}: it is already loaded from {known.path}")
            return known
        return self._load_from(module_id, path, coordinator)

    def _resolver(self, coordinator: Any) -> Any:
        for candidate in (self._coordinator, coordinator):
            if candidate is None:
                continue
            try:
                resolver = candidate.get("module-source-resolver")
            except ValueError:
                continue  # a coordinator without that mount point simply has no resolver
            if resolver is not None:
                return resolver
        return None

    async def _resolve(self, resolver: Any, module_id: str, hint: Any) -> Path:
        resolve = getattr(resolver, "async_resolve", None) or resolver.resolve
        source = await maybe_await(resolve(module_id, source_hint=hint, profile_hint=hint))
        path = await maybe_await(source.resolve())
        logger.info("[module:mount] %s from %s", module_id, source)
        return Path(path)

    def _load_installed(self, module_id: str) -> _Loaded:
        """Load by entry point, else by package name; an error inside the module is raised as it is."""
        for rescan in (False, True):  # the second time for modules installed since the last scan
            entry_point = find_entry_point(module_id, rescan=rescan)
            if entry_point is not None:
                mount = entry_point.load()
                logger.info("Loaded module '%s' from entry point", module_id)
                return _Loaded(module_id, sys.modules.get(getattr(mount, "__module__", "")), mount, None)
            loaded = self._load_package(module_id)
            if loaded is not None:
                return loaded
        from amplifier_core.utils.discover import suggest

        raise NotFoundError(f"Module '{module_id}' not found via entry points or filesystem. {suggest(module_id)}")

    def _load_package(self, module_id: str) -> _Loaded | None:
        """Import `amplifier_module_<id>`; return None when that package does not exist."""
        package = package_name(module_id)
        try:
            module = importlib.import_module(package)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{package}.".startswith(f"{error.name}."):
                raise
            return None
        mount = getattr(module, "mount", None)
        if mount is None:
            raise UnloadableError(f"Module '{module_id}' found at {module.__file__} but has no mount() function")
        logger.info("Loaded module '%s' from package %s", module_id, package)
        return _Loaded(module_id, module, mount, None)

    def _load_from(self, module_id: str, path: Path, coordinator: Any) -> _Loaded:
        """Load the package at a resolved path; an installed one of the same id cannot take its place."""
        if str(path) not in sys.path:
            sys.path.insert(0, str(path))
            self._added_paths.append(str(path))
        if coordinator is not None:
            check_manifest(module_id, path)
        package = self._find_package_dir(module_id, path)
        if package is None:
            raise ModuleValidationError(
                f"Module '{module_id}' has no valid Python package at {path}",
                reason_code="invalid_package_layout" if path.exists() else "missing_source",
            )
        module = _import_package(module_id, package)
        return _Loaded(module_id, module, getattr(module, "mount", None), path)

    def _find_package_dir(self, module_id: str, path: Path) -> Path | None:
        return find_package_dir(module_id, path)

    # -- validation --

    def _kind(self, module_id: str, loaded: _Loaded, planned: str | None) -> str:
        """Return the module's kind: declared, else what the plan lists it as, else what its name suggests."""
        declared = getattr(loaded.module, "__amplifier_module_type__", None)
        if declared is not None and declared not in TYPE_TO_MOUNT_POINT:
            raise ModuleValidationError(
                f"Module '{module_id}' has unknown type '{declared}'. Valid types: {list(TYPE_TO_MOUNT_POINT)}",
                reason_code="invalid_module_metadata",
            )
        if declared is not None and planned is not None and declared != planned:
            raise ModuleValidationError(
                f"Module '{module_id}' is a {declared}, but the plan lists it as a {planned}: "
                f"move it to '{TYPE_TO_MOUNT_POINT[declared]}'",
                reason_code="invalid_module_metadata",
            )
        return declared or planned or guess_type(module_id)

    def _check_structure(self, module_id: str, loaded: _Loaded, wave: MountWave | None) -> ValidationResult | None:
        """Check mount() and on_session_ready() once per module and kind; raise ModuleValidationError if wrong."""
        from amplifier_core.validation import validator_for
        from amplifier_core.validation.base import ValidationCheck, ValidationResult

        kind = self._kind(module_id, loaded, wave.kind if wave is not None else None)
        where = loaded.path or getattr(loaded.module, "__file__", None) or module_id
        validator = validator_for(kind)
        if validator is None:
            logger.warning("No validator for module type '%s': '%s' is not checked", kind, module_id)
            if not callable(loaded.mount):
                raise UnloadableError(f"Module '{module_id}' found at {where} but failed to load: no mount() function")
            return None
        mount, result = _checked.get((kind, str(where)), (None, None))
        if result is None or mount is not loaded.mount:
            result = ValidationResult(kind, str(where))
            result.add(ValidationCheck("module_importable", True, f"Module loaded from {where}", "info"))
            # An entry point may give mount() another name, or belong to no module.
            ready = getattr(loaded.module, "on_session_ready", None)
            validator.check_structure(SimpleNamespace(mount=loaded.mount, on_session_ready=ready), result)
            _checked[kind, str(where)] = loaded.mount, result
        if wave is not None or loaded.path is None:
            # A session runs without a wrong on_session_ready(): it is skipped, or fails when it is called.
            checks = [check for check in result.checks if check.name != "on_session_ready_async"]
            result = ValidationResult(kind, str(where), checks)
        if not result.passed:
            raise validation_error(module_id, result)
        return result

    def _bound(
        self,
        module_id: str,
        loaded: _Loaded,
        config: dict[str, Any],
        loading: MountWave | None,
        checked: ValidationResult | None,
    ) -> MountFunction:
        """Return a fresh function that mounts with this call's config, checked when a live session awaits it.

        `checked` is the result of the structural checks in the wave `loading`, which count in that wave alone.
        """

        async def mount_with_config(coordinator: Any) -> Any:
            wave = _live_wave(module_id, coordinator)
            if wave is None:
                return await loaded.mount(coordinator, config)
            structure = checked if wave is loading else self._check_structure(module_id, loaded, wave)
            if loaded.ready_is_sync:
                wave.skipped.append((module_id, "on_session_ready() is sync, it must be async: skipped"))
            if structure is None:
                return await loaded.mount(coordinator, config)
            return await mount_checked(module_id, loaded.mount, coordinator, config, structure)

        if loaded.ready is not None:
            _mark_ready(mount_with_config, module_id, loaded.ready)
        return mount_with_config


def _live_wave(module_id: str, coordinator: Any) -> MountWave | None:
    """Return the wave in which a session is mounting this very module now, if one is."""
    scope = current_scope()
    if scope is None or scope.owner is not coordinator or not scope.is_mounting or scope.module != module_id:
        return None
    wave: MountWave | None = scope.wave
    return wave


def _mark_ready(mount: Any, module_id: str, ready: Ready) -> None:
    try:
        mount.__on_session_ready__ = (module_id, ready)
    except AttributeError:
        pass  # a mount that takes no attributes (a bound method): the bound function carries the mark


def _import_package(module_id: str, package: Path) -> ModuleType:
    """Import a package by its folder; an error in it is a failed check, as everywhere else."""
    from amplifier_core.validation.base import ValidationCheck, ValidationResult, import_module_from_path

    try:
        return import_module_from_path(package)
    except Exception as error:
        what = "Failed to import module" if isinstance(error, ImportError) else "Error loading module"
        result = ValidationResult(guess_type(module_id), str(package))
        result.add(ValidationCheck("module_importable", False, f"{what}: {describe(error)}", "error"))
        raise validation_error(module_id, result) from error

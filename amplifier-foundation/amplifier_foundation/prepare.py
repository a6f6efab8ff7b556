"""Make a session's parts ready: compose bundle and settings, ask for trust, fetch, install, lock."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amplifier_foundation.composed import Composed, ModuleUse, PinRecord, differences, with_secrets_of
from amplifier_foundation.errors import FoundationError
from amplifier_foundation.lock import BundleLock, LockError, Pin, find_lock, lock_path
from amplifier_foundation.module_uses import (
    PACKAGES,
    module_uses,
    named_modules,
    package_uses,
    provider_settings,
    variables_used,
)
from amplifier_foundation.paths import Home
from amplifier_foundation.prepared import Prepared
from amplifier_foundation.settings import Settings
from amplifier_foundation.settings.places import Key, find, parts_of
from amplifier_foundation.trust import Refusal, TrustCheck, TrustStore, UntrustedError

if TYPE_CHECKING:
    from amplifier_foundation.bundles.bundle import Bundle
    from amplifier_foundation.bundles.layer import Layer, Namer
    from amplifier_foundation.bundles.loader import BundleLoader
    from amplifier_foundation.bundles.registry import BundleRegistry
    from amplifier_foundation.sessions.resume import SavedSession
    from amplifier_foundation.sources.activation import ModuleFolder
    from amplifier_foundation.sources.fetcher import Fetcher

#: The bundle of a session for which nobody names one.
DEFAULT = "default"


@dataclass(frozen=True)
class Options:
    """What an app wants, and how much may be done for it."""

    home: Home
    project: Path
    #: The session that goes on, whose own settings count.
    session_folder: Path | None = None
    #: A name, a path or an address; None for the one that settings name, else the default.
    bundle: str | None = None
    #: Use what the lock names and nothing else.
    locked: bool = False
    #: Use no network.
    offline: bool = False
    #: Trust what the project's files name, this once.
    trust: bool = False
    #: Go on without includes and modules that cannot be had.
    allow_missing: bool = False
    #: Look for newer states of what is fetched, instead of using those of the lock and the cache.
    update: bool = False
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    on_progress: Callable[[str], None] | None = None


@dataclass(frozen=True)
class Composition:
    """A composed bundle with everything that explains it."""

    composed: Composed
    bundle: Bundle
    settings: Settings
    #: Every file that had a say, later ones on top.
    layers: tuple[Layer, ...]
    refusals: tuple[Refusal, ...] = ()
    warnings: tuple[str, ...] = ()


async def prepare(options: Options) -> Prepared:
    """Return a session's parts, ready to be run, and write down in the lock what was fetched for it.

    Raises UntrustedError, naming everything that is refused, before any module is fetched; ModuleActivationError with
    every module that cannot be had; SettingsError, BundleError, SourceError and LockError.
    """
    composition = await compose(options)
    if composition.refusals:
        raise UntrustedError(composition.refusals, options.project)
    prepared = await activate(composition.composed, options)
    warnings = [*composition.warnings, *prepared.warnings]
    if not options.locked:
        warnings += _write_lock(prepared.composed)
    return replace(prepared, warnings=tuple(dict.fromkeys(warnings)))


async def prepare_saved(saved: SavedSession, options: Options) -> Prepared:
    """Return the parts that a session was made of, as they were recorded, ready to go on.

    What bundle, settings and lock would give now is compared, and every difference is one of the `warnings`. A session
    without a record, as other programs write it, gets the bundle that its notes name, as it is now. A bundle that the
    options name is used instead of the recorded one. Raises what `prepare` raises.
    """
    options = replace(options, project=saved.project or options.project, session_folder=saved.folder)
    recorded = _with_shipped_files(saved.recorded) if saved.recorded is not None else None
    if options.bundle is not None or recorded is None:
        prepared = await prepare(replace(options, bundle=options.bundle or saved.bundle))
        return replace(prepared, warnings=(*_instead(saved, prepared.composed), *prepared.warnings))
    told: list[str] = []
    try:
        current = (await compose(replace(options, bundle=recorded.reference))).composed
        recorded = with_secrets_of(recorded, current)
        told += [f"{line}: what was recorded is used" for line in differences(recorded, current)]
    except FoundationError as error:
        told.append(f"the bundle cannot be composed any more, what was recorded is used: {error}")
    recorded = _with_session_settings(recorded, saved.folder)
    refusals = _check(options).refuse_modules(named_modules(recorded.modules))
    if refusals:
        raise UntrustedError(refusals, options.project)
    prepared = await activate(recorded, options)
    return replace(prepared, warnings=(*told, *prepared.warnings))


async def compose(options: Options) -> Composition:
    """Return the bundle with its includes, the user's settings and all agents; of modules nothing is fetched.

    Raises SettingsError, BundleError, SourceError and LockError.
    """
    from amplifier_foundation.bundles.loader import BundleLoader, is_path
    from amplifier_foundation.bundles.shipped import shipped_uri
    from amplifier_foundation.settings.layers import settings_layers

    settings = Settings.load(options.home, options.project, options.session_folder)
    reference, named_by = _chosen(options, settings)
    registry = _registry(options, settings)
    overrides = settings.get("sources.bundles") or {}
    lock = None if options.update else _known_lock(reference, registry, overrides, options)
    fetcher = _fetcher(options, lock.sources if lock is not None else {})
    loader = BundleLoader(
        fetcher,
        registry,
        options.home,
        options.project,
        overrides=overrides,
        overridden_by=_namers(settings, "sources.bundles"),
        allow_missing=options.allow_missing,
    )
    bundle = await loader.load(reference, named_by=named_by, given_by_user=options.bundle is not None)
    bundle = await _with_app_bundles(bundle, loader, settings)
    heard: list[str] = [*settings.warnings, *registry.warnings, *bundle.warnings, *fetcher.warnings]
    plan = _plan(bundle, settings, options, heard)
    layers = (*bundle.layers, *settings_layers(settings, plan))
    uses = module_uses(plan, layers, settings, options.project, options.home, options.environ)
    uses += package_uses(bundle.packages, layers)
    check = _check(options)
    refusals = [
        *check.refuse_modules(named_modules(uses)),
        *check.refuse_endpoints(provider_settings(plan, layers)),
        *check.refuse_variables(variables_used(layers)),
    ]
    composed = Composed(
        reference=str(bundle.file) if is_path(reference) else reference,
        name=bundle.name,
        version=bundle.version,
        uri=shipped_uri(bundle.uri),
        plan=plan,
        instruction=bundle.instruction,
        context={name: str(path) for name, path in bundle.context.items()},
        namespaces={name: str(path) for name, path in bundle.namespaces.items()},
        modules=tuple(uses),
        pins=_pins(lock, fetcher, uses),
        lock=str(lock_path(bundle.file, bundle.name, bundle.uri, options.home, options.project)),
    )
    return Composition(composed, bundle, settings, layers, tuple(refusals), tuple(dict.fromkeys(heard)))


async def activate(composed: Composed, options: Options) -> Prepared:
    """Fetch the modules and install what they need, all at once; the result knows where everything lies.

    Raises ModuleActivationError with every module that cannot be had; with `allow_missing` they are warnings.
    """
    if not composed.modules:
        return Prepared(composed, options.home, options.project)
    from amplifier_foundation.sources.activation import Activator, ModuleActivationError, enter

    fetcher = _fetcher(options, {uri: Pin(pin["commit"], pin["sha256"] or "") for uri, pin in composed.pins.items()})
    folders, failures = await _fetch(composed.modules, fetcher, options.project)
    if failures and not options.allow_missing:
        raise ModuleActivationError(failures)
    modules = [folder for use, folder in folders if use.section != PACKAGES]
    packages = [folder.path for use, folder in folders if use.section == PACKAGES]
    activator = Activator(
        options.home, offline=options.offline, environ=options.environ, on_progress=options.on_progress
    )
    activated = await activator.activate(modules, packages, allow_missing=options.allow_missing)
    enter(activated)
    return Prepared(
        replace(composed, pins=composed.pins | _pinned(fetcher)),
        options.home,
        options.project,
        modules=activated.paths,
        site_folders=tuple(activated.site_folders),
        package_paths=tuple(activated.package_paths),
        warnings=(*failures, *fetcher.warnings, *activated.warnings),
    )


async def _fetch(
    uses: Sequence[ModuleUse], fetcher: Fetcher, project: Path
) -> tuple[list[tuple[ModuleUse, ModuleFolder]], list[str]]:
    """Return the folders of all modules that can be had, and a line for each that cannot; all at the same time."""
    import asyncio

    from amplifier_foundation.sources.activation import ModuleFolder
    from amplifier_foundation.sources.fetched import SourceError

    results = await asyncio.gather(*(fetcher.fetch(use.source, base=project) for use in uses), return_exceptions=True)
    folders, failures = [], []
    for use, result in zip(uses, results, strict=True):
        if isinstance(result, SourceError):
            failures.append(f"{use.module} ({use.where}): {result}")
        elif isinstance(result, BaseException):
            raise result
        else:
            folders.append((use, ModuleFolder(use.module, result.path, result.is_local)))
    return folders, failures


# -- what the bundle is, and what may be used for it --


def _chosen(options: Options, settings: Settings) -> tuple[str, Namer]:
    """Return the reference of the bundle to run, and on whose word."""
    if options.bundle is not None:
        return options.bundle, "user"
    active = settings.get("bundle.active")
    return (str(active), _namer(settings, "bundle.active")) if active else (DEFAULT, "product")


def _namer(settings: Settings, key: Key) -> Namer:
    """Return on whose word a setting stands: files in the project are the project's, the personal one too."""
    parts = parts_of(key)
    scopes = [scope for scope, document in settings.documents if find(document.data, parts) is not None]
    return "project" if scopes and scopes[-1] in ("project", "local") else "user"


def _namers(settings: Settings, key: str) -> dict[str, Namer]:
    """Return on whose word each entry of a mapping of settings stands."""
    return {name: _namer(settings, (*parts_of(key), name)) for name in settings.get(key) or {}}


def _registry(options: Options, settings: Settings) -> BundleRegistry:
    from amplifier_foundation.bundles.registry import BundleRegistry
    from amplifier_foundation.bundles.shipped import shipped_bundles

    added = settings.get("bundle.added") or {}
    added_by = _namers(settings, "bundle.added")
    return BundleRegistry(options.home, options.project, added, shipped_bundles(), added_by=added_by)


def _fetcher(options: Options, pins: Mapping[str, Pin]) -> Fetcher:
    from amplifier_foundation.sources.fetcher import Fetcher

    return Fetcher(
        options.home,
        offline=options.offline,
        pins=pins,
        locked=options.locked,
        refresh=options.update,
        environ=options.environ,
        on_progress=options.on_progress,
    )


def _check(options: Options) -> TrustCheck:
    return TrustCheck(TrustStore(options.home), options.project, options.trust)


async def _with_app_bundles(bundle: Bundle, loader: BundleLoader, settings: Settings) -> Bundle:
    """Compose the bundles that settings want in every session; the instruction stays the one of the bundle itself."""
    from amplifier_foundation.bundles.composition import compose as compose_bundles

    named_by = _namer(settings, "bundle.app")
    for reference in settings.get("bundle.app") or []:
        added = await loader.load(str(reference), named_by=named_by)
        bundle = replace(
            compose_bundles(bundle, added),
            file=bundle.file,
            name=bundle.name,
            version=bundle.version,
            description=bundle.description,
            uri=bundle.uri,
            base_path=bundle.base_path,
            instruction=bundle.instruction or added.instruction,
            namespaces={**added.namespaces, **bundle.namespaces},
            warnings=(*bundle.warnings, *added.warnings),
        )
    return bundle


def _plan(bundle: Bundle, settings: Settings, options: Options, heard: list[str]) -> dict[str, Any]:
    """Return the mount plan with the definitions of all agents and the settings laid over it."""
    from amplifier_foundation.bundles.agents import resolve_agents
    from amplifier_foundation.settings.plan import apply_settings

    plan = bundle.mount_plan()
    agents = resolve_agents(
        bundle.agents,
        bundle.namespaces,
        bundle.name,
        options.project,
        options.home,
        warnings=heard,
        agent_namespaces=bundle.agent_namespaces,
        layers=bundle.layers,
        allow_missing=options.allow_missing,
    )
    if agents:
        plan["agents"] = agents
    return apply_settings(plan, settings.data)


# -- the lock --


def _known_lock(
    reference: str, registry: BundleRegistry, overrides: Mapping[str, str], options: Options
) -> BundleLock | None:
    """Return the lock that a bundle has from earlier, found before the bundle itself is read."""
    from amplifier_foundation.bundles.loader import locate

    file, uri = locate(reference, registry, options.project, overrides)
    path = find_lock(file, uri, options.home, options.project)
    return BundleLock.read(path) if path is not None else None


def _pins(lock: BundleLock | None, fetcher: Fetcher, uses: Sequence[ModuleUse]) -> dict[str, PinRecord]:
    """Return what is known of the sources that the bundle uses: fetched now, or named by the lock."""
    from amplifier_foundation.sources.uri import without_secrets

    wanted = {without_secrets(use.source) for use in uses}
    known = lock.sources if lock is not None else {}
    locked = {uri: PinRecord(commit=pin.commit, sha256=pin.sha256) for uri, pin in known.items() if uri in wanted}
    return locked | _pinned(fetcher)


def _pinned(fetcher: Fetcher) -> dict[str, PinRecord]:
    from amplifier_foundation.sources.uri import without_secrets

    return {
        without_secrets(uri): PinRecord(commit=fetched.commit, sha256=fetched.sha256)
        for uri, fetched in fetcher.fetched.items()
    }


def _write_lock(composed: Composed) -> list[str]:
    """Write the lock; one that cannot be written costs no session, and is told."""
    pins = {uri: Pin(pin["commit"], pin["sha256"]) for uri, pin in composed.pins.items() if pin["sha256"]}
    try:
        BundleLock(Path(composed.lock), composed.name, pins).write()
    except LockError as error:
        return [f"{error}; what was fetched is not pinned"]
    return []


def _with_shipped_files(recorded: Composed) -> Composed:
    """Return what was recorded with the files of the product where they are now: an update may have moved them."""
    from amplifier_foundation.bundles.shipped import SHIPPED_NAMESPACE

    name, root = SHIPPED_NAMESPACE
    before = recorded.namespaces.get(name)
    return recorded if before is None or before == str(root) else recorded.moved(before, str(root))


def _with_session_settings(recorded: Composed, folder: Path) -> Composed:
    """Return what was recorded with the session's own settings laid over it: they were made for what comes now."""
    from amplifier_foundation.settings.plan import apply_settings
    from amplifier_foundation.settings.scopes import scope_file
    from amplifier_foundation.settings.settings import read_settings_file

    path = scope_file("session", Home(folder), None, folder)
    document = read_settings_file(path)
    return recorded if document is None else replace(recorded, plan=apply_settings(recorded.plan, document.data))


def _instead(saved: SavedSession, current: Composed) -> list[str]:
    """Return what to tell of a session that goes on with another bundle than the recorded one."""
    if saved.recorded is not None:
        return [f"{line}: what is now is used, as asked" for line in differences(saved.recorded, current)]
    told = [f"the session has no record of what it was made of: bundle {current.name!r} is used as it is now"]
    model = saved.metadata.get("model")
    return told + ([f"model: the session used {model}"] if model else [])

"""Prepare a session's parts: compose bundle and settings, ask for trust, fetch, install, lock."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amplifier_core.plan import SESSION_MODULES
from amplifier_foundation.merge import copied
from amplifier_foundation.paths import Home
from amplifier_foundation.plan.composed import Composed
from amplifier_foundation.plan.locks import KnownPins, LockPaths, added_sources, fetched_pins, known_pins, used_pins
from amplifier_foundation.plan.prepared import Prepared
from amplifier_foundation.settings.scopes import Key, find, parts_of
from amplifier_foundation.settings.settings import Settings
from amplifier_foundation.sources.fetched import Pin
from amplifier_foundation.trust.check import PACKAGES, ModuleUse, Refusal, TrustCheck, UntrustedError, ValueUse
from amplifier_foundation.trust.modules import AgentFiles, module_uses, package_uses
from amplifier_foundation.trust.store import TrustStore
from amplifier_foundation.trust.values import bundles_of_user, value_uses
from amplifier_kit.struct import FrozenStruct

if TYPE_CHECKING:
    from amplifier_foundation.bundles.bundle import Bundle, Layer, Namer
    from amplifier_foundation.bundles.loader import BundleLoader
    from amplifier_foundation.bundles.registry import BundleRegistry
    from amplifier_foundation.sources.activation import ModuleFolder
    from amplifier_foundation.sources.fetcher import Fetcher

#: The default bundle of a session.
DEFAULT = "default"
#: Returns the plan that an app would run, given a composed plan and the files it was composed from.
Adjust = Callable[[dict[str, Any], tuple["Layer", ...]], dict[str, Any]]


class Options(FrozenStruct):
    """What an app asks for, and what may be done for it."""

    home: Home
    project: Path
    #: The session that is resumed, whose own settings apply.
    session_folder: Path | None = None
    #: A name, a path or an address; None for the one that settings name, else the default.
    bundle: str | None = None
    #: Use what the lock names and nothing else.
    locked: bool = False
    #: Use no network.
    offline: bool = False
    #: Trust what the project's files name, this once.
    trust: bool = False
    #: Continue without includes and modules that cannot be fetched.
    allow_missing: bool = False
    #: Use the bundle as it is: ignore the settings, agents and module folders of the user and the project.
    bare: bool = False
    #: Bundles of the product that the app adds to every one but a bare one.
    behaviors: tuple[str, ...] = ()
    #: Look for newer states of fetched sources, instead of using those of the lock and the cache.
    update: bool = False
    #: Look for a newer state of this source alone, as it may be shown; the others stay as the lock has them.
    update_source: str | None = None
    #: Settings that the app has loaded for this project and session; None to load them here.
    settings: Settings | None = field(default=None, repr=False)
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    on_progress: Callable[[str], None] | None = None


class Composition(FrozenStruct):
    """A composed bundle with everything that explains it."""

    composed: Composed
    bundle: Bundle
    settings: Settings
    #: Every file that contributed, later ones on top.
    layers: tuple[Layer, ...]
    locks: LockPaths
    #: The sources that no file of the bundle names: settings add them.
    added: frozenset[str]
    #: The fetcher of the bundle, reused for its modules, so that a source used twice has the same state.
    fetcher: Fetcher = field(repr=False)
    refusals: tuple[Refusal, ...] = ()
    warnings: tuple[str, ...] = ()


async def prepare(options: Options, *, given_by_user: bool = True) -> Prepared:
    """Return a session's parts, ready to run, and record in the lock what was fetched for it.

    `given_by_user` says that the bundle of the options is what the user named for this run, and thereby trusts.

    Raises UntrustedError, naming everything that is refused, before any module is fetched; ModuleActivationError with
    every module that cannot be used; SettingsError, BundleError, SourceError and LockError.
    """
    composition = await compose(options, given_by_user=given_by_user)
    if composition.refusals:
        raise UntrustedError(composition.refusals, options.project, options.bundle)
    prepared = await activate(composition.composed, options, composition.fetcher)
    warnings = [*composition.warnings, *prepared.warnings]
    if not options.locked:
        name, pins = prepared.composed.name, prepared.composed.pins
        warnings += composition.locks.write(name, pins, composition.added, keep=options.allow_missing)
    return replace(prepared, warnings=tuple(dict.fromkeys(warnings)), layers=composition.layers)


async def compose(options: Options, *, given_by_user: bool = True) -> Composition:
    """Return the bundle with its includes, the user's settings and all agents; modules are not fetched.

    `given_by_user` as for `prepare`.

    Raises SettingsError, BundleError, SourceError and LockError.
    """
    from amplifier_foundation.bundles.loader import BundleLoader, locate
    from amplifier_foundation.settings.checks import misnamed_overrides
    from amplifier_foundation.settings.plan import apply_settings, settings_layers

    settings = options.settings
    if options.bare:
        settings = Settings()
    elif settings is None:
        settings = Settings.load(options.home, options.project, options.session_folder)
    reference, named_by = _chosen(options, settings)
    registry = _registry(options, settings)
    overrides = settings.get("sources.bundles") or {}
    known = KnownPins()
    if not options.update or options.update_source is not None:
        known = known_pins(*locate(reference, registry, options.project, overrides), options.home, options.project)
    fetcher = make_fetcher(options, _kept_pins(known.pins, options))
    loader = BundleLoader(
        fetcher,
        registry,
        options.home,
        options.project,
        overrides=overrides,
        overridden_by=_namers(settings, "sources.bundles"),
        allow_missing=options.allow_missing,
    )
    is_given = given_by_user and options.bundle is not None
    with _told_where(settings, ("bundle", "active"), reference if options.bundle is None else ""):
        alone = await loader.load(reference, named_by=named_by, given_by_user=is_given)
    heard: list[str] = [*settings.warnings, *_shadowed(reference, alone)]
    bundle, slipped_in = await _with_app_bundles(alone, loader, settings, () if options.bare else options.behaviors)
    bundle, lacking = _with_session(bundle)
    heard += [*registry.warnings, *bundle.warnings, *fetcher.warnings, *lacking]
    agents = AgentFiles({}, {}, loader.is_projects) if options.bare else _agents(bundle, loader, options, heard)
    plan = apply_settings(_with_agents(bundle.mount_plan(), agents), settings.data)
    heard += await misnamed_overrides(settings, plan)
    of_settings = settings_layers(settings, plan)
    layers = (*bundle.layers, *of_settings)
    uses = [] if options.bare else module_uses(plan, layers, settings, agents, *_places(options))
    uses += package_uses(bundle.packages, layers)
    added = added_sources(alone, agents.definitions, {*(use.source for use in uses), *fetcher.fetched})
    values = value_uses(bundle.layers, of_settings, settings, agents, options.project)
    values += [*slipped_in, *known.chosen_by_project(added, options.home)]
    locks = LockPaths.of(bundle, options.home, options.project)
    composed = replace(
        _without_modules(reference, bundle),
        plan=plan,
        modules=tuple(uses),
        pins=used_pins(known, fetcher, uses),
        lock=str(locks.own),
        roots={uri: str(fetched.root) for uri, fetched in loader.sources.items()},
        values=tuple(values),
        texts=_texts(bundle.instruction, plan, layers, agents),
    )
    refusals, warnings = refused(composed, options), tuple(dict.fromkeys(heard))
    return Composition(composed, bundle, settings, layers, locks, frozenset(added), fetcher, refusals, warnings)


def _texts(instruction: str, plan: Mapping[str, Any], layers: Sequence[Layer], agents: AgentFiles) -> dict[str, str]:
    """Return the files that contain the instructions of a bundle and its agents, by the hash of each instruction.

    An instruction that is in none of the files is left out, because its author is unknown.
    """
    from amplifier_foundation.prompt.access import text_hash

    bodies = [layer.document.path for layer in layers if layer.document.body == instruction != ""]
    found = {instruction: bodies[-1]} if bodies else {}
    defined = plan.get("agents")
    for name, definition in defined.items() if isinstance(defined, Mapping) else ():
        text = definition.get("instruction") if isinstance(definition, Mapping) else None
        if not isinstance(text, str) or not text:
            continue
        inline = [layer.document.path for layer in layers if _inline_instruction(layer, name) == text]
        file = inline[-1] if inline else agents.files.get(name)
        read = agents.definitions.get(name, {}).get("instruction")
        if file is not None and (inline or read == text):
            found[text] = file
    return {text_hash(text): os.path.realpath(file) for text, file in found.items()}


def _inline_instruction(layer: Layer, name: str) -> Any:
    """Return the instruction that a file itself gives an agent, None when it gives none."""
    agents = layer.document.data.get("agents")
    agent = agents.get(name) if isinstance(agents, Mapping) else None
    return agent.get("instruction") if isinstance(agent, Mapping) else None


def _places(options: Options) -> tuple[Path, Home, Mapping[str, str]]:
    """Return where folders of modules may be that override the sources in a plan."""
    return options.project, options.home, options.environ


def _without_modules(reference: str, bundle: Bundle) -> Composed:
    """Return a composed bundle without its modules."""
    from amplifier_foundation.bundles.loader import is_path
    from amplifier_foundation.bundles.shipped import shipped_uri

    return Composed(
        reference=str(bundle.file) if is_path(reference) else reference,
        name=bundle.name,
        version=bundle.version,
        uri=shipped_uri(bundle.uri),
        plan={},
        instruction=bundle.instruction,
        context={name: str(path) for name, path in bundle.context.items()},
        namespaces={name: str(path) for name, path in bundle.namespaces.items()},
    )


def refused(composed: Composed, options: Options) -> tuple[Refusal, ...]:
    """Return everything in it that only a trusted project may have, unless this one is trusted."""
    check = TrustCheck(TrustStore(options.home), options.project, options.trust)
    return check.refuse(composed.modules, composed.values)


async def activate(
    composed: Composed, options: Options, fetcher: Fetcher | None = None, *, install: bool = True
) -> Prepared:
    """Fetch the modules and install what they need, all at once; the result has the paths of everything.

    Without a `fetcher` the pins of `composed` are used; without `install` the modules run with what is there. Raises
    ModuleActivationError with every module that cannot be used; with `allow_missing` they are warnings, except for
    content that differs from what a lock says.
    """
    if not composed.modules:
        return Prepared(composed, options.home, options.project)
    from amplifier_foundation.sources.activation import Activated, Activator, ModuleActivationError, enter

    fetcher = fetcher or make_fetcher(options, recorded_pins(composed))
    folders, failures, is_unsafe = await _fetch(composed.modules, fetcher, options.project)
    if failures and (is_unsafe or not options.allow_missing):
        raise ModuleActivationError(failures)
    modules = [folder for use, folder in folders if use.section != PACKAGES]
    packages = [folder.path for use, folder in folders if use.section == PACKAGES]
    activator = Activator(
        options.home, offline=options.offline, environ=options.environ, on_progress=options.on_progress
    )
    activated = await activator.activate(modules, packages, allow_missing=options.allow_missing, install=install)
    # What these hold is imported once for the whole process; folders of modules are a session's own.
    enter(Activated(site_folders=activated.site_folders))
    return Prepared(
        replace(composed, pins=composed.pins | fetched_pins(fetcher)),
        options.home,
        options.project,
        modules=activated.paths,
        site_folders=tuple(activated.site_folders),
        package_paths=tuple(activated.package_paths),
        warnings=(*failures, *fetcher.warnings, *activated.warnings),
    )


async def _fetch(
    uses: Sequence[ModuleUse], fetcher: Fetcher, project: Path
) -> tuple[list[tuple[ModuleUse, ModuleFolder]], list[str], bool]:
    """Return the folders of all usable modules, a line for each other one, and whether a lock forbids one.

    All are fetched at the same time.
    """
    import asyncio

    from amplifier_foundation.sources.activation import ModuleFolder
    from amplifier_foundation.sources.fetched import NotLockedError, SourceError, SourceIntegrityError

    results = await asyncio.gather(*(fetcher.fetch(use.source, base=project) for use in uses), return_exceptions=True)
    folders, failures = [], []
    is_unsafe = any(isinstance(result, NotLockedError | SourceIntegrityError) for result in results)
    for use, result in zip(uses, results, strict=True):
        if isinstance(result, SourceError):
            failures.append(f"{use.module} ({use.where}): {result}")
        elif isinstance(result, BaseException):
            raise result
        else:
            folders.append((use, ModuleFolder(use.module, result.path, result.is_local)))
    return folders, failures, is_unsafe


# -- what the bundle is, and what may be used for it --


def _chosen(options: Options, settings: Settings) -> tuple[str, Namer]:
    """Return the reference of the bundle to run, and who named it."""
    if options.bundle is not None:
        return options.bundle, "user"
    active = settings.get("bundle.active")
    return (str(active), _namer(settings, "bundle.active")) if active else (DEFAULT, "product")


def _namer(settings: Settings, key: Key) -> Namer:
    """Return who set a setting: files in the project count as the project's, the personal one too."""
    parts = parts_of(key)
    scopes = [scope for scope, document in settings.documents if find(document.data, parts) is not None]
    return "project" if scopes and scopes[-1] in ("project", "local") else "user"


def _namers(settings: Settings, key: str) -> dict[str, Namer]:
    """Return who set each entry of a mapping of settings."""
    return {name: _namer(settings, (*parts_of(key), name)) for name in settings.get(key) or {}}


def _kept_pins(pins: Mapping[str, Pin], options: Options) -> Mapping[str, Pin]:
    """Return the pins that hold: without the one of the source that is updated."""
    if not options.update or options.update_source is None:
        return pins
    from amplifier_foundation.sources.uri import without_secrets

    return {uri: pin for uri, pin in pins.items() if without_secrets(uri) != options.update_source}


def _registry(options: Options, settings: Settings) -> BundleRegistry:
    from amplifier_foundation.bundles.registry import BundleRegistry
    from amplifier_foundation.bundles.shipped import shipped_bundles

    added = settings.get("bundle.added") or {}
    added_by = _namers(settings, "bundle.added")
    return BundleRegistry(options.home, options.project, added, shipped_bundles(), added_by=added_by)


def make_fetcher(options: Options, pins: Mapping[str, Pin]) -> Fetcher:
    """Return a fetcher with these options."""
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


def recorded_pins(composed: Composed) -> dict[str, Pin]:
    """Return the states that sources had."""
    return {uri: Pin(pin["commit"], pin["sha256"]) for uri, pin in composed.pins.items() if pin["sha256"]}


def _shadowed(reference: str, bundle: Bundle) -> list[str]:
    """Return a warning if a project's bundle is used instead of the product's bundle of that name."""
    from amplifier_foundation.bundles.shipped import shipped_bundles

    shipped = shipped_bundles().get(reference)
    if shipped is None or bundle.file == shipped or bundle.layers[-1].owner != "project":
        return []
    return [
        f"bundle {reference!r} is the project's own, {bundle.file}, in place of the one that comes with the program"
    ]


async def _with_app_bundles(
    bundle: Bundle, loader: BundleLoader, settings: Settings, behaviors: Sequence[str]
) -> tuple[Bundle, list[ValueUse]]:
    """Compose the bundles that the app and the settings want; the instruction stays the one of the bundle itself.

    Also return the values with which the project replaced the user's.
    """
    from amplifier_foundation.bundles.composition import compose as compose_bundles

    named_by, mine = _namer(settings, "bundle.app"), bundles_of_user(settings)
    slipped_in: list[ValueUse] = []
    for reference in behaviors:
        bundle = compose_bundles(bundle, await loader.load(reference, named_by="product"), as_behavior=True)
    for index, reference in enumerate(settings.get("bundle.app") or []):
        with _told_where(settings, ("bundle", "app", index), str(reference)):
            added = await loader.load(str(reference), named_by="user" if str(reference) in mine else named_by)
        if str(reference) in mine and added.layers[-1].named_by == "project":
            slipped_in.append(ValueUse("guard", f"bundle {reference!r}", str(added.file)))
        bundle = compose_bundles(bundle, added, as_behavior=True)
    return bundle, slipped_in


def _with_session(bundle: Bundle) -> tuple[Bundle, list[str]]:
    """Return the bundle with the loop and the context of the default bundle where it names none, and a note of each."""
    lacking = [key for key in SESSION_MODULES if not bundle.session.get(key)]
    if not lacking:
        return bundle, []
    from amplifier_foundation.bundles.shipped import shipped_bundles
    from amplifier_foundation.documents import read_document

    defaults = read_document(shipped_bundles()[DEFAULT]).data["session"]
    session = {**bundle.session, **{key: copied(defaults[key]) for key in lacking}}
    named = [f"session.{key}: not set in bundle {bundle.name!r}: {defaults[key]['module']} is used" for key in lacking]
    return replace(bundle, session=session), named


@contextmanager
def _told_where(settings: Settings, at: tuple[str | int, ...], reference: str) -> Iterator[None]:
    """Add file and line of the setting that names a bundle to the error that it cannot be loaded."""
    from amplifier_foundation.bundles.bundle import BundleNotFoundError
    from amplifier_foundation.sources.fetched import SourceError

    try:
        yield
    except (BundleNotFoundError, SourceError) as error:
        key = tuple(part for part in at if isinstance(part, str))
        naming = [document for _, document in settings.documents if find(document.data, key) is not None]
        if not reference or not naming:
            raise
        raise type(error)(f"{naming[-1].where(*at)}: the bundle {reference!r} cannot be used: {error}") from error


def _with_agents(plan: dict[str, Any], agents: AgentFiles) -> dict[str, Any]:
    return {**plan, "agents": agents.definitions} if agents.definitions else plan


def _agents(bundle: Bundle, loader: BundleLoader, options: Options, heard: list[str]) -> AgentFiles:
    """Return the definitions of all agents."""
    from amplifier_foundation.bundles.agents import resolve_agents

    files: dict[str, Path] = {}
    definitions = resolve_agents(
        bundle.agents,
        bundle.namespaces,
        bundle.name,
        options.project,
        options.home,
        warnings=heard,
        agent_namespaces=bundle.agent_namespaces,
        layers=bundle.layers,
        allow_missing=options.allow_missing,
        files=files,
        keep_faulty=True,  # the others are still usable
    )
    return AgentFiles(definitions, files, loader.is_projects)

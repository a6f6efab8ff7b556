"""Configured providers: in the plan that a run would have, and in settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from amplifier_app_cli.providers.choice import ProviderChoiceError
from amplifier_kit.named_tuple import NamedTuple

if TYPE_CHECKING:
    from amplifier_app_cli.app import App
    from amplifier_app_cli.providers.choice import Choice
    from amplifier_app_cli.settings_editor import SettingsEditor
    from amplifier_foundation.plan.prepare import Composition, Options
    from amplifier_foundation.settings.scopes import Scope


class ProviderPlan(NamedTuple):
    """The plan of a run that names no bundle, and an environment with the user's keys in it."""

    plan: dict[str, Any]
    environ: dict[str, str]
    #: None when the bundle cannot be composed: then the plan is what settings alone give.
    composition: Composition | None
    #: What the user should know.
    warnings: tuple[str, ...] = ()

    def choose(self, app: App, explicit: str | None = None) -> Choice:
        """Return the provider that a run would use, or the requested one; raises ProviderChoiceError."""
        from amplifier_app_cli.providers.choice import choose, stands_in

        stand_in = self.composition is None or stands_in(self.composition.layers)
        return choose(self.plan, app.settings, self.environ, explicit=explicit, stand_in=stand_in)


def options_of(app: App, environ: dict[str, str], *, offline: bool) -> Options:
    """Return what this run may do to get at the bundle."""
    from amplifier_foundation.plan.prepare import Options

    on_progress = None if offline else app.inform
    return Options(
        app.home, app.project, environ=environ, offline=offline, settings=app.settings, on_progress=on_progress
    )


def environ_with_keys(app: App) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the environment with the user's keys, and what is wrong with them; raises KeysError."""
    environ = dict(app.environ)
    store = app.key_store()
    store.apply(environ)
    return environ, tuple(store.warnings)


def provider_plan(app: App) -> ProviderPlan:
    """Compose the bundle of this project without using the network; raises SettingsError and KeysError.

    A bundle that cannot be composed is reported as a warning; the settings can still be shown.
    """
    import asyncio

    from amplifier_foundation.errors import FoundationError
    from amplifier_foundation.plan.prepare import compose
    from amplifier_foundation.settings.plan import apply_settings

    environ, warnings = environ_with_keys(app)
    settings = app.settings
    try:
        composition = asyncio.run(compose(options_of(app, environ, offline=True)))
    except FoundationError as error:
        return ProviderPlan(apply_settings({}, settings.data), environ, None, (*warnings, str(error)))
    return ProviderPlan(composition.composed.plan, environ, composition, warnings)


class ModuleMissingError(ProviderChoiceError):
    """A provider cannot be configured, because its module is missing: every run would fail."""

    code = "provider_missing"


@dataclass(frozen=True)
class ProviderEntry:
    """A provider in settings."""

    #: Its id, else its module.
    name: str
    module: str
    source: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)


def settings_entry(app: App, name: str, scope: str | None = None) -> tuple[Scope, dict[str, Any]] | None:
    """Return the strongest scope that configures a provider of exactly that name, and its entry there."""
    from amplifier_app_cli.settings_editor import PROVIDER, SettingsEditor

    places = SettingsEditor(app).places(PROVIDER.at({"name": name}))
    return next(((place.scope, place.value) for place in reversed(places) if scope in (None, place.scope)), None)


def write_entry(editor: SettingsEditor, entry: ProviderEntry) -> bool:
    """Add an entry to the settings, or change the one of that name; return whether anything has changed.

    Keys that the entry does not name stay as they are. Raises SettingsError.
    """
    from amplifier_app_cli.settings_editor import PROVIDER

    key = PROVIDER.at({"name": entry.name})
    known = settings_entry(editor.app, entry.name, editor.scope or "user")
    if known is None:
        return editor.set(key, _whole(entry)).changed
    config = known[1].get("config") or {}
    is_changed = False
    for name, value in entry.config.items():
        if config.get(name) != value:
            is_changed |= editor.set((*key, "config", name), value).changed
    if entry.source is not None and known[1].get("source") != entry.source:
        is_changed |= editor.set((*key, "source"), entry.source).changed
    return is_changed


def require_module(app: App, module: str, source: str | None) -> None:
    """Raise ModuleMissingError unless the module is installed, in a folder of modules, or has a source."""
    from amplifier_app_cli.providers.known import how_to_get, is_installed
    from amplifier_foundation.sources.module_resolver import find_module_folder

    named = app.settings.get(("sources", "modules", module)) or app.settings.get(("overrides", module, "source"))
    placed = find_module_folder(module, app.project, app.home, app.environ)
    if not (source or named or placed or is_installed(module)):
        raise ModuleMissingError(how_to_get(module))


def _whole(entry: ProviderEntry) -> dict[str, Any]:
    whole: dict[str, Any] = {"module": entry.module}
    if entry.name != entry.module:
        whole["id"] = entry.name
    if entry.source:
        whole["source"] = entry.source
    if entry.config:
        whole["config"] = dict(entry.config)
    return whole

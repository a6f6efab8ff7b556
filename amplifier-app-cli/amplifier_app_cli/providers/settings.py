"""The configuration of a provider in settings, for `provider add`, `provider edit` and `init`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from amplifier_app_cli.providers.choice import ProviderChoiceError

if TYPE_CHECKING:
    from amplifier_app_cli.app import App
    from amplifier_app_cli.settings_editor import SettingsEditor
    from amplifier_foundation.settings.scopes import Scope


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

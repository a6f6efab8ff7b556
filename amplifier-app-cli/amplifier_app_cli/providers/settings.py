"""Write the configuration of a provider into settings: `provider add`, `provider edit` and `init` do it here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from amplifier_app_cli.providers.choice import ProviderChoiceError

if TYPE_CHECKING:
    from amplifier_app_cli.app import App
    from amplifier_app_cli.scope_options import ScopeChoice
    from amplifier_foundation.settings import KeyStore
    from amplifier_foundation.settings.edit import Edit

_PLACE: Final = ("config", "providers")


class ModuleMissingError(ProviderChoiceError):
    """A provider cannot be configured, because its module is not there: every run would fail."""

    code = "provider_missing"


@dataclass(frozen=True)
class ProviderEntry:
    """What settings say about a provider."""

    #: Its id, else its module.
    name: str
    module: str
    source: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)


def settings_entry(app: App, name: str, scope: str | None = None) -> tuple[str, dict[str, Any]] | None:
    """Return the strongest scope that configures a provider of exactly that name, and what it says there."""
    from amplifier_foundation.settings.scopes import find

    for found, document in reversed(app.settings.documents):
        entry = find(document.data, (*_PLACE, name))
        if entry is not None and scope in (None, found):
            return found, entry
    return None


def write_entry(app: App, where: ScopeChoice, entry: ProviderEntry) -> bool:
    """Put an entry into the settings, or change the one of that name; tell whether anything is different now.

    Keys that the entry does not name stay as they are. Raises SettingsError.
    """
    from amplifier_app_cli.scope_options import change_settings

    scope = where.scope or "user"
    known = settings_entry(app, entry.name, scope)
    changes: list[tuple[tuple[str, ...], Any]] = []
    if known is None:
        changes.append(((), _whole(entry)))
    else:
        config = known[1].get("config") or {}
        changes += [(("config", key), value) for key, value in entry.config.items() if config.get(key) != value]
        if entry.source is not None and known[1].get("source") != entry.source:
            changes.append((("source",), entry.source))

    is_changed = False
    for inner, value in changes:
        place = (*_PLACE, entry.name, *inner)
        is_changed |= change_settings(app, where, _setting(place, value)).changed
    return is_changed


def _setting(place: tuple[str, ...], value: Any) -> Callable[[Path, KeyStore], Edit]:
    """Return the change of a settings file that sets one value."""
    from amplifier_foundation.settings.edit import set_value

    return lambda file, keys: set_value(file, place, value, keys)


def require_module(app: App, module: str, source: str | None) -> None:
    """Raise ModuleMissingError unless the module of a provider can be loaded: installed, put in place, or sourced."""
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

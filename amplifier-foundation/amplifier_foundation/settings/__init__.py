"""Settings of four scopes, API keys, and the variables in both. Names are loaded when they are first used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

_HOMES = {
    name: home
    for home, names in {
        "edit": "Edit Moved append_value remove_item set_value unset_value",
        "keys": "KeyEntry KeyStore KeysError",
        "plan": "apply_settings expand_plan override_origin settings_layers",
        "scopes": "SCOPES Scope SettingsError parse_scope scope_file",
        "settings": "LostValue SettingOrigin Settings",
        "variables": "Expanded MissingVariable expand",
    }.items()
    for name in names.split()
}

__all__ = list(_HOMES)

if TYPE_CHECKING:
    from amplifier_foundation.settings.edit import Edit as Edit
    from amplifier_foundation.settings.edit import Moved as Moved
    from amplifier_foundation.settings.edit import append_value as append_value
    from amplifier_foundation.settings.edit import remove_item as remove_item
    from amplifier_foundation.settings.edit import set_value as set_value
    from amplifier_foundation.settings.edit import unset_value as unset_value
    from amplifier_foundation.settings.keys import KeyEntry as KeyEntry
    from amplifier_foundation.settings.keys import KeysError as KeysError
    from amplifier_foundation.settings.keys import KeyStore as KeyStore
    from amplifier_foundation.settings.plan import apply_settings as apply_settings
    from amplifier_foundation.settings.plan import expand_plan as expand_plan
    from amplifier_foundation.settings.plan import override_origin as override_origin
    from amplifier_foundation.settings.plan import settings_layers as settings_layers
    from amplifier_foundation.settings.scopes import SCOPES as SCOPES
    from amplifier_foundation.settings.scopes import Scope as Scope
    from amplifier_foundation.settings.scopes import SettingsError as SettingsError
    from amplifier_foundation.settings.scopes import parse_scope as parse_scope
    from amplifier_foundation.settings.scopes import scope_file as scope_file
    from amplifier_foundation.settings.settings import LostValue as LostValue
    from amplifier_foundation.settings.settings import SettingOrigin as SettingOrigin
    from amplifier_foundation.settings.settings import Settings as Settings
    from amplifier_foundation.settings.variables import Expanded as Expanded
    from amplifier_foundation.settings.variables import MissingVariable as MissingVariable
    from amplifier_foundation.settings.variables import expand as expand


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)

"""Check what settings files may say: a slip of the pen is an error with a hint, not a setting that does nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from amplifier_foundation.errors import did_you_mean
from amplifier_foundation.merge import module_key
from amplifier_foundation.settings.errors import SettingsError

#: Gives `file:line` of the entry that keys lead to.
Where = Callable[..., str]
#: Looks at one value; `at` are the keys that lead to it.
Check = Callable[[Any, tuple[str | int, ...], Where], None]

#: Sections of other programs of this family, and of `routing.py`: kept as they are, whatever they hold.
KEPT: Final = ("routing", "configurator", "updates")
#: Lists of modules that plans have no place for; kept and warned of.
_UNUSED_MODULES: Final = ("orchestrators", "contexts", "agents")


def check_settings(data: Mapping[str, Any], where: Where) -> tuple[dict[str, Any], list[str]]:
    """Return the settings without sections that were left empty, and warnings.

    Raises SettingsError, naming file and line, for a key there is not and for a value of the wrong kind. An empty
    section is one whose keys are all commented out: it takes nothing away from weaker scopes.
    """
    checks: dict[str, Check] = {
        "bundle": _fields(active=_text_or_null, app=_list_of(_text), added=_mapping_of(_text)),
        "config": _fields(providers=_list_of(_module_entry), notifications=_anything),
        "modules": _fields(
            providers=_list_of(_module_entry),
            tools=_list_of(_module_entry),
            hooks=_list_of(_module_entry),
            **dict.fromkeys(_UNUSED_MODULES, _anything),
        ),
        "overrides": _mapping_of(_fields(source=_text, config=_mapping_of(_anything))),
        "sources": _fields(modules=_mapping_of(_text), bundles=_mapping_of(_text)),
        **dict.fromkeys(KEPT, _anything),
    }
    _fields(**checks)(data, (), where)
    return _without_empty_sections(data), _unused(data, where)


def _without_empty_sections(data: Mapping[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for name, section in data.items():
        if isinstance(section, Mapping) and name not in KEPT:
            section = _without_empty(section, but="active")
            if name == "overrides":
                section = {module: _without_empty(override) for module, override in section.items()}
            elif name in ("config", "modules"):
                section = {key: _without_empty_fields(entries) for key, entries in section.items()}
        if section is not None:
            kept[name] = section
    return kept


def _without_empty_fields(entries: Any) -> Any:
    """Return module entries without fields that were left empty; anything else as it is."""
    if not isinstance(entries, list):
        return entries
    return [_without_empty(entry) if isinstance(entry, Mapping) else entry for entry in entries]


def _without_empty(mapping: Mapping[str, Any], but: str | None = None) -> dict[str, Any]:
    return {key: value for key, value in mapping.items() if value is not None or key == but}


def _unused(data: Mapping[str, Any], where: Where) -> list[str]:
    return [
        f"{where('modules', name)}: `modules.{name}` is kept but not used: name such modules in a bundle"
        for name in _UNUSED_MODULES
        if (data.get("modules") or {}).get(name)
    ]


def _fields(**checks: Check) -> Check:
    """Return a check for a mapping that may have these keys only."""

    def check(value: Any, at: tuple[str | int, ...], where: Where) -> None:
        if value is None:
            return
        _need(isinstance(value, Mapping), "a mapping", value, at, where)
        for key, item in value.items():
            if key not in checks:
                hint = did_you_mean(key, list(checks))
                raise SettingsError(f"{where(*at, key)}: unknown key {_dotted((*at, key))!r}: {hint}")
            if item is not None:
                checks[key](item, (*at, key), where)

    return check


def _mapping_of(each: Check) -> Check:
    def check(value: Any, at: tuple[str | int, ...], where: Where) -> None:
        _need(isinstance(value, Mapping), "a mapping", value, at, where)
        for key, item in value.items():
            if not isinstance(key, str):
                raise SettingsError(
                    f"{where(*at, key)}: the key {key!r} in `{_dotted(at)}` must be text, got {_kind(key)}: "
                    "put it in quotes"
                )
            each(item, (*at, key), where)

    return check


def _list_of(each: Check) -> Check:
    def check(value: Any, at: tuple[str | int, ...], where: Where) -> None:
        _need(isinstance(value, list), "a list", value, at, where)
        for index, item in enumerate(value):
            each(item, (*at, index), where)

    return check


def _module_entry(value: Any, at: tuple[str | int, ...], where: Where) -> None:
    _need(isinstance(value, Mapping), "a mapping with `module`", value, at, where)
    _fields(module=_text, id=_text, instance_id=_text, source=_text, config=_mapping_of(_anything))(value, at, where)
    if module_key(value) is None:
        raise SettingsError(f"{where(*at)}: the entry `{_dotted(at)}` has neither `module` nor `id`: say which module")


def _text(value: Any, at: tuple[str | int, ...], where: Where) -> None:
    _need(isinstance(value, str) and bool(value.strip()), "text", value, at, where)


def _text_or_null(value: Any, at: tuple[str | int, ...], where: Where) -> None:
    if value is not None:
        _text(value, at, where)


def _anything(value: Any, at: tuple[str | int, ...], where: Where) -> None:
    """Accept whatever it is: it is checked by the module that it is for."""


def _need(holds: bool, wanted: str, value: Any, at: tuple[str | int, ...], where: Where) -> None:
    """Raise SettingsError unless it holds; the value itself is not shown, for it may be a secret in the wrong place."""
    if not holds:
        place = f"`{_dotted(at)}`" if at else "the file"
        raise SettingsError(f"{where(*at)}: {place} must be {wanted}, got {_kind(value)}")


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, str) and not value.strip():
        return "empty text"
    names = {str: "text", bool: "true or false", int: "a number", float: "a number", list: "a list", dict: "a mapping"}
    return names.get(type(value), type(value).__name__)


def _dotted(at: tuple[Any, ...]) -> str:
    return ".".join(str(key) for key in at)

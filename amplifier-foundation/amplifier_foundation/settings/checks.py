"""Check settings: a mistyped key is an error with a hint, not a setting that does nothing.

A table of checks and not pydantic models: commands that only read settings would import pydantic and build the models,
which takes longer than all the rest of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from amplifier_foundation.errors import did_you_mean
from amplifier_foundation.merge import module_key
from amplifier_foundation.settings.scopes import SettingsError

if TYPE_CHECKING:
    from amplifier_foundation.settings.settings import Settings

#: Returns `file:line` of the entry that keys lead to.
Where = Callable[..., str]
#: Checks one value; `at` are the keys that lead to it.
Check = Callable[[Any, tuple[str | int, ...], Where], None]

#: Sections that are kept as they are and not checked: the published program writes them.
KEPT: Final = ("routing", "configurator", "updates")
#: Lists of modules that plans have no place for; kept, with a warning.
_UNUSED_MODULES: Final = ("orchestrators", "contexts", "agents")
#: How similar a name must be to count as mistyped: modules of other bundles have other names.
_NEAR: Final = 0.75


def check_settings(data: Mapping[str, Any], where: Where) -> tuple[dict[str, Any], list[str]]:
    """Return the settings without empty sections, and warnings.

    Raises SettingsError, naming file and line, for an unknown key and for a value of the wrong kind. An empty section
    is one whose keys are all commented out: it takes nothing away from weaker scopes.
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
    """Return module entries without their empty fields; anything else as it is."""
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
    """Return a check for a mapping with these keys and no others."""

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
    """Accept any value: the module that it is for checks it."""


def _need(holds: bool, wanted: str, value: Any, at: tuple[str | int, ...], where: Where) -> None:
    """Raise SettingsError unless it holds; the value is not shown, for it may be a secret in the wrong place."""
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


# -- overrides of modules that do not exist --


async def misnamed_overrides(settings: Settings, plan: Mapping[str, Any]) -> list[str]:
    """Return a warning, with `file:line`, for every entry of `overrides` that does nothing and looks mistyped.

    An override of a module that this plan does not have may be meant for another bundle: it counts as mistyped only
    when no installed module has that name, settings name no source for it, and its name is similar to a known one, or
    is that name without its kind (`bash` for `tool-bash`).
    """
    from amplifier_foundation.bundles.plan_modules import all_modules

    overrides = settings.get("overrides") or {}
    sources = (settings.get("sources.modules") or {}).keys()
    known = {*(one.module for one in all_modules(plan)), *sources}
    unknown = [name for name, value in overrides.items() if name not in known and not _has_source(value)]
    if not unknown:
        return []
    from amplifier_core import ModuleLoader

    known |= {module.id for module in await ModuleLoader().discover()}
    meant = {name: near for name in unknown if name not in known and (near := _nearest(name, sorted(known)))}
    return [
        f"{_where(settings, name)}: overrides.{name} does nothing: no module has that name; did you mean {near!r}?"
        for name, near in meant.items()
    ]


def _nearest(name: str, known: Iterable[str]) -> str | None:
    import difflib

    names = list(known)
    short = next((module for module in names if module.partition("-")[2] == name), None)
    return short or next(iter(difflib.get_close_matches(name, names, n=1, cutoff=_NEAR)), None)


def _where(settings: Settings, name: str) -> str:
    """Return `file:line` of the strongest scope that has the override."""
    for _, document in reversed(settings.documents):
        overrides = document.data.get("overrides")
        if isinstance(overrides, Mapping) and name in overrides:
            return document.where("overrides", name)
    return "settings"


def _has_source(override: Any) -> bool:
    return isinstance(override, Mapping) and bool(override.get("source"))

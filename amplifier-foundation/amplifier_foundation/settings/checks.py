"""Check settings: a mistyped key is an error with a hint, not a setting that does nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from amplifier_foundation.merge import module_key
from amplifier_foundation.settings.scopes import SettingsError
from amplifier_foundation.shapes import Keys, Problems, anything, dotted, fields, filled_text, list_of, mapping_of

if TYPE_CHECKING:
    from amplifier_foundation.settings.settings import Settings

#: Sections that are kept as they are and not checked: the published program writes them.
KEPT: Final = ("routing", "configurator", "updates")
#: Lists of modules that plans have no place for; kept, with a warning.
_UNUSED_MODULES: Final = ("orchestrators", "contexts", "agents")
#: How similar a name must be to count as mistyped: modules of other bundles have other names.
_NEAR: Final = 0.75


def check_settings(data: Mapping[str, Any], where: Callable[..., str]) -> tuple[dict[str, Any], list[str]]:
    """Return the settings without empty sections, and warnings.

    Raises SettingsError, with file and line of each unknown key and each value of the wrong kind. An empty section
    is one whose keys are all commented out: it takes nothing away from weaker scopes.
    """
    problems = Problems(where)
    _SETTINGS(data, (), problems)
    if problems.faults:
        raise SettingsError("\n".join(problems.faults))
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


def _unused(data: Mapping[str, Any], where: Callable[..., str]) -> list[str]:
    return [
        f"{where('modules', name)}: `modules.{name}` is kept but not used: name such modules in a bundle"
        for name in _UNUSED_MODULES
        if (data.get("modules") or {}).get(name)
    ]


def _module_entry(value: Any, at: Keys, problems: Problems) -> None:
    if not problems.expect(isinstance(value, Mapping), "a mapping with `module`", value, at):
        return
    _MODULE_FIELDS(value, at, problems)
    if module_key(value) is None:
        problems.fault(at, f"the entry '{dotted(at)}' has neither `module` nor `id`: say which module")


_MODULE_FIELDS: Final = fields(
    {**dict.fromkeys(("module", "id", "instance_id", "source"), filled_text), "config": mapping_of(anything)}
)
_OVERRIDE: Final = fields({"source": filled_text, "config": mapping_of(anything)})
_MODULES: Final = list_of(_module_entry)
_SETTINGS: Final = fields(
    {
        "bundle": fields({"active": filled_text, "app": list_of(filled_text), "added": mapping_of(filled_text)}),
        "config": fields({"providers": _MODULES, "notifications": anything}),
        "modules": fields(
            {**dict.fromkeys(("providers", "tools", "hooks"), _MODULES), **dict.fromkeys(_UNUSED_MODULES, anything)}
        ),
        "overrides": mapping_of(_OVERRIDE),
        "permissions": fields({"mode": filled_text}),
        "sources": fields({"modules": mapping_of(filled_text), "bundles": mapping_of(filled_text)}),
        **dict.fromkeys(KEPT, anything),
    }
)


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

"""Find settings that are about no module, because its name is mistyped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from amplifier_foundation.bundles.plan_modules import all_modules
from amplifier_foundation.settings.settings import Settings

#: How near a name must be to count as a slip: modules of other bundles have names of their own.
_NEAR: Final = 0.75


async def misnamed_overrides(settings: Settings, plan: Mapping[str, Any]) -> list[str]:
    """Return a warning, with `file:line`, for every entry of `overrides` that does nothing and looks like a slip.

    One about a module that this plan does not have may be meant for another bundle: it counts as a slip only when no
    installed module is called so, settings name no source for it, and its name is nearly that of a known one, or that
    name without its kind (`bash` for `tool-bash`).
    """
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
        f"{_where(settings, name)}: overrides.{name} does nothing: no module is called so; did you mean {near!r}?"
        for name, near in meant.items()
    ]


def _nearest(name: str, known: Iterable[str]) -> str | None:
    import difflib

    names = list(known)
    short = next((module for module in names if module.partition("-")[2] == name), None)
    return short or next(iter(difflib.get_close_matches(name, names, n=1, cutoff=_NEAR)), None)


def _where(settings: Settings, name: str) -> str:
    """Return the line that counts most."""
    for _, document in reversed(settings.documents):
        overrides = document.data.get("overrides")
        if isinstance(overrides, Mapping) and name in overrides:
            return document.where("overrides", name)
    return "settings"


def _has_source(override: Any) -> bool:
    return isinstance(override, Mapping) and bool(override.get("source"))

"""Read a mount plan: which modules it names, in which order they are mounted, and whether its outline is right.

`plan_modules()` is the one walk over "the modules of a plan"; sessions, apps and tools use it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

__all__ = [
    "MODULE_SECTIONS",
    "SESSION_MODULES",
    "TYPE_TO_MOUNT_POINT",
    "PlannedModule",
    "check_instances",
    "check_outline",
    "check_shape",
    "plan_modules",
    "session_module",
]

#: The kinds of modules, and where each is mounted.
TYPE_TO_MOUNT_POINT: dict[str, str] = {
    "orchestrator": "orchestrator",
    "provider": "providers",
    "tool": "tools",
    "hook": "hooks",
    "context": "context",
    "resolver": "module-source-resolver",
}
#: The kinds that a plan names once, in its session section, in the order they are mounted. The defaults are those of
#: the published kernel: plans that name neither rely on them.
SESSION_MODULES: Final = {"orchestrator": "loop-basic", "context": "context-simple"}
#: The sections of a plan that list modules, in the order they are mounted, and the kind that each lists.
MODULE_SECTIONS: Final = {"providers": "provider", "tools": "tool", "hooks": "hook"}
#: What the fields of a module's entry are called in errors, and their types.
_FIELDS: Final[dict[str, tuple[str, type, str]]] = {
    "module": ("Module path", str, "a string"),
    "source": ("Source", str, "a string"),
    "config": ("Config", dict, "a dict"),
}


class PlannedModule(NamedTuple):
    """A module as a plan names it."""

    kind: str
    #: The section that names it: `session`, `providers`, `tools` or `hooks`.
    section: str
    #: Its place in the plan: `session.context`, `tools[2]`.
    path: str
    entry: dict[str, Any]

    @property
    def module_id(self) -> str:
        return str(self.entry["module"])


def plan_modules(plan: Mapping[str, Any]) -> Iterator[PlannedModule]:
    """Yield the modules that a plan names, in the order they are mounted.

    Entries that are invalid or name no module are left out: `check_shape` reports them.
    """
    session = plan.get("session")
    for kind in SESSION_MODULES:
        spec = session.get(kind) if isinstance(session, dict) else None
        if spec and isinstance(spec, (str, dict)):
            yield PlannedModule(kind, "session", f"session.{kind}", session_module(plan, kind))
    for section, kind in MODULE_SECTIONS.items():
        entries = plan.get(section)
        for index, entry in enumerate(entries if isinstance(entries, (list, tuple)) else ()):
            if isinstance(entry, dict) and isinstance(entry.get("module"), str) and entry["module"]:
                yield PlannedModule(kind, section, f"{section}[{index}]", entry)


def session_module(plan: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Return the entry of the orchestrator or the context, in the form of the entries of other modules.

    A plan may also give the id alone; source and config then stand elsewhere in it.
    """
    session = plan.get("session") or {}
    spec = session.get(kind)
    if isinstance(spec, dict):
        return {**spec, "module": spec.get("module") or SESSION_MODULES[kind]}
    own = plan.get(kind)
    config = own.get("config") if isinstance(own, dict) else None
    return {"module": spec or SESSION_MODULES[kind], "source": session.get(f"{kind}_source"), "config": config}


def check_outline(plan: Any) -> None:
    """Raise TypeError or ValueError for a plan without a session section, orchestrator or context."""
    if plan is not None and not isinstance(plan, dict):
        raise TypeError(f"Configuration must be a dict (a mount plan), got {type(plan).__name__}")
    if not plan:
        raise ValueError("Configuration is required")
    section = plan.get("session", {})
    if not isinstance(section, dict):
        raise TypeError(f"Configuration section 'session' must be a dict, got {type(section).__name__}")
    for kind in SESSION_MODULES:
        if not section.get(kind):
            raise ValueError(f"Configuration must specify session.{kind}")


def check_shape(plan: dict[str, Any]) -> None:
    """Raise TypeError when a section or entry of the plan has the wrong type."""
    for section in MODULE_SECTIONS:
        entries = plan.get(section)
        if entries is None:
            continue
        if not isinstance(entries, (list, tuple)):
            raise TypeError(f"'{section}' section must be a list, got {type(entries).__name__}")
        for index, entry in enumerate(entries):
            path = f"{section}[{index}]"
            if not isinstance(entry, dict):
                hint = f": write {{'module': {entry!r}}} for the module of that id" if isinstance(entry, str) else ""
                raise TypeError(f"Module spec at {path} must be a dict, got {type(entry).__name__}{hint}")
            _check_entry(path, entry)
    for kind in SESSION_MODULES:
        path = f"session.{kind}"
        spec = (plan.get("session") or {}).get(kind)
        if isinstance(spec, dict):
            _check_entry(path, spec)
        elif spec is not None and not isinstance(spec, str):
            raise TypeError(f"Module spec at {path} must be a module's id or a dict, got {type(spec).__name__}")


def _check_entry(path: str, entry: dict[str, Any]) -> None:
    for name in ("module", "config"):
        value = entry.get(name)
        if value is not None and (error := type_error(path, name, value)) is not None:
            raise TypeError(error)


def type_error(path: str, name: str, value: Any) -> str | None:
    """Return the error for a field of a module's entry that has the wrong type, None for the right one."""
    title, kind, expected = _FIELDS[name]
    return None if isinstance(value, kind) else f"{title} at {path} must be {expected}, got {type(value).__name__}"


def check_instances(plan: dict[str, Any]) -> None:
    """Raise ValueError when two entries of one provider module could not be distinguished."""
    unnamed: dict[str, int] = {}
    for entry in plan.get("providers") or ():
        if entry.get("module") and not entry.get("instance_id"):
            unnamed[entry["module"]] = unnamed.get(entry["module"], 0) + 1
    for module, count in unnamed.items():
        if count > 1:
            raise ValueError(
                f"Multi-instance providers require explicit 'instance_id' on each additional entry. "
                f"Found {count} entries for module '{module}' without instance_id "
                "(at most 1 allowed as the default instance)."
            )

"""Walk the modules of a plan together with those of its agents and of its spawn section, and find what names one.

The kernel's `plan_modules` walks one part, as a session mounts it; this applies it to every part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from amplifier_core.plan import plan_modules
from amplifier_foundation.merge import module_key
from amplifier_kit.struct import FrozenStruct


class ModuleEntry(FrozenStruct):
    """One module of a plan, wherever it stands."""

    kind: str
    #: The section that lists it: `session`, `tools`, `agents.explorer.tools`, `spawn.tools`.
    section: str
    #: Identifies the entry in its section: the kind of a session's module, else its id.
    key: str
    #: Its place in the plan: `session.context`, `agents.explorer.tools[2]`.
    path: str
    entry: Mapping[str, Any]

    @property
    def module(self) -> str:
        """The module's id."""
        return str(self.entry["module"])

    @property
    def source(self) -> str | None:
        """Where the module comes from, if the entry says it."""
        source = self.entry.get("source")
        return source if isinstance(source, str) and source else None


def all_modules(plan: Mapping[str, Any]) -> Iterator[ModuleEntry]:
    """Yield every module of a plan, of its spawn section and of its agents."""
    spawn, agents = plan.get("spawn"), plan.get("agents")
    parts: list[tuple[str, Any]] = [("", plan)]
    if isinstance(spawn, Mapping):
        parts.append(("spawn.", {"tools": spawn.get("tools")}))
    if isinstance(agents, Mapping):
        parts += [(f"agents.{name}.", agent) for name, agent in agents.items()]
    for prefix, part in parts:
        for one in plan_modules(part) if isinstance(part, Mapping) else ():
            key = one.kind if one.section == "session" else module_key(one.entry) or one.module_id
            yield ModuleEntry(one.kind, f"{prefix}{one.section}", key, f"{prefix}{one.path}", one.entry)


def said_of(value: Any, module: str) -> list[Any]:
    """Return every part of a plan that names a module, however deep."""
    if isinstance(value, Mapping):
        if any(isinstance(each, str) and each == module for each in value.values()):
            return [value]
        own = [{key: each} for key, each in value.items() if key == module]
        return own + [said for key, each in value.items() if key != module for said in said_of(each, module)]
    if isinstance(value, list | tuple):
        return [said for each in value for said in said_of(each, module)]
    return [value] if isinstance(value, str) and value == module else []


def mentions(value: Any, module: str) -> bool:
    """Return whether something in a plan or a bundle names a module, however deep."""
    if isinstance(value, Mapping):
        return any(mentions(each, module) for pair in value.items() for each in pair)
    if isinstance(value, list | tuple):
        return any(mentions(each, module) for each in value)
    return isinstance(value, str) and value == module

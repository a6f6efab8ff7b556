"""Start sessions from sessions: `ChildSessions` gives a session the capabilities `session.spawn` and `session.resume`.

What crosses from parent to child is plain data, ids and plans. Names are imported when they are asked for: a session
that starts no other does not pay for it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amplifier_foundation.children.children import ChildSessions
    from amplifier_foundation.children.errors import (
        AgentUnknownError,
        ChildBusyError,
        ChildFailedError,
        ChildRefusedError,
        ChildUnknownError,
        SpawnError,
        TooDeepError,
    )
    from amplifier_foundation.children.ids import child_id
    from amplifier_foundation.children.origin import ChildFacts, OnChildEvent, Origin
    from amplifier_foundation.children.plan import child_plan
    from amplifier_foundation.children.request import SpawnRequest

_HOMES = {
    "AgentUnknownError": "errors",
    "ChildBusyError": "errors",
    "ChildFacts": "origin",
    "ChildFailedError": "errors",
    "ChildRefusedError": "errors",
    "ChildSessions": "children",
    "ChildUnknownError": "errors",
    "OnChildEvent": "origin",
    "Origin": "origin",
    "SpawnError": "errors",
    "SpawnRequest": "request",
    "TooDeepError": "errors",
    "child_id": "ids",
    "child_plan": "plan",
}

__all__ = [
    "AgentUnknownError",
    "ChildBusyError",
    "ChildFacts",
    "ChildFailedError",
    "ChildRefusedError",
    "ChildSessions",
    "ChildUnknownError",
    "OnChildEvent",
    "Origin",
    "SpawnError",
    "SpawnRequest",
    "TooDeepError",
    "child_id",
    "child_plan",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)

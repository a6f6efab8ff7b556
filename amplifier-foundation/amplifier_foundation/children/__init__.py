"""Child sessions: a `Spawner` gives sessions the capabilities `session.spawn` and `session.resume`.

Names are imported on first use: a session without children does not pay for them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amplifier_foundation.children.capabilities import Spawner, SpawnRequest
    from amplifier_foundation.children.errors import (
        AgentUnknownError,
        ChildBusyError,
        ChildFailedError,
        ChildRefusedError,
        ChildUnknownError,
        SpawnError,
        TooDeepError,
    )
    from amplifier_foundation.children.plan import child_plan
    from amplifier_foundation.children.results import child_id
    from amplifier_foundation.children.spawn import ChildSessions

_HOMES = {
    "AgentUnknownError": "errors",
    "ChildBusyError": "errors",
    "ChildFailedError": "errors",
    "ChildRefusedError": "errors",
    "ChildSessions": "spawn",
    "ChildUnknownError": "errors",
    "SpawnError": "errors",
    "SpawnRequest": "capabilities",
    "Spawner": "capabilities",
    "TooDeepError": "errors",
    "child_id": "results",
    "child_plan": "plan",
}

__all__ = [
    "AgentUnknownError",
    "ChildBusyError",
    "ChildFailedError",
    "ChildRefusedError",
    "ChildSessions",
    "ChildUnknownError",
    "SpawnError",
    "SpawnRequest",
    "Spawner",
    "TooDeepError",
    "child_id",
    "child_plan",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)

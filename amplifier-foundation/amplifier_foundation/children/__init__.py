"""Child sessions: a `Spawner` gives sessions the capabilities `session.spawn` and `session.resume`.

`capabilities` has the spawner, `spawn` finds or starts the child of a call, `prepare` and `plan` compose it from its
parent and its agent under `restrictions`, `child_session` runs it, `resume` and `results` find its answer again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amplifier_foundation.children.capabilities import Spawner

__all__ = ["Spawner"]


def __getattr__(name: str) -> Any:
    """Import the spawner on first use: reading the results of children must not import the kernel."""
    if name != "Spawner":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from amplifier_foundation.children.capabilities import Spawner

    return Spawner

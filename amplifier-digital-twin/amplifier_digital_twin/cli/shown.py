"""A universe as programs see it."""

from __future__ import annotations

from typing import Any

from amplifier_digital_twin.registry import Found


def shown(found: Found) -> dict[str, Any]:
    """Return what is known of a universe without asking it."""
    state = found.state
    return {
        "id": state.id,
        "name": state.name,
        "profile": state.profile,
        "profile_path": state.profile_path,
        "phase": state.phase if found.is_alive else "dead",
        "last_phase": state.phase,
        "backend": state.backend,
        "owner": state.owner,
        "mine": found.is_mine,
        "created": timestamp(state.created),
        "lease_until": timestamp(state.lease_until),
        "keeper": state.holder.pid,
        "ports": list(state.ports),
        "folder": str(found.place.folder),
    }


def timestamp(seconds: float) -> str:
    """Return a time as text."""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")

"""Ask the session whether an action may happen; a session that cannot be asked allows nothing.

There is one exception, for these modules in the published program: its kernel has no policies, so that a module which
insisted on one could do nothing there. Its own safeguards still hold: the paths and hosts that the module's config
allows, and the verdicts of hooks on `tool:pre`, are checked before this function is called. It grants the rest with a
warning, once per session. On our own kernel that branch is never taken.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

__all__ = ["Permission", "authorize", "kernel_has_policies"]

logger = logging.getLogger(__name__)

_WARNING: Final = (
    "This kernel has no policies (coordinator.authorize): everything that the config of modules and hooks on tool:pre "
    "do not deny is allowed without asking in session %s"
)
#: The sessions that were warned about.
_warned: set[str] = set()


class Permission(NamedTuple):
    """Whether an action may happen, and why not."""

    granted: bool
    reason: str


async def authorize(coordinator: Any, action: str, details: Mapping[str, Any]) -> Permission:
    """Ask the session's policies; any failure is a refusal. Raises only CancelledError."""
    ask = getattr(coordinator, "authorize", None)
    if ask is None:
        if kernel_has_policies():
            return Permission(False, "the session cannot be asked: its coordinator has no authorize()")
        return _grant_without_policies(coordinator)
    try:
        answer = await ask(action, dict(details))
    except asyncio.CancelledError:
        raise
    except Exception as error:
        logger.error("Could not ask for permission for %s: %s", action, error, exc_info=error)
        return Permission(False, f"the question could not be asked: {error}")
    return Permission(answer.granted is True, str(answer.reason))


def kernel_has_policies() -> bool:
    """Return whether the installed kernel authorizes actions, as ours does and the published one does not."""
    from amplifier_core import ModuleCoordinator

    return hasattr(ModuleCoordinator, "authorize")


def _grant_without_policies(coordinator: Any) -> Permission:
    session = str(getattr(coordinator, "session_id", None) or "unknown")
    if session not in _warned:
        _warned.add(session)
        logger.warning(_WARNING, session)
    return Permission(True, "this kernel has no policies")

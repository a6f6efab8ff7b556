"""Choose models by role, where the session has a `model_role_resolver`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from amplifier_core.data import reason
from amplifier_kit.awaitable import maybe_await, plain_result
from amplifier_kit.engine.delegation.request import DelegationError

__all__ = ["known_roles", "preferences_of_role"]

_KEYS: Final = ("provider", "model", "config")


def known_roles(coordinator: Any) -> list[str]:
    """Return the roles that the session knows, [] without a resolver."""
    roles = getattr(coordinator.get_capability("model_role_resolver"), "known_roles", None)
    if callable(roles):
        roles = plain_result(roles())
    if isinstance(roles, str) or not isinstance(roles, Iterable):
        return []
    return [role for role in roles if isinstance(role, str)]


async def preferences_of_role(coordinator: Any, role: str) -> list[dict[str, Any]]:
    """Return the models of a role, best first; raises DelegationError for an unknown role."""
    roles = known_roles(coordinator)
    if role not in roles:
        there = f"there are {', '.join(roles)}" if roles else "this session has no roles: leave it out"
        raise DelegationError("invalid_input", f"'model_role' {role!r:.100} is unknown; {there}")
    try:
        found = await maybe_await(coordinator.get_capability("model_role_resolver").resolve(role))
    except Exception as error:
        raise DelegationError(
            "routing_failed", f"cannot resolve the models of role {role!r}: {reason(error)}"
        ) from error
    return [preference for entry in found or () if (preference := _plain(entry)) is not None]


def _plain(entry: Any) -> dict[str, Any] | None:
    """Return a preference, a mapping or an object with attributes, as a mapping without what is not set."""
    given = entry if isinstance(entry, Mapping) else {key: getattr(entry, key, None) for key in _KEYS}
    return {key: given[key] for key in _KEYS if given.get(key)} if isinstance(given.get("provider"), str) else None

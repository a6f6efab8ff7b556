"""A request for a child session, and how it reaches the app's `session.spawn` or `session.resume`."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from amplifier_kit.engine.delegation.config import DelegationConfig
from amplifier_kit.engine.delegation.dispatch import Dispatch
from amplifier_kit.engine.delegation.errors import DelegationError
from amplifier_kit.engine.delegation.session_ids import DEPTH_KEY, delegation_depth

__all__ = ["DelegationRequest", "require_capability"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationRequest:
    """One task for one child, new or resumed."""

    agent: str
    instruction: str
    #: The id of the child to start or to resume.
    session_id: str
    is_resumed: bool = False
    dispatch: Dispatch = field(default_factory=Dispatch)
    provider_preferences: list[dict[str, Any]] | None = None
    self_delegation_depth: int = 0
    #: More fields of its events, such as the context it got.
    details: Mapping[str, Any] = field(default_factory=dict)

    def submit(self, coordinator: Any, settings: DelegationConfig) -> Awaitable[Any]:
        """Start or resume the child; raises DelegationError when the app cannot."""
        if self.is_resumed:
            resume = require_capability(coordinator, "session.resume")
            return _awaitable(resume(self.session_id, self.instruction))
        spawn = require_capability(coordinator, "session.spawn")
        if _is_short(spawn):
            return _awaitable(spawn(**self._short(coordinator, spawn)))
        return _awaitable(spawn(**self._long(coordinator, settings)))

    def _short(self, coordinator: Any, spawn: Callable[..., Any]) -> dict[str, Any]:
        known = inspect.signature(spawn).parameters
        given = {"agent_name": self.agent, "task": self.instruction, "parent_session": coordinator.session}
        return {key: value for key, value in given.items() if key in known}

    def _long(self, coordinator: Any, settings: DelegationConfig) -> dict[str, Any]:
        config = coordinator.config
        agents = config.get("agents") if isinstance(config, Mapping) else None
        ids = {key: value for key, value in self.dispatch.fields().items() if value is not None}
        return {
            "agent_name": self.agent,
            "instruction": self.instruction,
            "parent_session": coordinator.session,
            "agent_configs": dict(agents) if isinstance(agents, Mapping) else {},
            "sub_session_id": self.session_id,
            "tool_inheritance": settings.tool_inheritance(),
            "hook_inheritance": settings.hook_inheritance(),
            "orchestrator_config": None,
            "provider_preferences": self.provider_preferences,
            "self_delegation_depth": self.self_delegation_depth,
            "session_metadata": {"agent_name": self.agent, **ids, DEPTH_KEY: delegation_depth(coordinator) + 1},
        }


def require_capability(coordinator: Any, name: str) -> Callable[..., Any]:
    """Return a capability of the app; raises DelegationError without it."""
    found = coordinator.get_capability(name)
    if not callable(found):
        raise DelegationError(
            "capability_missing",
            f"{name} capability not available: this app runs no child sessions. Do the work yourself",
        )
    wanted: Callable[..., Any] = found
    return wanted


def _is_short(spawn: Callable[..., Any]) -> bool:
    """Tell whether an app offers the shorter contract, `(agent_name, task, parent_session)`."""
    try:
        known = inspect.signature(spawn).parameters
    except (TypeError, ValueError):
        return False
    takes_all = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in known.values())
    return "task" in known and "instruction" not in known and not takes_all


def _awaitable(returned: Any) -> Awaitable[Any]:
    if inspect.isawaitable(returned):
        return returned
    raise DelegationError("spawn_failed", f"the app returned {type(returned).__name__} instead of an awaitable")

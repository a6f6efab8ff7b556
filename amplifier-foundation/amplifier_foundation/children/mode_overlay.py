"""What the modes of a session contribute: agents, context and skills that exist while a mode is active."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from amplifier_foundation.children.plan import visible_agents
from amplifier_kit.modes import DISCOVERY, OVERLAY

if TYPE_CHECKING:
    from amplifier_foundation.runtime_overlay import RuntimeOverlay, TransitionResult
    from amplifier_foundation.sessions.runtime import SessionRuntime

__all__ = ["CHANGED", "FAILED", "ModeOverlay", "offer_overlay"]

#: Emitted when something was added to a session for a while or removed again, and when that failed.
CHANGED: Final = "overlay:changed"
FAILED: Final = "overlay:failed"
_SCOPE: Final = "mode:"


def offer_overlay(runtime: SessionRuntime) -> None:
    """Let the modes of a session contribute to it."""
    coordinator = runtime.session.coordinator
    coordinator.session_state.setdefault(OVERLAY, ModeOverlay(runtime))
    coordinator.register_contributor("observability.events", "mode-overlay", lambda: [CHANGED, FAILED])


class ModeOverlay:
    """Adds the contributions of modes to one session.

    Agents are found and checked as those of the session's bundle are. Their sessions are children like any other: they
    run under the rules, the restrictions and the modes of this session, with modules that were prepared with it or
    that are installed.
    """

    def __init__(self, runtime: SessionRuntime) -> None:
        self._runtime = runtime

    @cached_property
    def _overlay(self) -> RuntimeOverlay:
        from amplifier_foundation.runtime_overlay import RuntimeOverlay

        return RuntimeOverlay(self._runtime.session.coordinator, success_event=CHANGED, failure_event=FAILED)

    async def apply(self, scope: str, contributions: Mapping[str, Any]) -> TransitionResult:
        """Add what a mode contributes; the scope is `mode:NAME`.

        Raises AgentError for an agent without a valid definition, ReadDeniedError for one in a file that a rule denies.
        """
        given = dict(contributions)
        if given.get("agents"):
            given["agents"] = await asyncio.to_thread(self._agents, scope, given["agents"])
        return await self._overlay.apply(scope, given)

    async def revoke(self, scope: str) -> TransitionResult:
        """Remove what a mode has added."""
        return await self._overlay.revoke(scope)

    def _agents(self, scope: str, named: Any) -> dict[str, Any]:
        """Return the definitions of the agents that a mode names and that this session may call."""
        from amplifier_foundation.bundles.agents import resolve_agents

        agents = named if isinstance(named, Mapping) else dict.fromkeys(named)
        prepared, access = self._runtime.prepared, self._runtime.prompt.access
        composed = prepared.composed
        discovery = self._runtime.session.coordinator.session_state[DISCOVERY]
        # A mode of a bundle means agents of that bundle.
        namespace = getattr(discovery.find(scope.removeprefix(_SCOPE)), "source", "")
        if namespace not in composed.namespaces:
            namespace = composed.name
        warnings: list[str] = []
        files: dict[str, Path] = {}
        namespaces = {name: Path(root) for name, root in composed.namespaces.items()}
        found = resolve_agents(
            agents, namespaces, namespace, prepared.project, prepared.home, warnings=warnings, files=files
        )
        for file in files.values():
            access.check_source(file)
        for warning in warnings:
            self._runtime.session.coordinator.log("WARNING", f"{scope}: {warning}")
        return visible_agents(found, self._own_access())

    def _own_access(self) -> Any:
        """Return which agents the agent of this session may call, None for any."""
        saved, origin = self._runtime.saved, self._runtime.origin
        facts = saved.metadata if saved is not None else origin.metadata if origin is not None else {}
        agent = facts.get("agent_overlay")
        return agent.get("agents") if isinstance(agent, Mapping) else None

"""Know the agents that a running session can call: those of its bundle, and those that were added since."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amplifier_foundation.bundles.agents import UNUSABLE
from amplifier_foundation.children.errors import AgentUnknownError, AgentUnusableError
from amplifier_foundation.children.request import SELF


class Roster:
    """The agents of one session.

    A definition that nobody has changed since the session began is taken as its bundle wrote it, with the names of
    variables and not their values: what is kept of a child holds no key then.
    """

    def __init__(self, composed: Mapping[str, Any], live: Mapping[str, Any], at_start: Mapping[str, Any]) -> None:
        """Take the plan as composed, the plan as the session has it now, and the agents that it began with."""
        self._written = dict(_agents(composed))
        self._live = live
        self._at_start = at_start

    def all(self) -> dict[str, Any]:
        """Return the agents there are now, by name."""
        return {name: self._as_written(name, agent) for name, agent in _agents(self._live).items()}

    def definition(self, name: str, given: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        """Return what is known of an agent; `given` are the agents as the caller knows them.

        A session itself is the agent without anything of its own. Raises AgentUnknownError and AgentUnusableError.
        """
        if name == SELF:
            return {}
        live = _agents(self._live)
        known = {**live, **(given if isinstance(given, Mapping) else {})}
        if name not in known:
            raise AgentUnknownError(name, sorted([*map(str, known), SELF]))
        agent = self._as_written(name, live[name]) if known[name] == live.get(name) else known[name]
        if not isinstance(agent, Mapping):
            raise AgentUnusableError(f"the agent {name!r} must be a mapping, got {type(agent).__name__}")
        if agent.get(UNUSABLE):
            raise AgentUnusableError(f"the agent {name!r} cannot be used: {agent[UNUSABLE]}")
        instruction = agent.get("instruction")
        if instruction is not None and not isinstance(instruction, str):
            raise AgentUnusableError(f"the instruction of the agent {name!r} must be a text, got {instruction!r}")
        return agent

    def _as_written(self, name: str, agent: Any) -> Any:
        return self._written[name] if name in self._written and self._at_start.get(name) is agent else agent


def _agents(plan: Mapping[str, Any]) -> Mapping[str, Any]:
    agents = plan.get("agents") if isinstance(plan, Mapping) else None
    return agents if isinstance(agents, Mapping) else {}

"""The agents that a session can delegate to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from amplifier_kit.engine.delegation.errors import DelegationError

__all__ = ["SELF", "AgentDirectory"]

#: The agent name for a copy of the session itself.
SELF: Final = "self"

_LONGEST: Final = 600
_MOST_NAMED: Final = 40


class AgentDirectory:
    """The agents of a session by name."""

    def __init__(self, agents: Mapping[str, Any] | None = None) -> None:
        self.agents: dict[str, Mapping[str, Any]] = {
            name: definition if isinstance(definition, Mapping) else {}
            for name, definition in (agents or {}).items()
            if isinstance(name, str) and name and (name != "include" or isinstance(definition, Mapping))
        }

    @classmethod
    def of(cls, coordinator: Any) -> AgentDirectory:
        """Return the agents in the plan of a session as it is now."""
        config = getattr(coordinator, "config", None)
        agents = config.get("agents") if isinstance(config, Mapping) else None
        return cls(agents if isinstance(agents, Mapping) else None)

    def described(self) -> str:
        """Return one line for each agent with its purpose; empty without agents."""
        return "\n".join(f"- {name}: {_purpose(agent)}" for name, agent in self.agents.items())

    def find(self, name: str) -> str:
        """Return the name that an agent has here: as given, or the only one that ends in `:name`.

        An unknown name with a colon is returned as it is: the app may know it. Raises DelegationError that suggests
        the most similar agent.
        """
        if name in self.agents or ":" in name:
            return name
        ends = [known for known in self.agents if known.rpartition(":")[2] == name]
        if len(ends) == 1:
            return ends[0]
        raise DelegationError("unknown_agent", f"There is no agent {name!r}: {self._hint(name, ends)}")

    def _hint(self, name: str, ends: list[str]) -> str:
        import difflib

        if ends:
            return f"say which of {', '.join(map(repr, ends))} you mean"
        if not self.agents:
            return "this session has no agents; do the work yourself"
        # A misspelt name usually means the last part of an agent's name.
        shorts = {known.rpartition(":")[2]: known for known in self.agents}
        near = difflib.get_close_matches(name, [*self.agents, *shorts], n=1)
        if near:
            return f"did you mean {shorts.get(near[0], near[0])!r}?"
        return f"there are {', '.join(list(self.agents)[:_MOST_NAMED])}"


def _purpose(agent: Mapping[str, Any]) -> str:
    text = agent.get("description")
    if not isinstance(text, str):
        meta = agent.get("meta")
        text = meta.get("description") if isinstance(meta, Mapping) else None
    if not isinstance(text, str) or not text.strip():
        return "(no description)"
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."

"""Know the agents of a session: who can be asked, and what for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from amplifier_kit.engine.delegation.problem import Problem

__all__ = ["SELF", "Roster"]

#: The name by which a session hands work to a copy of itself.
SELF: Final = "self"

_LONGEST: Final = 600
_MOST_NAMED: Final = 40


class Roster:
    """Hold the agents that a session can hand work to, by the names that callers use."""

    def __init__(self, agents: Mapping[str, Any] | None = None) -> None:
        self.agents: dict[str, Mapping[str, Any]] = {
            name: definition if isinstance(definition, Mapping) else {}
            for name, definition in (agents or {}).items()
            if isinstance(name, str) and name and (name != "include" or isinstance(definition, Mapping))
        }

    @classmethod
    def of(cls, coordinator: Any) -> Roster:
        """Return the agents in the plan of a session as it is now."""
        config = getattr(coordinator, "config", None)
        agents = config.get("agents") if isinstance(config, Mapping) else None
        return cls(agents if isinstance(agents, Mapping) else None)

    def described(self) -> str:
        """Return a line for each agent with what it is for; empty when there is none."""
        return "\n".join(f"- {name}: {_purpose(agent)}" for name, agent in self.agents.items())

    def find(self, name: str) -> str:
        """Return the name that an agent has here: as given, or the only one that ends in `:name`.

        A name with a colon that is not known is passed on: it may be one that only the app can look up. Raises Problem
        that names the nearest agents.
        """
        if name in self.agents or ":" in name:
            return name
        ends = [known for known in self.agents if known.rpartition(":")[2] == name]
        if len(ends) == 1:
            return ends[0]
        raise Problem("unknown_agent", f"There is no agent {name!r}: {self._hint(name, ends)}")

    def _hint(self, name: str, ends: list[str]) -> str:
        import difflib

        if ends:
            return f"say which of {', '.join(map(repr, ends))} you mean"
        if not self.agents:
            return "this session has no agents; do the work yourself"
        # Whoever asks for 'explorerr' means an agent by the last part of its name.
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
        return "(says nothing of itself)"
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."

"""Hand one piece of work to one agent, with as much of the conversation as is wanted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from amplifier_core.models import ToolResult
from amplifier_kit.engine.delegation.agents import SELF, AgentDirectory
from amplifier_kit.engine.delegation.child_run import ChildEvents
from amplifier_kit.engine.delegation.dispatch import Dispatch
from amplifier_kit.engine.delegation.errors import DelegationError
from amplifier_kit.engine.delegation.outcome import Outcome
from amplifier_kit.engine.delegation.parent_context import DEPTHS, Depth
from amplifier_kit.engine.delegation.request import DelegationRequest
from amplifier_kit.engine.delegation.tool import DelegatingTool

__all__ = ["EVENTS", "TaskTool"]

_COMPLETED: Final = "task:agent_completed"
#: However a child ends, it is told by the same event; `success` and `status` say how.
EVENTS: Final = ChildEvents(
    spawned="task:agent_spawned",
    resumed="task:agent_resumed",
    completed=_COMPLETED,
    cancelled=_COMPLETED,
    error=_COMPLETED,
)
_TURNS: Final = 5
_DESCRIPTION: Final = """\
Give a piece of work to an agent. It works in a session of its own, with its own context, and you get its answer.

Say everything it must know in `instruction`: it sees nothing of this conversation unless you set `inherit_context`. \
Several calls at once run side by side. To let an agent go on, give the `session_id` of its answer."""


class TaskTool(DelegatingTool):
    """Give back `{response, session_id}` of an agent that has done its work."""

    name = "task"
    events = EVENTS

    @property
    def description(self) -> str:
        """Return what the tool is for, with the agents there are now."""
        agents = AgentDirectory.of(self.coordinator).described()
        return f"{_DESCRIPTION}\n\nAgents:\n{agents}" if agents else f"{_DESCRIPTION}\n\nThere are no agents."

    @property
    def input_schema(self) -> dict[str, Any]:
        """Return what the tool takes."""
        return {
            "type": "object",
            "properties": {
                "agent": {"type": "string", "description": "Who is to do it; needed unless session_id is given"},
                "instruction": {"type": "string", "description": "What is to be done, and what the answer should be"},
                "session_id": {"type": "string", "description": "An agent's session that is to go on"},
                "inherit_context": {
                    "type": "string",
                    "enum": list(DEPTHS),
                    "description": "How much of this conversation the agent is told; default none",
                },
                "inherit_context_turns": {
                    "type": "integer",
                    "minimum": 1,
                    "description": f"How many turns 'recent' means; default {_TURNS}",
                },
                "provider_preferences": {
                    "type": "array",
                    "description": "Models to use, best first",
                    "items": {
                        "type": "object",
                        "properties": {"provider": {"type": "string"}, "model": {"type": "string"}},
                        "required": ["provider"],
                    },
                },
            },
            "required": ["instruction"],
        }

    async def request(self, given: Mapping[str, Any], dispatch: Dispatch) -> DelegationRequest:
        """Return the request for an agent; raises DelegationError."""
        instruction = self.instruction(given)
        session_id = self.resumed_id(given)
        depth = cast(Depth, self.choice(given, "inherit_context", DEPTHS, "none"))
        text = await self.with_parent_context(instruction, dispatch, depth, self._turns(given))
        preferences = self.preferences(given)
        if session_id is not None:
            agent = await self.resumed_agent(given, session_id)
            return DelegationRequest(
                agent=agent, instruction=text, session_id=session_id, is_resumed=True, dispatch=dispatch
            )
        agent = self.agent(given)
        self.check_depth()
        own = self.coordinator.get_capability("self_delegation_depth")
        return DelegationRequest(
            agent=agent,
            instruction=text,
            session_id=await self.child_id(dispatch, agent, text),
            dispatch=dispatch,
            provider_preferences=preferences,
            self_delegation_depth=(own if isinstance(own, int) else 0) + 1 if agent == SELF else 0,
            details={"inherit_context": depth, "provider_preferences": preferences},
        )

    def result(self, request: DelegationRequest, outcome: Outcome) -> ToolResult:
        """Return the answer, or why there is none."""
        if outcome.error is not None:
            return outcome.error.result(agent=request.agent, session_id=outcome.session_id, **outcome.spent)
        return ToolResult(output={"response": self.answer(outcome), "session_id": outcome.session_id})

    def _turns(self, given: Mapping[str, Any]) -> int:
        turns = given.get("inherit_context_turns")
        if turns is None:
            return _TURNS
        if isinstance(turns, bool) or not isinstance(turns, int) or turns < 1:
            raise DelegationError(
                "invalid_input", f"'inherit_context_turns' must be a whole number above 0, got {turns!r:.100}"
            )
        return turns

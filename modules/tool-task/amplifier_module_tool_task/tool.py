"""The `task` tool: one task for one agent, with as much of the conversation as the model chooses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from amplifier_core.models import ToolResult
from amplifier_kit.engine.delegation.child_run import ChildEvents, Outcome
from amplifier_kit.engine.delegation.parent_context import DEPTHS, Depth
from amplifier_kit.engine.delegation.request import SELF, AgentDirectory, DelegationRequest, Dispatch
from amplifier_kit.engine.delegation.tool import DelegatingTool

__all__ = ["EVENTS", "TaskTool"]

_COMPLETED: Final = "task:agent_completed"
#: The same event closes every child; `success` and `status` say how it ended.
EVENTS: Final = ChildEvents(
    spawned="task:agent_spawned",
    resumed="task:agent_resumed",
    completed=_COMPLETED,
    cancelled=_COMPLETED,
    error=_COMPLETED,
)
_TURNS: Final = 5
_DESCRIPTION: Final = """\
Give a task to an agent. It works in a separate session with its own context and returns its answer.

Put everything it needs to know in `instruction`: it sees nothing of this conversation unless you set \
`inherit_context`. Several calls at once run in parallel. To continue with an agent, pass the `session_id` of its \
answer."""


class TaskTool(DelegatingTool):
    """Return `{response, session_id}` of an agent."""

    name = "task"
    events = EVENTS

    @property
    def description(self) -> str:
        """Return what the tool is for, with the agents there are now."""
        agents = AgentDirectory.of(self.coordinator).describe()
        return f"{_DESCRIPTION}\n\nAgents:\n{agents}" if agents else f"{_DESCRIPTION}\n\nThere are no agents."

    @property
    def input_schema(self) -> dict[str, Any]:
        """Return what the tool takes."""
        return {
            "type": "object",
            "properties": {
                "agent": {"type": "string", "description": "The agent; required unless session_id is given"},
                "instruction": {"type": "string", "description": "What to do, and what to report"},
                "session_id": {"type": "string", "description": "The session of an agent to resume"},
                "inherit_context": {
                    "type": "string",
                    "enum": list(DEPTHS),
                    "description": "How much of this conversation the agent gets; default none",
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
        turns = self.turns(given, "inherit_context_turns", _TURNS)
        text = await self.with_parent_context(instruction, dispatch, depth, turns)
        preferences = self.preferences(given)
        if session_id is not None:
            return await self.resume_request(given, session_id, text, dispatch)
        agent = self.agent(given)
        self.check_depth()
        return DelegationRequest(
            agent=agent,
            instruction=text,
            session_id=await self.child_id(dispatch, agent, text),
            dispatch=dispatch,
            provider_preferences=preferences,
            self_delegation_depth=self.self_depth() + 1 if agent == SELF else 0,
            details={"inherit_context": depth, "provider_preferences": preferences},
        )

    def result(self, request: DelegationRequest, outcome: Outcome) -> ToolResult:
        """Return the answer, or why there is none."""
        if outcome.error is not None:
            return outcome.error.result(agent=request.agent, session_id=outcome.session_id, **outcome.spent)
        return ToolResult(output={"response": self.answer(outcome), "session_id": outcome.session_id})

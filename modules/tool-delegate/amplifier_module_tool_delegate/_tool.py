"""Hand work to agents, and to copies of the session itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from amplifier_core.models import ToolResult
from amplifier_kit.engine.delegation.agents import SELF, AgentDirectory
from amplifier_kit.engine.delegation.child_run import ChildEvents
from amplifier_kit.engine.delegation.config import DelegationConfig
from amplifier_kit.engine.delegation.dispatch import Dispatch
from amplifier_kit.engine.delegation.errors import DelegationError
from amplifier_kit.engine.delegation.outcome import Outcome
from amplifier_kit.engine.delegation.parent_context import DEPTHS, SCOPES, Depth, Scope
from amplifier_kit.engine.delegation.request import DelegationRequest
from amplifier_kit.engine.delegation.tool import DelegatingTool
from amplifier_module_tool_delegate._config import Features
from amplifier_module_tool_delegate._routing import known_roles, preferences_of_role
from amplifier_module_tool_delegate._schema import schema

__all__ = ["EVENTS", "DelegateTool"]

EVENTS: Final = ChildEvents(
    spawned="delegate:agent_spawned",
    resumed="delegate:agent_resumed",
    completed="delegate:agent_completed",
    cancelled="delegate:agent_cancelled",
    error="delegate:error",
)
_TURNS: Final = 5
_DESCRIPTION: Final = """\
Hand a piece of work to an agent. It works in a session of its own with its own context, and you get its answer; what \
it read on the way does not fill yours. Use it for work that takes many steps, and for independent pieces at once: \
several calls in one answer run side by side.

Say in `instruction` what is to be done and what the answer should contain. `context_depth` says how much of this \
conversation the agent is told, `context_scope` whether results of agents or of all tools are part of it. To let an \
agent go on, give the `session_id` of its answer."""


class DelegateTool(DelegatingTool):
    """Give back `{response, session_id, agent, turn_count, status, metadata}` of an agent that has done its work."""

    name = "delegate"
    events = EVENTS

    def __init__(self, coordinator: Any, settings: DelegationConfig, features: Features) -> None:
        super().__init__(coordinator, settings)
        self._features = features

    @property
    def description(self) -> str:
        """Return what the tool is for, with the agents there are now."""
        lines = [_DESCRIPTION, "", "Agents:"]
        if agents := AgentDirectory.of(self.coordinator).described():
            lines.append(agents)
        if self._features.self_depth:
            lines.append(f"- {SELF}: a copy of yourself, for a part of your work that would fill your context.")
        return "\n".join(lines) if len(lines) > 3 else f"{_DESCRIPTION}\n\nThere are no agents."

    @property
    def input_schema(self) -> dict[str, Any]:
        """Return what the tool takes; roles of models are part of it only when the session knows some."""
        return schema(self._features, known_roles(self.coordinator))

    async def request(self, given: Mapping[str, Any], dispatch: Dispatch) -> DelegationRequest:
        """Return the request for an agent; raises DelegationError."""
        instruction = self.instruction(given)
        session_id = self.resumed_id(given)
        # One that goes on knows what it was told: it is told more only when the model says so.
        depth, scope = self._wanted(given, "recent" if session_id is None else "none")
        text = await self.with_parent_context(instruction, dispatch, depth, self._turns(given), scope)
        if session_id is not None:
            return await self._resumed(given, session_id, text, dispatch)
        agent = self.agent(given)
        self.check_depth()
        role = self.text(given, "model_role") if self._features.selects_provider else None
        preferences = await self._preferred(given, role)
        return DelegationRequest(
            agent=agent,
            instruction=text,
            session_id=await self.child_id(dispatch, agent, text),
            dispatch=dispatch,
            provider_preferences=preferences,
            self_delegation_depth=self._own_depth() if agent == SELF else 0,
            details={
                "context_depth": depth,
                "context_scope": scope,
                "model_role": role,
                "provider_preferences": preferences,
            },
        )

    def result(self, request: DelegationRequest, outcome: Outcome) -> ToolResult:
        """Return the answer, or why there is none."""
        if outcome.error is not None:
            return outcome.error.result(
                agent=request.agent, session_id=outcome.session_id, status=outcome.status, metadata=outcome.metadata
            )
        output: dict[str, Any] = {
            "response": self.answer(outcome),
            "session_id": outcome.session_id,
            "agent": request.agent,
            "turn_count": outcome.turn_count,
            "status": outcome.status,
            "metadata": outcome.metadata,
        }
        if request.provider_preferences is not None:
            output["provider_routing"] = {
                "model_role": request.details.get("model_role"),
                "provider_preferences": request.provider_preferences,
            }
        return ToolResult(output=output)

    async def _resumed(
        self, given: Mapping[str, Any], session_id: str, text: str, dispatch: Dispatch
    ) -> DelegationRequest:
        if not self._features.resumes:
            raise DelegationError(
                "feature_off", "Agents cannot go on in this session: leave 'session_id' out and start a new one"
            )
        agent = await self.resumed_agent(given, session_id)
        return DelegationRequest(
            agent=agent, instruction=text, session_id=session_id, is_resumed=True, dispatch=dispatch
        )

    def _own_depth(self) -> int:
        """Return the depth of a copy of this session; raises DelegationError at the limit."""
        given = self.coordinator.get_capability("self_delegation_depth")
        depth = given if isinstance(given, int) and not isinstance(given, bool) else 0
        most = self._features.self_depth
        if not most:
            raise DelegationError("feature_off", "A session may not start copies of itself here: choose another agent")
        if depth >= most:
            text = f"Copies may start copies {most} times and this one stands at that depth"
            raise DelegationError("depth_exceeded", f"{text}: do the work yourself")
        return depth + 1

    def _wanted(self, given: Mapping[str, Any], default: str) -> tuple[Depth, Scope]:
        depth = self.choice(given, "context_depth", DEPTHS, default)
        scope = self.choice(given, "context_scope", SCOPES, "conversation")
        if not self._features.max_turns:
            depth = "none"
        return cast(Depth, depth), cast(Scope, scope)

    def _turns(self, given: Mapping[str, Any]) -> int:
        turns = given.get("context_turns")
        if turns is None:
            turns = _TURNS
        if isinstance(turns, bool) or not isinstance(turns, int) or turns < 1:
            raise DelegationError(
                "invalid_input", f"'context_turns' must be a whole number above 0, got {turns!r:.100}"
            )
        return min(turns, self._features.max_turns)

    async def _preferred(self, given: Mapping[str, Any], role: str | None) -> list[dict[str, Any]] | None:
        """Return the models that are wanted: those that are named count more than a role."""
        if not self._features.selects_provider:
            return None
        named = self.preferences(given)
        if role is None:
            return named
        found = await preferences_of_role(self.coordinator, role)
        return named if named is not None else found or None

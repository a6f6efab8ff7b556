"""The tool `delegate`: its schema, and the child sessions that it starts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

from amplifier_core.data import reason
from amplifier_core.models import ToolResult
from amplifier_kit.awaitable import plain_result
from amplifier_kit.engine.delegation.child_run import ChildEvents, Outcome
from amplifier_kit.engine.delegation.parent_context import DEPTHS, SCOPES, Depth, Scope
from amplifier_kit.engine.delegation.request import (
    SELF,
    AgentDirectory,
    DelegationConfig,
    DelegationError,
    DelegationRequest,
    Dispatch,
)
from amplifier_kit.engine.delegation.tool import DelegatingTool
from amplifier_kit.engine.routing.resolver import preferences_for
from amplifier_module_tool_delegate.config import Features


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
        found = await preferences_for(coordinator, role)
    except Exception as error:
        raise DelegationError(
            "routing_failed", f"cannot resolve the models of role {role!r}: {reason(error)}"
        ) from error
    return [{key: value for key, value in preference.to_dict().items() if value} for preference in found]


def schema(features: Features, roles: Sequence[str]) -> dict[str, Any]:
    """Return the JSON schema of the input, without disabled features, and with roles only when there are some."""
    properties: dict[str, Any] = {
        "agent": {"type": "string", "description": "The agent: a name from the list above"},
        "instruction": {"type": "string", "description": "What to do, and what to report"},
    }
    if features.resumes:
        properties["session_id"] = {"type": "string", "description": "The session of an agent to resume"}
    if features.max_turns:
        properties |= _context(features.max_turns)
    if features.selects_provider:
        properties |= _selection(roles)
    return {"type": "object", "properties": properties, "required": ["instruction"]}


def _context(max_turns: int) -> dict[str, Any]:
    return {
        "context_depth": {
            "type": "string",
            "enum": list(DEPTHS),
            "default": "recent",
            "description": "How much of this conversation the agent gets: nothing, the last turns, all of it",
        },
        "context_turns": {
            "type": "integer",
            "minimum": 1,
            "maximum": max_turns,
            "default": min(5, max_turns),
            "description": "How many turns 'recent' means",
        },
        "context_scope": {
            "type": "string",
            "enum": list(SCOPES),
            "default": "conversation",
            "description": "What it gets of that: messages only, also answers of agents, also results of all tools",
        },
    }


def _selection(roles: Sequence[str]) -> dict[str, Any]:
    preference = {
        "type": "object",
        "properties": {
            "provider": {"type": "string"},
            "model": {"type": "string", "description": "A name, or a pattern with * in it"},
        },
        "required": ["provider"],
    }
    given: dict[str, Any] = {
        "provider_preferences": {
            "type": "array",
            "items": preference,
            "description": "Models to use, best first; rarely needed",
        }
    }
    if roles:
        given["model_role"] = {
            "type": "string",
            "enum": list(roles),
            "description": "The kind of model the task needs; provider_preferences take precedence",
        }
    return given


EVENTS: Final = ChildEvents(
    spawned="delegate:agent_spawned",
    resumed="delegate:agent_resumed",
    completed="delegate:agent_completed",
    cancelled="delegate:agent_cancelled",
    error="delegate:error",
)
_TURNS: Final = 5
_DESCRIPTION: Final = """\
Give a task to an agent. It works in a separate session with its own context and returns its answer, so what it \
reads does not fill your context. Use it for tasks of many steps, and for independent tasks at once: several calls in \
one answer run in parallel.

Put into `instruction` what to do and what to report. `context_depth` sets how much of this conversation the agent \
gets, `context_scope` whether that includes results of agents or of all tools. To continue with an agent, pass the \
`session_id` of its answer."""


class DelegateTool(DelegatingTool):
    """Return `{response, session_id, agent, turn_count, status, metadata}` of an agent."""

    name = "delegate"
    events = EVENTS

    def __init__(self, coordinator: Any, settings: DelegationConfig, features: Features) -> None:
        super().__init__(coordinator, settings)
        self._features = features

    @property
    def description(self) -> str:
        """Return the description with the current agents."""
        lines = [_DESCRIPTION, "", "Agents:"]
        if agents := AgentDirectory.of(self.coordinator).describe():
            lines.append(agents)
        if self._features.self_depth:
            lines.append(f"- {SELF}: a copy of yourself, for a subtask that would fill your context.")
        return "\n".join(lines) if len(lines) > 3 else f"{_DESCRIPTION}\n\nThere are no agents."

    @property
    def input_schema(self) -> dict[str, Any]:
        return schema(self._features, known_roles(self.coordinator))

    async def request(self, given: Mapping[str, Any], dispatch: Dispatch) -> DelegationRequest:
        """Return the request for an agent; raises DelegationError."""
        instruction = self.instruction(given)
        session_id = self.resumed_id(given)
        # A resumed agent has its context already: it gets more only when the model asks for it.
        depth, scope = self._wanted(given, "recent" if session_id is None else "none")
        turns = min(self.turns(given, "context_turns", _TURNS), self._features.max_turns)
        text = await self.with_parent_context(instruction, dispatch, depth, turns, scope)
        if session_id is not None:
            if not self._features.resumes:
                raise DelegationError(
                    "feature_off", "Agents cannot be resumed in this session: omit 'session_id' to start a new one"
                )
            return await self.resume_request(given, session_id, text, dispatch)
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

    def _own_depth(self) -> int:
        """Return the depth of a copy of this session; raises DelegationError at the limit."""
        depth, most = self.self_depth(), self._features.self_depth
        if not most:
            raise DelegationError("feature_off", "A session may not start copies of itself here: choose another agent")
        if depth >= most:
            text = f"Copies of a session may be nested {most} deep, which this one has reached"
            raise DelegationError("depth_exceeded", f"{text}: do the work yourself")
        return depth + 1

    def _wanted(self, given: Mapping[str, Any], default: str) -> tuple[Depth, Scope]:
        depth = self.choice(given, "context_depth", DEPTHS, default)
        scope = self.choice(given, "context_scope", SCOPES, "conversation")
        if not self._features.max_turns:
            depth = "none"
        return cast(Depth, depth), cast(Scope, scope)

    async def _preferred(self, given: Mapping[str, Any], role: str | None) -> list[dict[str, Any]] | None:
        """Return the preferred models: named ones take precedence over a role."""
        if not self._features.selects_provider:
            return None
        named = self.preferences(given)
        if role is None:
            return named
        found = await preferences_of_role(self.coordinator, role)
        return named if named is not None else found or None

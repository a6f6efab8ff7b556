"""The base class of tools that delegate to child sessions: from the model's input to the tool result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, Final

from amplifier_core.data import reason
from amplifier_core.models import ToolResult
from amplifier_kit.awaitable import maybe_await
from amplifier_kit.engine.delegation.child_run import ChildEvents, ChildRun, Outcome
from amplifier_kit.engine.delegation.parent_context import Depth, Scope, inherited_text, with_context
from amplifier_kit.engine.delegation.request import (
    SELF,
    AgentDirectory,
    DelegationConfig,
    DelegationError,
    DelegationRequest,
    Dispatch,
)
from amplifier_kit.engine.delegation.session_ids import child_session_id, delegation_depth, is_session_id

_LONGEST_NAME: Final = 200


class DelegatingTool(ABC):
    """Run a child session and wait for it; subclasses define input and result."""

    name: ClassVar[str]
    events: ClassVar[ChildEvents]
    #: The action that policy rules name.
    action: ClassVar[str] = "session.spawn"
    #: None: the tool enforces its own timeout, which gives the child time to shut down.
    deadline: ClassVar[float | None] = None

    def __init__(self, coordinator: Any, settings: DelegationConfig) -> None:
        self.coordinator = coordinator
        self.settings = settings
        self._working: set[str] = set()

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Run the child that the input asks for; every failure is a result and an event."""
        given = input if isinstance(input, Mapping) else {}
        dispatch = Dispatch.current(self.coordinator)
        try:
            request = await self.request(given, dispatch)
            with self._slot_for(request):
                return self.result(request, await self._run_of(request).to_end())
        except DelegationError as error:
            failure = error
        except Exception as error:
            failure = DelegationError("delegation_failed", f"The delegation failed: {reason(error)}")
        agent, session_id = (str(given.get(key) or "")[:_LONGEST_NAME] for key in ("agent", "session_id"))
        refused = DelegationRequest(agent=agent, instruction="", session_id=session_id, dispatch=dispatch)
        await self._run_of(refused).refuse(Outcome.raised(failure, refused, None))
        named = {"agent": agent, "session_id": session_id}
        return failure.result(**{key: value for key, value in named.items() if value})

    @abstractmethod
    async def request(self, given: Mapping[str, Any], dispatch: Dispatch) -> DelegationRequest:
        """Return the request for a child, or raise DelegationError."""

    @abstractmethod
    def result(self, request: DelegationRequest, outcome: Outcome) -> ToolResult:
        """Return the tool result for an outcome."""

    # -- reading the input, for subclasses; all raise DelegationError for invalid values --

    def text(self, given: Mapping[str, Any], key: str) -> str | None:
        """Return a text, None when it is missing or blank."""
        value = given.get(key)
        if value is None:
            return None
        if not isinstance(value, str):
            raise DelegationError("invalid_input", f"'{key}' must be text, got {type(value).__name__}")
        return value if value.strip() else None

    def choice(self, given: Mapping[str, Any], key: str, choices: tuple[str, ...], default: str) -> str:
        """Return one of the choices, by default `default`."""
        value = given.get(key)
        if value is None or value == "":
            return default
        if value not in choices:
            raise DelegationError("invalid_input", f"'{key}' must be one of {', '.join(choices)}, got {value!r:.100}")
        return str(value)

    def turns(self, given: Mapping[str, Any], key: str, default: int) -> int:
        turns = given.get(key)
        if turns is None:
            return default
        if isinstance(turns, bool) or not isinstance(turns, int) or turns < 1:
            raise DelegationError("invalid_input", f"'{key}' must be a whole number above 0, got {turns!r:.100}")
        return turns

    def instruction(self, given: Mapping[str, Any]) -> str:
        text = self.text(given, "instruction")
        if text is None:
            raise DelegationError("invalid_input", "'instruction' is missing: say what the agent should do and report")
        return text

    def agent(self, given: Mapping[str, Any]) -> str:
        """Return the full name of the agent that the input names."""
        name, agents = self.text(given, "agent"), AgentDirectory.of(self.coordinator)
        if name is None:
            names = ", ".join(agents.agents) or "none"
            raise DelegationError("invalid_input", f"'agent' is missing; there are: {names}")
        name = name.strip()[:_LONGEST_NAME]
        return name if name == SELF else agents.find(name)

    def preferences(self, given: Mapping[str, Any]) -> list[dict[str, Any]] | None:
        """Return the preferred models, best first; None without any."""
        value = given.get("provider_preferences")
        if value is None or value == []:
            return None
        if not isinstance(value, list):
            raise DelegationError("invalid_input", "'provider_preferences' must be a list of {provider, model}")
        return [_preference(index, entry) for index, entry in enumerate(value)]

    # -- building the request, for subclasses --

    def resumed_id(self, given: Mapping[str, Any]) -> str | None:
        """Return the id of the child to resume, None to start a new one."""
        session_id = self.text(given, "session_id")
        if session_id is None:
            return None
        session_id = session_id.strip()
        if not is_session_id(session_id):
            raise DelegationError("invalid_input", f"'session_id' {session_id!r:.100} is not the id of a session")
        return session_id

    async def resume_request(
        self, given: Mapping[str, Any], session_id: str, instruction: str, dispatch: Dispatch
    ) -> DelegationRequest:
        """Return the request to resume a child; its agent is from the app's records, else from the input or the id."""
        ask = getattr(self.coordinator.get_capability("session.resume"), "agent_of", None)
        agent = await maybe_await(ask(session_id)) if callable(ask) else None
        if not isinstance(agent, str) or not agent:
            agent = self.text(given, "agent") or session_id.partition("_")[2] or session_id
        return DelegationRequest(
            agent=agent, instruction=instruction, session_id=session_id, is_resumed=True, dispatch=dispatch
        )

    def check_depth(self) -> None:
        """Raise DelegationError when this session may not have children."""
        most = self.settings.max_recursion_depth
        if delegation_depth(self.coordinator) >= most:
            raise DelegationError(
                "depth_exceeded",
                f"Delegation is limited to a depth of {most}, which this session has reached: do the work yourself",
            )

    def self_depth(self) -> int:
        """Return how many sessions above this one, itself included, are copies of each other."""
        depth = self.coordinator.get_capability("self_delegation_depth")
        return depth if isinstance(depth, int) and not isinstance(depth, bool) else 0

    async def child_id(self, dispatch: Dispatch, agent: str, instruction: str) -> str:
        """Return the id of the child that a call starts; an app that recognises repeated calls decides it."""
        ask = getattr(self.coordinator.get_capability("session.spawn"), "child_id", None)
        if callable(ask):
            return str(await maybe_await(ask(agent, dispatch.tool_call_id, instruction)))
        return child_session_id(self.coordinator.session_id, dispatch.tool_call_id, agent)

    async def with_parent_context(
        self, instruction: str, dispatch: Dispatch, depth: Depth, turns: int, scope: Scope = "conversation"
    ) -> str:
        """Return the instruction with the requested part of the conversation before the call."""
        if depth == "none":
            return instruction
        context = self.coordinator.get("context")
        messages = await maybe_await(context.get_messages()) if hasattr(context, "get_messages") else []
        return with_context(instruction, inherited_text(messages, depth, turns, scope, dispatch.tool_call_id))

    def answer(self, outcome: Outcome) -> str:
        text, limit = outcome.response, self.settings.response_limit
        if len(text) <= limit:
            return text
        return f"{text[:limit]}\n\n[cut: the answer has {len(text)} characters, all of it is in {outcome.session_id}]"

    # -- running --

    @contextmanager
    def _slot_for(self, request: DelegationRequest) -> Iterator[None]:
        """Reserve a slot for a running child; raises DelegationError when all are taken."""
        if request.session_id in self._working:
            raise DelegationError("child_busy", f"{request.session_id!r} is working already: wait for its answer")
        if len(self._working) >= self.settings.max_parallel:
            text = f"{self.settings.max_parallel} agents are running, which is the limit"
            raise DelegationError("too_many_children", f"{text}: wait for an answer, then call again")
        self._working.add(request.session_id)
        try:
            yield
        finally:
            self._working.discard(request.session_id)

    def _run_of(self, request: DelegationRequest) -> ChildRun:
        return ChildRun(
            coordinator=self.coordinator,
            tool_name=self.name,
            request=request,
            events=self.events,
            settings=self.settings,
        )


def _preference(index: int, entry: Any) -> dict[str, Any]:
    where = f"'provider_preferences[{index}]'"
    if not isinstance(entry, Mapping):
        raise DelegationError("invalid_input", f"{where} must be {{provider, model}}, got {type(entry).__name__}")
    for key in ("provider", "model"):
        value = entry.get(key)
        if (key == "provider" or value is not None) and (not isinstance(value, str) or not value):
            raise DelegationError("invalid_input", f"{where}.{key} must be text, got {value!r:.100}")
    return {key: entry[key] for key in ("provider", "model") if entry.get(key) is not None}

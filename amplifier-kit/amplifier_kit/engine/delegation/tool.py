"""What the tools share that hand work to child sessions: from the model's input to a result it can read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, Final

from amplifier_core.models import ToolResult
from amplifier_kit.awaitable import maybe_await
from amplifier_kit.engine.delegation.child_run import ChildEvents, ChildRun
from amplifier_kit.engine.delegation.config import DelegationConfig
from amplifier_kit.engine.delegation.dispatch import Dispatch
from amplifier_kit.engine.delegation.inherited import Depth, Scope, inherited_text, with_context
from amplifier_kit.engine.delegation.lineage import child_session_id, delegation_depth, is_session_id
from amplifier_kit.engine.delegation.order import Order
from amplifier_kit.engine.delegation.outcome import Outcome
from amplifier_kit.engine.delegation.problem import Problem, told
from amplifier_kit.engine.delegation.roster import SELF, Roster

__all__ = ["DelegatingTool", "agent_of"]

_LONGEST_NAME: Final = 200


class DelegatingTool(ABC):
    """Hand work to a child session and wait for it; subclasses say what they take and what they give back."""

    name: ClassVar[str]
    events: ClassVar[ChildEvents]
    #: What rules are written about.
    action: ClassVar[str] = "session.spawn"
    #: The tool has a deadline of its own, which leaves the child time to end in order.
    deadline: ClassVar[float | None] = None

    def __init__(self, coordinator: Any, settings: DelegationConfig) -> None:
        self.coordinator = coordinator
        self.settings = settings
        self._working: set[str] = set()

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Do what the input asks for; every failure is a result and an event."""
        given = input if isinstance(input, Mapping) else {}
        dispatch = Dispatch.current(self.coordinator)
        try:
            order = await self.order(given, dispatch)
            with self._place_for(order):
                return self.result(order, await self._run_of(order).to_end())
        except Problem as problem:
            return await self._refused(problem, given, dispatch)
        except Exception as error:
            failure = Problem("delegation_failed", f"The work could not be handed over: {told(error)}")
            return await self._refused(failure, given, dispatch)

    @abstractmethod
    async def order(self, given: Mapping[str, Any], dispatch: Dispatch) -> Order:
        """Return what a child is asked for, or raise Problem."""

    @abstractmethod
    def result(self, order: Order, outcome: Outcome) -> ToolResult:
        """Return what the model reads of a child's end."""

    # -- what subclasses make orders of --

    def text(self, given: Mapping[str, Any], key: str) -> str | None:
        """Return a text that is not empty, None when there is none; raises Problem for anything else."""
        value = given.get(key)
        if value is None or value == "":
            return None
        if not isinstance(value, str):
            raise Problem("invalid_input", f"'{key}' must be text, got {type(value).__name__}")
        return value if value.strip() else None

    def choice(self, given: Mapping[str, Any], key: str, choices: tuple[str, ...], default: str) -> str:
        """Return one of the choices; raises Problem for anything else."""
        value = given.get(key)
        if value is None or value == "":
            return default
        if value not in choices:
            raise Problem("invalid_input", f"'{key}' must be one of {', '.join(choices)}, got {value!r:.100}")
        return str(value)

    def instruction(self, given: Mapping[str, Any]) -> str:
        """Return what is to be done; raises Problem when the input does not say."""
        text = self.text(given, "instruction")
        if text is None:
            raise Problem("invalid_input", "'instruction' is missing: say what the agent is to do, and what to answer")
        return text

    def agent(self, given: Mapping[str, Any]) -> str:
        """Return the agent that the input names, as the session knows it; raises Problem."""
        name = self.text(given, "agent")
        if name is None:
            names = ", ".join(Roster.of(self.coordinator).agents) or "none"
            raise Problem("invalid_input", f"'agent' is missing; there are: {names}")
        name = name.strip()[:_LONGEST_NAME]
        return name if name == SELF else Roster.of(self.coordinator).find(name)

    def resumed_id(self, given: Mapping[str, Any]) -> str | None:
        """Return the id of the child that is to go on, None when a new one is to start; raises Problem."""
        session_id = self.text(given, "session_id")
        if session_id is None:
            return None
        session_id = session_id.strip()
        if not is_session_id(session_id):
            raise Problem("invalid_input", f"'session_id' {session_id!r:.100} is not the id of a session")
        return session_id

    async def resumed_agent(self, given: Mapping[str, Any], session_id: str) -> str:
        """Return the agent of a child that goes on: as the app has it on record, else as the input or its id says."""
        ask = getattr(self.coordinator.get_capability("session.resume"), "agent_of", None)
        known = await maybe_await(ask(session_id)) if callable(ask) else None
        return known if isinstance(known, str) and known else self.text(given, "agent") or agent_of(session_id)

    def check_depth(self) -> None:
        """Raise Problem when no session may stand below this one."""
        most = self.settings.max_recursion_depth
        if delegation_depth(self.coordinator) >= most:
            raise Problem(
                "depth_exceeded",
                f"Work may be handed down {most} times and this session stands at that depth: do it yourself",
            )

    async def child_id(self, dispatch: Dispatch, agent: str, instruction: str) -> str:
        """Return the id of the child that a call starts: as the app says, which knows calls whose id came before."""
        ask = getattr(self.coordinator.get_capability("session.spawn"), "child_id", None)
        if callable(ask):
            return str(await maybe_await(ask(agent, dispatch.tool_call_id, instruction)))
        return child_session_id(self.coordinator.session_id, dispatch.tool_call_id, agent)

    async def told_with(
        self, instruction: str, dispatch: Dispatch, depth: Depth, turns: int, scope: Scope = "conversation"
    ) -> str:
        """Return the instruction with as much of the conversation before the call as is wanted."""
        if depth == "none":
            return instruction
        context = self.coordinator.get("context")
        messages = await maybe_await(context.get_messages()) if hasattr(context, "get_messages") else []
        return with_context(instruction, inherited_text(messages, depth, turns, scope, dispatch.tool_call_id))

    def preferences(self, given: Mapping[str, Any]) -> list[dict[str, Any]] | None:
        """Return the models that are preferred, best first; None when the input names none. Raises Problem."""
        value = given.get("provider_preferences")
        if value is None or value == []:
            return None
        if not isinstance(value, list):
            raise Problem("invalid_input", "'provider_preferences' must be a list of {provider, model}")
        return [_preference(index, entry) for index, entry in enumerate(value)]

    def answer(self, outcome: Outcome) -> str:
        """Return what the child said, cut when it is too much to read."""
        text, limit = outcome.response, self.settings.response_limit
        if len(text) <= limit:
            return text
        return f"{text[:limit]}\n\n[cut: the answer has {len(text)} characters, all of it is in {outcome.session_id}]"

    # -- what is the same for all --

    @contextmanager
    def _place_for(self, order: Order) -> Iterator[None]:
        """Take one of the places for children that work at the same time; raises Problem when there is none."""
        if order.session_id in self._working:
            raise Problem("child_busy", f"{order.session_id!r} is working already: wait for its answer")
        if len(self._working) >= self.settings.max_parallel:
            text = f"{self.settings.max_parallel} agents are working already, more may not at the same time"
            raise Problem("too_many_children", f"{text}: wait for an answer, then call again")
        self._working.add(order.session_id)
        try:
            yield
        finally:
            self._working.discard(order.session_id)

    def _run_of(self, order: Order) -> ChildRun:
        return ChildRun(
            coordinator=self.coordinator,
            tool_name=self.name,
            order=order,
            events=self.events,
            settings=self.settings,
        )

    async def _refused(self, problem: Problem, given: Mapping[str, Any], dispatch: Dispatch) -> ToolResult:
        named = [str(given.get(key) or "")[:_LONGEST_NAME] for key in ("agent", "session_id")]
        order = Order(agent=named[0], instruction="", session_id=named[1], dispatch=dispatch)
        await self._run_of(order).refused(Outcome.raised(problem, order, None))
        return problem.result(
            **{key: value for key, value in zip(("agent", "session_id"), named, strict=True) if value}
        )


def agent_of(session_id: str) -> str:
    """Return the agent that a child's id names, for events about one that goes on."""
    return session_id.partition("_")[2] or session_id


def _preference(index: int, entry: Any) -> dict[str, Any]:
    where = f"'provider_preferences[{index}]'"
    if not isinstance(entry, Mapping):
        raise Problem("invalid_input", f"{where} must be {{provider, model}}, got {type(entry).__name__}")
    for key in ("provider", "model"):
        value = entry.get(key)
        if (key == "provider" or value is not None) and (not isinstance(value, str) or not value):
            raise Problem("invalid_input", f"{where}.{key} must be text, got {value!r:.100}")
    return {key: entry[key] for key in ("provider", "model") if entry.get(key) is not None}

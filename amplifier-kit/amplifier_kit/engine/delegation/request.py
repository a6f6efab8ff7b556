"""The request for a child session: config, agent and tool call, and how it reaches the app."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field, Strict, model_validator

from amplifier_core.models import ToolResult
from amplifier_kit.config import Config, Count, Seconds, expects
from amplifier_kit.engine.current_call import call_in_progress
from amplifier_kit.engine.delegation.session_ids import DEPTH_KEY, delegation_depth, plan_section
from amplifier_kit.named_tuple import NamedTuple
from amplifier_kit.struct import FrozenStruct

_LONGEST_ERROR: Final = 4_000


class Preference(dict[str, Any]):
    """A preferred model for apps that read it as a mapping, and for published ones that read attributes."""

    @property
    def provider(self) -> str:
        return str(self["provider"])

    @property
    def model(self) -> str:
        return str(self.get("model") or "")

    @property
    def config(self) -> dict[str, Any]:
        return dict(self.get("config") or {})

    def to_dict(self) -> dict[str, Any]:
        """Return it as a plain mapping."""
        return dict(self)


class DelegationError(Exception):
    """A delegation failed; the message is for the model, `code` for programs."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message[:_LONGEST_ERROR])
        self.code = code

    def result(self, **more: Any) -> ToolResult:
        return ToolResult(success=False, output=str(self), error={"message": str(self), "code": self.code, **more})


# -- config --

#: The description of the key, for tools that give it another default.
EXCLUDE_TOOLS: Final = "Tool modules that a child does not get; by default those that delegate."

_Deadline = Annotated[
    Seconds | None,
    BeforeValidator(lambda value: None if value == -1 else value),
    expects("a positive number of seconds, or null for no limit"),
]
ModuleNames = Annotated[tuple[str, ...], Strict(False), expects("a list of module names")]


class DelegationConfig(Config):
    """The limits of child sessions; a tool sets the default of `exclude_tools`."""

    timeout: _Deadline = Field(3600.0, description="Seconds that a child may take; null or -1 for no limit.")
    heartbeat_interval: _Deadline = Field(
        30.0, description="Seconds between heartbeat events while a child works; null or -1 for none."
    )
    max_parallel: Count = Field(10, description="Children of this session that may work at the same time.")
    max_recursion_depth: Annotated[int, Field(ge=0)] = Field(
        5, description="How deep child sessions may be nested below the first session."
    )
    response_limit: Annotated[int, Field(ge=1000)] = Field(
        100_000, description="Characters of an answer that are returned."
    )
    exclude_tools: ModuleNames | None = Field(None, description=EXCLUDE_TOOLS)
    inherit_tools: ModuleNames | None = Field(None, description="Tool modules that a child gets, and no others.")
    exclude_hooks: ModuleNames | None = Field(None, description="Hook modules that a child does not get.")
    inherit_hooks: ModuleNames | None = Field(None, description="Hook modules that a child gets, and no others.")

    @model_validator(mode="before")
    @classmethod
    def _let_inherited_tools_win(cls, data: Any) -> Any:
        """Exclude nothing by default when `inherit_tools` is set."""
        if isinstance(data, Mapping) and "inherit_tools" in data and "exclude_tools" not in data:
            return {**data, "exclude_tools": None}
        return data

    def inheritance(self, kind: str) -> dict[str, list[str]] | None:
        """Return the rules for "tools" or "hooks" of a child; None when it gets all."""
        names = {key: getattr(self, key) for key in (f"exclude_{kind}", f"inherit_{kind}")}
        return {key: list(value) for key, value in names.items() if value is not None} or None


# -- agents --

#: The agent name for a copy of the session itself.
SELF: Final = "self"
_LONGEST_DESCRIPTION: Final = 600
_MOST_NAMED: Final = 40


class AgentDirectory:
    """The agents that a session can delegate to, by name."""

    def __init__(self, agents: Mapping[str, Any] | None = None) -> None:
        self.agents: dict[str, Mapping[str, Any]] = {
            name: definition if isinstance(definition, Mapping) else {}
            for name, definition in (agents or {}).items()
            if isinstance(name, str) and name and (name != "include" or isinstance(definition, Mapping))
        }

    @classmethod
    def of(cls, coordinator: Any) -> AgentDirectory:
        """Return the agents in the current plan of a session."""
        return cls(plan_section(getattr(coordinator, "config", None), "agents"))

    def describe(self) -> str:
        """Return one line for each agent with its purpose; empty without agents."""
        lines = []
        for name, agent in self.agents.items():
            text = agent.get("description")
            if not isinstance(text, str):
                text = plan_section(agent, "meta").get("description")
            line = " ".join(text.split()) if isinstance(text, str) else ""
            if len(line) > _LONGEST_DESCRIPTION:
                line = f"{line[:_LONGEST_DESCRIPTION]}..."
            lines.append(f"- {name}: {line or '(no description)'}")
        return "\n".join(lines)

    def find(self, name: str) -> str:
        """Return the full name of an agent: `name` itself, or the only name that ends in `:name`.

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
        from difflib import get_close_matches  # rarely needed

        if ends:
            return f"say which of {', '.join(map(repr, ends))} you mean"
        if not self.agents:
            return "this session has no agents; do the work yourself"
        # A misspelt name usually means the last part of an agent's name.
        shorts = {known.rpartition(":")[2]: known for known in self.agents}
        near = get_close_matches(name, [*self.agents, *shorts], n=1)
        if near:
            return f"did you mean {shorts.get(near[0], near[0])!r}?"
        return f"there are {', '.join(list(self.agents)[:_MOST_NAMED])}"


# -- the request --


class Dispatch(NamedTuple):
    """The ids of the tool call that a delegating tool executes; None when the orchestrator noted none."""

    tool_call_id: str | None = None
    parallel_group_id: str | None = None

    @classmethod
    def current(cls, coordinator: Any) -> Dispatch:
        """Return the call that runs in this task, in the one that started it, or that the session says is running."""
        found = call_in_progress(coordinator) or {}
        ids = (found.get(key) for key in cls._fields)
        return cls(*(value if isinstance(value, str) and value else None for value in ids))

    def known(self) -> dict[str, str]:
        return {key: value for key, value in self._asdict().items() if value is not None}


class DelegationRequest(FrozenStruct):
    """One task for one child, new or resumed."""

    agent: str
    instruction: str
    #: The id of the child to start or to resume.
    session_id: str
    is_resumed: bool = False
    dispatch: Dispatch = field(default_factory=Dispatch)
    provider_preferences: list[dict[str, Any]] | None = None
    self_delegation_depth: int = 0
    #: Config of the child's loop, over that of its plan.
    orchestrator_config: dict[str, Any] | None = None
    use_subprocess: bool = False
    #: More fields of its events, such as the context it got.
    details: Mapping[str, Any] = field(default_factory=dict)

    async def submit(self, coordinator: Any, settings: DelegationConfig) -> Any:
        """Start or resume the child and return its answer; raises DelegationError when the app cannot."""
        name = "session.resume" if self.is_resumed else "session.spawn"
        capability = coordinator.get_capability(name)
        if not callable(capability):
            raise DelegationError(
                "capability_missing",
                f"{name} capability not available: this app runs no child sessions. Do the work yourself",
            )
        if self.is_resumed:
            answer = capability(self.session_id, self.instruction)
        else:
            answer = capability(**self._spawn_arguments(coordinator, settings, capability))
        if not inspect.isawaitable(answer):
            raise DelegationError("spawn_failed", f"the app returned {type(answer).__name__} instead of an awaitable")
        return await answer

    def _spawn_arguments(
        self, coordinator: Any, settings: DelegationConfig, spawn: Callable[..., Awaitable[Any]]
    ) -> dict[str, Any]:
        if (known := _short_parameters(spawn)) is not None:
            short = {"agent_name": self.agent, "task": self.instruction, "parent_session": coordinator.session}
            return {key: value for key, value in short.items() if key in known}
        depth = delegation_depth(coordinator) + 1
        return {
            "agent_name": self.agent,
            "instruction": self.instruction,
            "parent_session": coordinator.session,
            "agent_configs": dict(plan_section(coordinator.config, "agents")),
            "sub_session_id": self.session_id,
            "tool_inheritance": settings.inheritance("tools"),
            "hook_inheritance": settings.inheritance("hooks"),
            "orchestrator_config": self.orchestrator_config,
            "provider_preferences": self.provider_preferences and [*map(Preference, self.provider_preferences)],
            "self_delegation_depth": self.self_delegation_depth,
            **({"use_subprocess": True} if self.use_subprocess else {}),
            "session_metadata": {"agent_name": self.agent, **self.dispatch.known(), DEPTH_KEY: depth},
        }


def _short_parameters(spawn: Callable[..., Any]) -> Mapping[str, inspect.Parameter] | None:
    """Return the parameters of an app's spawn with the shorter contract, `(agent_name, task, parent_session)`."""
    try:
        known = inspect.signature(spawn).parameters
    except (TypeError, ValueError):
        return None
    takes_all = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in known.values())
    return known if "task" in known and "instruction" not in known and not takes_all else None

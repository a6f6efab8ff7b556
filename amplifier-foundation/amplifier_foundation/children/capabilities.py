"""Let sessions have children: the capabilities by which modules spawn and resume them, and their arguments.

async with SessionRuntime(prepared, spawner=Spawner()) as runtime: ...

spawn = coordinator.get_capability("session.spawn")
result = await spawn("explorer", "Find the tests.")
result = await spawn(agent_name="explorer", instruction="Find the tests.", tool_call_id=call_id)
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from amplifier_foundation.children.errors import SpawnError
from amplifier_foundation.sessions.capabilities import Lazy
from amplifier_kit.struct import FrozenStruct

if TYPE_CHECKING:
    from amplifier_foundation.children.model_roles import ModelRoles
    from amplifier_foundation.children.spawn import ChildSessions
    from amplifier_foundation.plan.prepared import Prepared
    from amplifier_foundation.sessions.resume import SavedSession
    from amplifier_foundation.sessions.runtime import SessionRuntime
    from amplifier_kit.engine.routing.resolver import RoleResolver

logger = logging.getLogger(__name__)

#: The capability that knows the models of roles; a module may put its own in its place.
MODEL_ROLES: Final = "model_role_resolver"
#: The name of the resolver that knows the roles of the settings.
BY_SETTINGS: Final = "settings"
#: `amplifier_kit.modes.DISCOVERY`, which only sessions with modes import.
_MODES: Final = "mode_discovery"
#: The agent name for a copy of the session itself.
SELF: Final = "self"


class SpawnRequest(FrozenStruct):
    """The arguments of one call of `session.spawn`."""

    agent: str
    instruction: str
    sub_session_id: str | None = None
    tool_inheritance: Mapping[str, Any] = field(default_factory=dict)
    hook_inheritance: Mapping[str, Any] = field(default_factory=dict)
    orchestrator_config: Mapping[str, Any] = field(default_factory=dict)
    parent_messages: Sequence[Mapping[str, Any]] = ()
    provider_preferences: Sequence[Mapping[str, Any]] = ()
    #: A role, or several of which the first with a model counts.
    model_role: str | Sequence[str] | None = None
    self_delegation_depth: int = 0
    session_metadata: Mapping[str, Any] = field(default_factory=dict)
    use_subprocess: bool = False
    tool_call_id: str | None = None
    parallel_group_id: str | None = None
    timeout: float | None = None

    @classmethod
    def of(cls, agent_name: Any, instruction: Any, **more: Any) -> SpawnRequest:
        """Check the arguments of a caller, None meaning not given; raises SpawnError that names the argument."""
        if not isinstance(agent_name, str) or not agent_name.strip():
            raise SpawnError(f"agent_name must be the name of an agent, got {agent_name!r}")
        if not isinstance(instruction, str) or not instruction.strip():
            raise SpawnError(f"instruction must be a text that says what to do, got {instruction!r}")
        given = {name: value for name, value in more.items() if value is not None}
        for name, value in given.items():
            types, description = _ARGUMENTS[name]
            if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
                raise SpawnError(f"{name} must be {description}, got {value!r}")
        for message in given.get("parent_messages", ()):
            if not isinstance(message, Mapping):
                raise SpawnError(f"parent_messages: each must be a message with role and content, got {message!r:.100}")
        preferences = [preference_of(entry) for entry in given.get("provider_preferences", ())]
        if preferences:
            given["provider_preferences"] = preferences
        return cls(agent_name.strip(), instruction, **given)


def preference_of(entry: Any) -> dict[str, Any]:
    """Return a preference as a mapping: callers may have objects with `provider`, `model` and `config`."""
    given = (
        dict(entry)
        if isinstance(entry, Mapping)
        else {key: getattr(entry, key, None) for key in ("provider", "model", "config")}
    )
    if not isinstance(given.get("provider"), str) or not given["provider"]:
        raise SpawnError(f"provider_preferences: each needs a 'provider', got {entry!r}")
    for key, kind in (("model", str), ("config", Mapping)):
        if given.get(key) is not None and not isinstance(given[key], kind):
            raise SpawnError(f"provider_preferences: '{key}' cannot be {given[key]!r}")
    # An empty model is the default of the provider.
    return {key: value for key, value in given.items() if value is not None and not (key == "model" and not value)}


_TEXT: Final = ((str,), "a text")
_MAPPING: Final = ((Mapping,), "a mapping")
_LIST: Final = ((list, tuple), "a list")
_ARGUMENTS: Final[dict[str, tuple[tuple[type, ...], str]]] = {
    "sub_session_id": _TEXT,
    "tool_inheritance": _MAPPING,
    "hook_inheritance": _MAPPING,
    "orchestrator_config": _MAPPING,
    "parent_messages": _LIST,
    "provider_preferences": _LIST,
    "model_role": ((str, list, tuple), "a role or a list of roles"),
    "self_delegation_depth": ((int,), "a whole number"),
    "session_metadata": _MAPPING,
    "use_subprocess": ((bool,), "true or false"),
    "tool_call_id": _TEXT,
    "parallel_group_id": _TEXT,
    "timeout": ((float, int), "a number of seconds"),
}


class Spawner:
    """Lets the sessions that get it have children; a child gets it from its parent."""

    def children_of(self, parent: SessionRuntime) -> LazyChildren:
        """Return the children of a session."""
        return LazyChildren(parent)

    def recover(self, saved: SavedSession) -> SavedSession:
        """Return an interrupted session with the results of children that have finished since."""
        from amplifier_foundation.children.resume import recover_results

        return recover_results(saved)


class LazyChildren:
    """The children of one session; what most sessions never need is imported on first use."""

    def __init__(self, parent: SessionRuntime) -> None:
        self._parent = parent

    @cached_property
    def sessions(self) -> ChildSessions:
        """Spawns and resumes them."""
        from amplifier_foundation.children.spawn import ChildSessions

        return ChildSessions(self._parent, self.roles)

    @cached_property
    def roles(self) -> ModelRoles:
        """The models of each role."""
        from amplifier_foundation.children.model_roles import ModelRoles
        from amplifier_foundation.sessions.origin import answering_provider

        prepared, coordinator = self._parent.prepared, self._parent.session.coordinator
        return ModelRoles(prepared.home, prepared.project, lambda: answering_provider(coordinator))

    @cached_property
    def resolver(self) -> RoleResolver:
        """Picks a model for a role."""
        from amplifier_kit.engine.routing.resolver import RoleResolver

        roles = self.roles
        return RoleResolver(self._parent.session.coordinator, lambda: roles.known_roles, roles.candidates, BY_SETTINGS)

    @property
    def running(self) -> list[SessionRuntime]:
        """The sessions of the running children; may be read from another thread."""
        return self.sessions.running if "sessions" in self.__dict__ else []

    async def spawn_prepared(self, request: SpawnRequest, prepared: Prepared) -> dict[str, Any]:
        """Run a task in a child whose parts an app has prepared; see `ChildSessions.spawn_prepared`."""
        return await self.sessions.spawn_prepared(request, prepared)

    def connect(self) -> None:
        """Register the capabilities by which modules spawn children."""
        coordinator = self._parent.session.coordinator
        coordinator.register_capability("session.spawn", SpawnCapability(lambda: self.sessions))
        coordinator.register_capability("session.resume", ResumeCapability(lambda: self.sessions))
        coordinator.register_capability(MODEL_ROLES, Lazy(lambda: self.resolver))
        if self._parent.saved is not None:
            coordinator.register_contributor("session.cost", "delegate:past", lambda: self.sessions.past_cost())

    def offer_overlay(self) -> None:
        """Let the modes of the session contribute to it, if it has modes."""
        if _MODES in self._parent.session.coordinator.session_state:
            from amplifier_foundation.children.mode_overlay import offer_overlay

            offer_overlay(self._parent)

    async def close(self) -> None:
        """Cancel the running children."""
        if "sessions" in self.__dict__:
            await self.sessions.close()


def first_candidates(roles: ModelRoles, wanted: str | Sequence[str]) -> list[dict[str, Any]]:
    """Return the candidates of a role, or of the first role of a list that has some."""
    for role in [wanted] if isinstance(wanted, str) else wanted:
        if found := roles.candidates(role):
            return found
    return []


class SpawnCapability:
    """`session.spawn`: start a child session and return `{output, session_id, status, turn_count, metadata}`."""

    def __init__(self, children: Callable[[], ChildSessions]) -> None:
        self._children = children

    async def __call__(
        self,
        agent_name: Any = None,
        instruction: Any = None,
        parent_session: Any = None,
        agent_configs: Mapping[str, Any] | None = None,
        *,
        task: Any = None,
        **options: Any,
    ) -> dict[str, Any]:
        """Run a task in a child session; `task` is the older name of `instruction`.

        `options` are the other fields of SpawnRequest; unknown ones are ignored with a warning.

        The parent is the session that has the capability; a `parent_session` that is another one is refused.
        `use_subprocess` is accepted and logged: the child runs in this process.
        Raises SpawnError before anything was started, ChildError for a child that was started but did not answer, and
        the budget's error when it does not allow another child.
        """
        children = self._children()
        children.check_parent(parent_session)
        unknown = sorted(options.keys() - _ARGUMENTS.keys())
        if unknown:
            logger.warning("session.spawn does not know, and ignores: %s", ", ".join(unknown))
        known = {name: value for name, value in options.items() if name in _ARGUMENTS}
        request = SpawnRequest.of(agent_name, instruction if instruction is not None else task, **known)
        return await children.spawn(request, agent_configs)

    def child_id(self, agent_name: str, tool_call_id: str | None = None, instruction: str | None = None) -> str:
        """Return the id that the child of a call will have; without a call id, a new one every time."""
        return self._children().child_id(agent_name, tool_call_id, instruction)


class ResumeCapability:
    """`session.resume`: give a child session another task; the result is that of `session.spawn`."""

    def __init__(self, children: Callable[[], ChildSessions]) -> None:
        self._children = children

    async def __call__(
        self,
        sub_session_id: Any = None,
        instruction: Any = None,
        *,
        session_id: Any = None,
        task: Any = None,
        parent_session: Any = None,
        tool_call_id: str | None = None,
        parallel_group_id: str | None = None,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """Resume a child with its prompt, agent and history; `task` and `session_id` are older names.

        Raises as `session.spawn` does, and ChildUnknownError for an unknown child.
        """
        children = self._children()
        children.check_parent(parent_session)
        request = SpawnRequest.of(
            SELF,
            instruction if instruction is not None else task,
            tool_call_id=tool_call_id,
            parallel_group_id=parallel_group_id,
            timeout=timeout,
        )
        return await children.resume(sub_session_id if sub_session_id is not None else session_id, request)

    def agent_of(self, session_id: str) -> str | None:
        """Return the agent of a child of this session; None for an unknown child."""
        return self._children().agent_of(session_id)

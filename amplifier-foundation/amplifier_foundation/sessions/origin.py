"""What a child session gets from its parent: who it is, its place in the tree, and what the user changed in the parent.

While a session runs, users take tools and providers out, pin a provider, choose a model, and have tools confirmed.
Children must keep to that, or an agent could do what was switched off for its session.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from amplifier_kit.named_tuple import NamedTuple
from amplifier_kit.struct import FrozenStruct

if TYPE_CHECKING:
    from amplifier_foundation.plan.prepared import Prepared
    from amplifier_foundation.sessions.permissions import SessionPermissions
    from amplifier_foundation.sessions.resume import SavedSession
    from amplifier_foundation.sessions.runtime import SessionRuntime
    from amplifier_foundation.usage.budget import SessionBudget

#: The key in `session_state` for the provider that the user chose.
_PINNED: Final = "pinned_provider"
#: The key in `session_state` for the names of tools that the user wants to confirm.
_CONFIRMED: Final = "require_approval_tools"
_EVERY: Final = "every tool"
#: The attributes in which providers keep the model for requests that name none.
_MODELS: Final = ("default_model", "model")


class ChildFacts(NamedTuple):
    """Identify a child session, as plain data."""

    session_id: str
    parent_id: str
    agent: str
    #: The number of its ancestors: 1 for the child of a root.
    depth: int
    tool_call_id: str | None = None
    parallel_group_id: str | None = None


#: Called with every event of every descendant of a session: whose it is, its name, its payload. It must not block.
OnChildEvent = Callable[[ChildFacts, str, dict[str, Any]], None]


class Mounted(FrozenStruct):
    """What was mounted when a session was ready: the names of its tools, and its providers with their models."""

    tools: frozenset[str] = frozenset()
    providers: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, coordinator: Any) -> Mounted:
        """Read it from a session."""
        providers = coordinator.get("providers") or {}
        models = {name: getattr(provider, _model_attribute(provider), None) for name, provider in providers.items()}
        return cls(frozenset(coordinator.get("tools") or ()), models)


class UserChanges(FrozenStruct):
    """What the user changed in a running session and its ancestors."""

    #: Tools and providers that were taken out.
    tools: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()
    pinned: str | None = None
    models: Mapping[str, str] = field(default_factory=dict)
    #: Tools that must be confirmed; None for all, when the names cannot be read.
    confirmed: tuple[str, ...] | None = ()

    @classmethod
    def since(cls, before: Mounted, coordinator: Any, above: UserChanges | None = None) -> UserChanges:
        """Return what was changed since a session was ready, with the changes above it."""
        above = above or cls()
        now = Mounted.of(coordinator)
        pinned = coordinator.session_state.get(_PINNED)
        chosen = {
            name: model
            for name, model in now.providers.items()
            if isinstance(model, str) and name in before.providers and model != before.providers[name]
        }
        return cls(
            tuple(sorted({*above.tools, *(before.tools - now.tools)})),
            tuple(sorted({*above.providers, *(before.providers.keys() - now.providers.keys())})),
            pinned if isinstance(pinned, str) else None,
            {**above.models, **chosen},
            _union(above.confirmed, _tool_names(coordinator.session_state.get(_CONFIRMED))),
        )

    def without_model_choice(self) -> UserChanges:
        """Return the same for a child that was given a provider."""
        return UserChanges(self.tools, self.providers, confirmed=self.confirmed)

    def apply(self, coordinator: Any) -> None:
        """Change a child that is ready; its last provider stays."""
        tools, providers = coordinator.get("tools"), coordinator.get("providers")
        for name in self.tools:
            tools.pop(name, None)
        for name in self.providers:
            if len(providers) > 1:
                providers.pop(name, None)
        for name, model in self.models.items():
            if name in providers:
                setattr(providers[name], _model_attribute(providers[name]), model)
        if self.pinned in providers:
            coordinator.session_state[_PINNED] = self.pinned
        confirmed = _union(self.confirmed, _tool_names(coordinator.session_state.get(_CONFIRMED)))
        if confirmed != ():
            # hooks-approval asks for every tool when this is not a list of names.
            coordinator.session_state[_CONFIRMED] = set(confirmed) if confirmed is not None else _EVERY


class Origin(FrozenStruct):
    """What a child session gets from its parent."""

    facts: ChildFacts
    #: Its folder, beside that of its parent.
    folder: Path
    #: The folder of the root session, which has the blobs and the rules of the whole tree.
    root_folder: Path
    root_id: str
    #: Keys of its metadata that sessions without a parent do not have.
    metadata: dict[str, Any] = field(default_factory=dict)
    working_dir: str | None = None
    self_delegation_depth: int = 0
    #: Texts that must not be in its files, besides its own secrets.
    secrets: tuple[str, ...] = ()
    #: Plans whose rules hold for it: that of the root, and those of its ancestors' agents that bring rules.
    rules: tuple[Mapping[str, Any], ...] = ()
    changes: UserChanges = field(default_factory=UserChanges)
    #: Capabilities of the parent that the child shares.
    capabilities: dict[str, Any] = field(default_factory=dict)
    #: The permissions by `rules`, one for each.
    permissions: tuple[SessionPermissions, ...] = ()
    budget: SessionBudget | None = None


class Children(Protocol):
    """The child sessions of one running session."""

    @property
    def running(self) -> Sequence[SessionRuntime]:
        """The sessions of the running children; may be read from another thread."""
        ...

    def connect(self) -> None:
        """Register the capabilities by which modules spawn children."""
        ...

    def offer_overlay(self) -> None:
        """Let the modes of the session contribute agents, once its modules are loaded."""
        ...

    async def spawn_prepared(self, request: Any, prepared: Prepared) -> dict[str, Any]:
        """Run a task in a child whose parts an app has prepared; see `ChildSessions.spawn_prepared`."""
        ...

    async def close(self) -> None:
        """Cancel the running children."""
        ...


class Spawner(Protocol):
    """Lets sessions have children. Apps give `amplifier_foundation.children.Spawner` to `SessionRuntime`."""

    def children_of(self, parent: SessionRuntime) -> Children:
        """Return the children of a session."""
        ...

    def recover(self, saved: SavedSession) -> SavedSession:
        """Return an interrupted session with the results of children that have finished since."""
        ...


def answering_provider(coordinator: Any) -> dict[str, str] | None:
    """Return the name of the provider that answers now, with its model if known; None without any provider."""
    from amplifier_kit.engine.loop.request import choose_provider

    providers = coordinator.get("providers")
    if not providers:
        return None
    pinned = coordinator.session_state.get(_PINNED)
    choice = choose_provider(providers, pinned if isinstance(pinned, str) else None)
    model = getattr(choice.provider, _model_attribute(choice.provider), None)
    return {"provider": choice.name} | ({"model": model} if isinstance(model, str) and model else {})


def _model_attribute(provider: Any) -> str:
    return next((name for name in _MODELS if isinstance(getattr(provider, name, None), str)), _MODELS[0])


def _tool_names(state: Any) -> tuple[str, ...] | None:
    """Return the names of tools in a state; None for all, as hooks-approval reads what is not a list of names."""
    if state is None:
        return ()
    return tuple(state) if isinstance(state, list | tuple | set | frozenset | dict) else None


def _union(above: Sequence[str] | None, own: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if above is None or own is None else tuple(sorted({str(name) for name in (*above, *own)}))

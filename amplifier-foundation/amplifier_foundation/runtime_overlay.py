"""Add agents, context and skills to a running session, counted by who asked for them, and take them away again."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from amplifier_foundation.merge import copied

__all__ = [
    "RUNTIME_CONTEXT_OVERLAY_CAPABILITY",
    "RUNTIME_SKILL_OVERLAY_CAPABILITY",
    "RuntimeOverlay",
    "TransitionResult",
]

#: The capability that lists the context that is added now; each entry is a path or a mention.
RUNTIME_CONTEXT_OVERLAY_CAPABILITY: Final = "runtime_context_overlay"
#: The capability that lists the skills that are added now.
RUNTIME_SKILL_OVERLAY_CAPABILITY: Final = "runtime_skill_overlay"

_KINDS: Final = ("agents", "context", "skills")
_LISTS: Final = {"context": RUNTIME_CONTEXT_OVERLAY_CAPABILITY, "skills": RUNTIME_SKILL_OVERLAY_CAPABILITY}


@dataclass
class TransitionResult:
    """What applying or revoking a scope did; names are `kind:name`."""

    success: bool
    scope: str
    mounted: list[str] = field(default_factory=list)
    unmounted: list[str] = field(default_factory=list)
    #: What had been done and was undone, because a later part failed.
    rolled_back: list[str] = field(default_factory=list)
    error: str | None = None


#: Kind, name and value.
_Part = tuple[str, str, Any]


class RuntimeOverlay:
    """Additions to one session by scope, such as the name of a mode.

    A part that several scopes add is there until the last of them is revoked. A transition happens as a whole or not
    at all. Agents go into `coordinator.config["agents"]`; one that the session has already stays as it was.
    """

    def __init__(self, coordinator: Any, *, success_event: str, failure_event: str, bundle: Any = None) -> None:
        """Emit these events after each transition; `bundle` has the files of agents that are added by name alone."""
        self._coordinator = coordinator
        self._success_event, self._failure_event = success_event, failure_event
        self._bundle = bundle
        #: The parts of each scope: kind, name and value.
        self._scopes: dict[str, list[_Part]] = {}
        self._counts: dict[tuple[str, str], int] = {}
        #: Agents that the session had before any scope named them.
        self._own: set[str] = set()
        self._lock = asyncio.Lock()

    async def apply(self, scope: str, contributions: Mapping[str, Any]) -> TransitionResult:
        """Add the agents, context and skills of a scope; a scope that is applied already is replaced."""
        return await self._change(scope, contributions)

    async def revoke(self, scope: str) -> TransitionResult:
        """Take away what a scope added and no other scope needs; an unknown scope is a success without any change."""
        return await self._change(scope, {})

    async def _change(self, scope: str, contributions: Mapping[str, Any]) -> TransitionResult:
        async with self._lock:
            result = TransitionResult(True, scope)
            before = dict(self._scopes), dict(self._counts), set(self._own), dict(self._agents())
            try:
                self._swap(self._scopes.get(scope, []), self._parts(contributions), result)
            except Exception as error:  # the caller gets it in the result
                self._scopes, self._counts, self._own, agents = before
                self._agents().clear()
                self._agents().update(agents)
                rolled_back = [*result.mounted, *result.unmounted]
                result = TransitionResult(
                    False, scope, rolled_back=rolled_back, error=f"{type(error).__name__}: {error}"
                )
            event = self._success_event if result.success else self._failure_event
            payload = {key: value for key, value in vars(result).items() if key != "success"}
            await self._coordinator.hooks.emit(event, payload)
            return result

    def _agents(self) -> dict[str, Any]:
        agents: dict[str, Any] = self._coordinator.config.setdefault("agents", {})
        return agents

    def get_refcount(self, kind: str, name: str) -> int:
        """Return how many scopes add a part, `agents`, `context` or `skills` by name."""
        return self._counts.get((kind, name), 0)

    def dump_state(self) -> dict[str, Any]:
        """Return the scopes with their parts and how often each part is added, for diagnosis."""
        return {
            "scopes": {scope: [f"{kind}:{name}" for kind, name, _ in parts] for scope, parts in self._scopes.items()},
            "refcounts": {f"{kind}:{name}": count for (kind, name), count in self._counts.items()},
        }

    def _parts(self, contributions: Mapping[str, Any]) -> list[_Part]:
        """Return the parts of a contribution; raises ValueError that says what is wrong with it."""
        if unknown := sorted(set(contributions) - set(_KINDS)):
            raise ValueError(f"unknown contributions {', '.join(unknown)}: known are {', '.join(_KINDS)}")
        agents = contributions.get("agents") or {}
        if isinstance(agents, Sequence) and not isinstance(agents, str):
            agents = {str(name): {} for name in agents}
        if not isinstance(agents, Mapping):
            raise ValueError(f"agents must be a mapping of definitions by name, got {type(agents).__name__}")
        parts: list[_Part] = [("agents", str(name), self._agent(str(name), one)) for name, one in agents.items()]
        for kind in _LISTS:
            entries = contributions.get(kind) or []
            if isinstance(entries, str) or not isinstance(entries, Sequence):
                raise ValueError(f"{kind} must be a list, got {type(entries).__name__}")
            parts += [(kind, str(entry), copied(entry)) for entry in entries]
        return parts

    def _agent(self, name: str, given: Any) -> dict[str, Any]:
        if given is not None and not isinstance(given, Mapping):
            raise ValueError(f"the agent {name!r} must be a mapping, got {type(given).__name__}")
        definition = dict(copied(given or {}))
        if any(key != "name" for key in definition) or self._bundle is None:
            return definition
        path = self._bundle.resolve_agent_path(name)
        if path is None:
            raise ValueError(f"the bundle has no agent {name!r}")
        from amplifier_foundation.bundles.agent_file import load_agent_file

        warnings: list[str] = []
        return load_agent_file(path, "fetched", warnings, root=path.parent)

    def _swap(self, before: Sequence[_Part], after: list[_Part], result: TransitionResult) -> None:
        for kind, name, value in after:
            count = self._counts.get((kind, name), 0)
            self._counts[kind, name] = count + 1
            if count == 0:
                result.mounted.append(f"{kind}:{name}")
                self._mount(kind, name, value)
        for kind, name, _ in before:
            self._counts[kind, name] -= 1
            if self._counts[kind, name] == 0:
                del self._counts[kind, name]
                result.unmounted.append(f"{kind}:{name}")
                if kind == "agents" and name not in self._own:
                    self._agents().pop(name, None)
                if kind == "agents":
                    self._own.discard(name)
        if after:
            self._scopes[result.scope] = after
        else:
            self._scopes.pop(result.scope, None)
        self._publish()

    def _mount(self, kind: str, name: str, value: Any) -> None:
        if kind == "agents" and name in self._agents():
            self._own.add(name)
        elif kind == "agents":
            self._agents()[name] = value

    def _publish(self) -> None:
        """Offer what is added now to the modules that use it."""
        for kind, capability in _LISTS.items():
            added = {name: value for parts in self._scopes.values() for one, name, value in parts if one == kind}
            self._coordinator.register_capability(capability, list(added.values()))

"""What a person has switched in a running session holds for its children: tools and providers that were taken out, the
provider that was pinned, the model that was chosen, the tools that are to be confirmed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

#: Where apps keep the provider that a person has chosen.
_PINNED: Final = "pinned_provider"
#: Where modules keep the names of tools that a person wants to confirm.
_CONFIRMED: Final = "require_approval_tools"
_EVERY: Final = "every tool"
#: Where providers keep the model that they ask for when a request names none.
_MODELS: Final = ("default_model", "model")


@dataclass(frozen=True)
class Mounted:
    """What was mounted when a session was ready: the names of its tools, and its providers with their models."""

    tools: frozenset[str] = frozenset()
    providers: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, coordinator: Any) -> Mounted:
        """Look at a session."""
        providers = coordinator.get("providers") or {}
        models = {name: getattr(provider, _model_at(provider), None) for name, provider in providers.items()}
        return cls(frozenset(coordinator.get("tools") or ()), models)


@dataclass(frozen=True)
class Switched:
    """What differs now, as plain data."""

    tools: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()
    pinned: str | None = None
    models: Mapping[str, str] = field(default_factory=dict)
    #: Tools that are to be confirmed; None for all, since nobody can tell which were meant.
    confirmed: tuple[str, ...] | None = ()

    @classmethod
    def since(cls, before: Mounted, coordinator: Any, above: Switched | None = None) -> Switched:
        """Return what was switched since a session was ready, and above it."""
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
            _both(above.confirmed, _named(coordinator.session_state.get(_CONFIRMED))),
        )

    def without_choice(self) -> Switched:
        """Return the same for a child that was given a provider of its own."""
        return Switched(self.tools, self.providers, confirmed=self.confirmed)

    def apply(self, coordinator: Any) -> None:
        """Switch a child that is ready; the last provider stays."""
        tools, providers = coordinator.get("tools"), coordinator.get("providers")
        for name in self.tools:
            tools.pop(name, None)
        for name in self.providers:
            if len(providers) > 1:
                providers.pop(name, None)
        for name, model in self.models.items():
            if name in providers:
                setattr(providers[name], _model_at(providers[name]), model)
        if self.pinned in providers:
            coordinator.session_state[_PINNED] = self.pinned
        confirmed = _both(self.confirmed, _named(coordinator.session_state.get(_CONFIRMED)))
        if confirmed != ():
            # What is no list of names stands for every tool.
            coordinator.session_state[_CONFIRMED] = set(confirmed) if confirmed is not None else _EVERY


def answering(coordinator: Any) -> dict[str, str] | None:
    """Return the provider that answers now, by its name, with its model where it tells one; None without any."""
    from amplifier_kit.engine.loop.request import choose_provider

    providers = coordinator.get("providers")
    if not providers:
        return None
    pinned = coordinator.session_state.get(_PINNED)
    choice = choose_provider(providers, pinned if isinstance(pinned, str) else None)
    model = getattr(choice.provider, _model_at(choice.provider), None)
    return {"provider": choice.name} | ({"model": model} if isinstance(model, str) and model else {})


def _model_at(provider: Any) -> str:
    """Return the attribute in which a provider keeps its model."""
    return next((name for name in _MODELS if isinstance(getattr(provider, name, None), str)), _MODELS[0])


def _named(state: Any) -> tuple[str, ...] | None:
    """Return the names of tools in a state; None for all, as hooks-approval takes what is no list of names."""
    if state is None:
        return ()
    return tuple(state) if isinstance(state, list | tuple | set | frozenset | dict) else None


def _both(above: Sequence[str] | None, own: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if above is None or own is None else tuple(sorted({str(name) for name in (*above, *own)}))

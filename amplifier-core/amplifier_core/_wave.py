"""Keep apart what sessions of one process do between mount() and on_session_ready().

A mount wave is one pass of mounting and getting ready in one session. Loaders and modules are shared between sessions;
the wave at hand, found through the scope, is not.
"""

from __future__ import annotations

from collections import UserList
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from amplifier_core._scope import current_scope

Ready = Callable[[Any], Any]


class SkippedReady(NamedTuple):
    """An on_session_ready that will not run, and why."""

    module_id: str
    reason: str


class MountWave:
    """One pass of mounting and getting ready."""

    __slots__ = ("kind", "lists", "ready", "skipped")

    def __init__(self) -> None:
        #: The kind of module being mounted now, as the plan says.
        self.kind: str | None = None
        self.ready: list[tuple[str, Ready]] = []
        self.skipped: list[SkippedReady] = []
        #: What module-level lists hold for this wave, by the list's identity.
        self.lists: dict[int, list[Any]] = {}


def current_wave() -> MountWave | None:
    """Return the wave under way here, if any."""
    scope = current_scope()
    return scope.wave if scope is not None else None


class WaveList(UserList[Any]):
    """A module-level list with separate contents for every mount wave, and common ones outside of any."""

    def __init__(self, initial: list[Any] | None = None) -> None:
        self._common: list[Any] = list(initial or ())

    @property
    def data(self) -> list[Any]:  # type: ignore[override]  # UserList keeps an attribute here; ours depends on the wave
        wave = current_wave()
        return self._common if wave is None else wave.lists.setdefault(id(self), [])


def separate_deferred_lists(module: ModuleType) -> None:
    """Give each session its own contents of the lists in which a module leaves things for on_session_ready.

    The seeds' template appends its config to a module-level list in mount() and pops it in on_session_ready(). With
    two sessions starting at once, one would pop the other's. Such a list is recognised by being empty, and named by
    both functions (or `_deferred_configs`, however it is reached).
    """
    shared = _names(getattr(module, "mount", None)) & _names(getattr(module, "on_session_ready", None))
    for name in shared | {"_deferred_configs"}:
        if type(value := module.__dict__.get(name)) is list and not value:
            setattr(module, name, WaveList())


def _names(function: object) -> set[str]:
    return set(function.__code__.co_names) if isinstance(function, FunctionType) else set()

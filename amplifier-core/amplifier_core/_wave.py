"""Keep apart what sessions of one process do between mount() and on_session_ready().

A mount wave is one pass of mounting and getting ready in one session. Loaders and modules are shared between sessions;
the wave at hand, found through the scope, is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableSequence
from functools import partial
from inspect import unwrap
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

from amplifier_core._ledger import Ledger, remove_identical
from amplifier_core._scope import current_scope

Ready = Callable[[Any], Any]

#: The name that the seeds' template gives the list; a list of this name is separated however it is used.
_TEMPLATE = "_deferred_configs"


class SkippedReady(NamedTuple):
    """An on_session_ready that will not run, and why."""

    module_id: str
    reason: str


class MountWave:
    """One pass of mounting and getting ready."""

    __slots__ = ("kind", "ready", "skipped")

    def __init__(self) -> None:
        #: The kind of module being mounted now, as the plan says.
        self.kind: str | None = None
        self.ready: list[tuple[str, Ready]] = []
        self.skipped: list[SkippedReady] = []


def current_wave() -> MountWave | None:
    """Return the wave under way here, if any."""
    scope = current_scope()
    return scope.wave if scope is not None else None


class SessionList(MutableSequence[Any]):
    """A module-level list with contents of its own for every session, and common ones outside of any.

    Whatever runs for a session (mounts, callbacks, handlers, turns) sees that session's contents. They live and die
    with its coordinator, and what a module added is taken back when its mount fails.
    """

    __hash__ = None  # type: ignore[assignment]  # like every list

    def __init__(self, common: list[Any]) -> None:
        self._common = common
        self._key = object()

    def _contents(self) -> list[Any]:
        scope = current_scope()
        fields = getattr(scope.owner, "__dict__", None) if scope is not None else None
        if fields is None:
            return self._common
        contents: list[Any] = fields.setdefault("_module_lists", {}).setdefault(self._key, [])
        return contents

    def insert(self, index: int, value: Any) -> None:
        """Insert a value; everything that adds one comes here."""
        contents = self._contents()
        contents.insert(index, value)
        scope = current_scope()
        ledger = getattr(scope.owner, "_ledger", None) if scope is not None else None
        if isinstance(ledger, Ledger):
            ledger.note(partial(remove_identical, contents, value))

    def __getitem__(self, index: Any) -> Any:
        return self._contents()[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self._contents()[index] = value

    def __delitem__(self, index: Any) -> None:
        del self._contents()[index]

    def __len__(self) -> int:
        return len(self._contents())

    def __iter__(self) -> Iterator[Any]:
        return iter(self._contents())

    def __eq__(self, other: object) -> bool:
        return self._contents() == (other._contents() if isinstance(other, SessionList) else other)

    def __add__(self, other: list[Any]) -> list[Any]:
        return self._contents() + list(other)

    def __radd__(self, other: list[Any]) -> list[Any]:
        return list(other) + self._contents()

    def __repr__(self) -> str:
        return repr(self._contents())

    def copy(self) -> list[Any]:
        """Return the contents as a plain list."""
        return self._contents().copy()

    def sort(self, **options: Any) -> None:
        """Sort the contents as list.sort() does."""
        self._contents().sort(**options)


def separate_deferred_lists(module: ModuleType | None, mount: object, ready: object) -> None:
    """Give each session its own contents of the lists in which a module leaves things for on_session_ready.

    The seeds' template appends its config to a module-level list in mount() and pops it in on_session_ready(). With
    two sessions starting at once, one would pop the other's. Such a list is recognised by being empty, appended to by
    the one function and emptied by the other, or by the template's name for it.
    """
    functions = [function for function in map(_unwrapped, (mount, ready)) if isinstance(function, FunctionType)]
    names = {_TEMPLATE}
    if len(functions) == 2:
        left, taken = (_names(function.__code__) for function in functions)
        if "append" in left and taken & {"pop", "clear"}:
            names |= left & taken
    homes = [function.__globals__ for function in functions]
    for home in [*homes, vars(module)] if module is not None else homes:
        for name in names:
            if type(value := home.get(name)) is list and not value:
                home[name] = SessionList(value)


def _unwrapped(function: object) -> object:
    return unwrap(function) if callable(function) else function


def _names(code: CodeType) -> set[str]:
    """Return every global and attribute that code names, in functions inside it too."""
    inner = (_names(part) for part in code.co_consts if isinstance(part, CodeType))
    return set(code.co_names).union(*inner)

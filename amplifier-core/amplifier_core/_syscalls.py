"""The system calls, which act on the current session, and the session's context fragments.

The current session is the one whose turn, mount or callback is running, or the one named by `session_id=`. Everything
here is a call to its coordinator; nothing is implemented twice.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from amplifier_core._mount import Ledger
from amplifier_core.data import clean, copier
from amplifier_core.events import CONTEXT_INCLUDE
from amplifier_core.trace import current_scope

if TYPE_CHECKING:
    from amplifier_core.coordinator import ModuleCoordinator
    from amplifier_core.hooks import HookRegistry
    from amplifier_core.models import HookResult


def _coordinator(call: str, session_id: str | None) -> ModuleCoordinator:
    """Return the coordinator that `call` acts on; raise RuntimeError if it is missing."""
    if session_id is not None:
        from amplifier_core.session import find_session

        return find_session(call, session_id).coordinator
    scope = current_scope()
    if scope is None:
        raise RuntimeError(
            f"{call}: no session is running here. Call it from a turn, a mount or a callback of a session, "
            "or name one with session_id=..."
        )
    owner: ModuleCoordinator = scope.owner
    return owner


def _require(call: str, argument: str, value: object, kind: type, expected: str = "a string") -> None:
    if not isinstance(value, kind):
        raise TypeError(f"{call}: {argument} must be {expected}, got {type(value).__name__}")


def _check_point(call: str, point: object, coordinator: ModuleCoordinator) -> None:
    _require(call, "point", point, str)
    if point not in coordinator.mount_points:
        known = ", ".join(sorted(coordinator.mount_points))
        raise ValueError(f"{call}: unknown mount point {point!r}; known are {known}")


async def mount(point: str, module: Any, config: dict[str, Any] | None = None, *, session_id: str | None = None) -> Any:
    """Mount a module in a live session: by id through its loader, with `config`, or an object under its own name.

    A module loaded by id is validated as at session start, and its on_session_ready runs at once. Returns
    `coordinator.get(point)`. Raises TypeError or ValueError for invalid arguments, and any error of loading or
    mounting, after undoing its effects.
    """
    coordinator = _coordinator("mount", session_id)
    _check_point("mount", point, coordinator)
    if config is not None:
        _require("mount", "config", config, dict, "a dict")
    if module is None:
        raise TypeError(f"mount: module for {point!r} must be a module id or an object, got None")
    if isinstance(module, str):
        from amplifier_core._session_init import mount_on_demand

        await mount_on_demand(coordinator, point, module, config or {})
    elif config:
        raise ValueError(
            f"mount: config was given for an object at {point!r}, but only a module id is loaded with a config; "
            "configure the object before mounting it"
        )
    else:
        try:
            await coordinator.mount(point, module)
        except ValueError as error:
            raise ValueError(f"mount: {error} (got {type(module).__name__})") from error
    return coordinator.get(point)


async def unmount(point: str, module: Any = None, *, session_id: str | None = None) -> None:
    """Unmount from `point`: everything of a module given by id, or one entry given by name or by object.

    Unmounting by module id undoes every registration of the module, handlers and capabilities included, and runs its
    cleanups. A single mount point needs no second argument. Raises ValueError for an unknown mount point, for a module
    that is not mounted there, and for a named point without a second argument.
    """
    coordinator = _coordinator("unmount", session_id)
    _check_point("unmount", point, coordinator)
    if isinstance(module, str) and coordinator._ledger.knows(module):
        await coordinator._ledger.undo(module)
        return
    mounted = coordinator.mount_points[point]
    if not isinstance(mounted, dict):
        if module is not None and module is not mounted:
            raise ValueError(f"unmount: {module!r} is not mounted at {point!r}; mounted there: {mounted!r}")
        await coordinator.unmount(point)
        return
    by_name = isinstance(module, str)
    names = [name for name, entry in mounted.items() if (name == module if by_name else entry is module)]
    if not names:
        what = "a name, a module id or an object is required" if module is None else f"{module!r} is not mounted there"
        raise ValueError(f"unmount: {what}; mounted at {point!r}: {sorted(mounted)}")
    for name in names:
        await coordinator.unmount(point, name)


async def emit(event: str, data: Any = None, *, session_id: str | None = None) -> HookResult:
    _require("emit", "event", event, str)
    return await _coordinator("emit", session_id).hooks.emit(event, {} if data is None else data)


def register_hook(
    event: str, handler: Callable[..., Any], priority: int = 0, *, session_id: str | None = None
) -> Callable[[], None]:
    """Register a handler with the session's hooks and return a function that removes it."""
    _require("register_hook", "event", event, str)
    _require("register_hook", "priority", priority, int, "an int")
    if not callable(handler):
        raise TypeError(f"register_hook: handler must be callable, got {type(handler).__name__}")
    return _coordinator("register_hook", session_id).hooks.register(event, handler, priority)


def get_context(*, session_id: str | None = None) -> SessionContext:
    """Return the session's context fragments, read-only, and its log."""
    coordinator = _coordinator("get_context", session_id)
    return SessionContext(coordinator._fragments.view(), coordinator.log)


def set_context_fragment(key: str, value: Any, *, session_id: str | None = None) -> asyncio.Task[Any] | None:
    """Set a text or JSON fragment, or remove it with None, and announce it as `context:include {key, bytes}`.

    The fragment is set when this returns; awaiting the result waits until every handler has been called.
    """
    return _coordinator("set_context_fragment", session_id)._fragments.set(key, value)


class SessionContext(NamedTuple):
    """The part of the session that a module may read: its fragments, read-only, and the log."""

    fragments: Mapping[str, Any]
    log: Callable[..., None]


class Fragments:
    """Hold fragments by key and announce every change as `context:include`."""

    __slots__ = ("_announcing", "_hooks", "_ledger", "_values")

    def __init__(self, hooks: HookRegistry, ledger: Ledger) -> None:
        self._hooks = hooks
        self._ledger = ledger
        self._values: dict[str, Any] = {}
        self._announcing: set[asyncio.Task[Any]] = set()

    def view(self) -> Mapping[str, Any]:
        return MappingProxyType(copier(self._values)())

    def set(self, key: str, value: Any) -> asyncio.Task[Any] | None:
        """Set a fragment at once, None removes it; return the announcement, for callers that wait for it."""
        if not isinstance(key, str):
            raise TypeError(f"set_context_fragment: key must be a string, got {type(key).__name__}")
        if value is None:
            self._values.pop(key, None)
        else:
            self._ledger.note(lambda: self._announce(key))  # noted first: undone last, after the value was removed
            self._ledger.put(self._values, key, clean(value))
        return self._announce(key)

    def announcements(self) -> list[Callable[[], Any]]:
        """Return, for each announcement under way, a function that returns its task."""
        return [lambda task=task: task for task in self._announcing]  # type: ignore[misc]  # bound early on purpose

    def _announce(self, key: str) -> asyncio.Task[Any] | None:
        size = _size(self._values[key]) if key in self._values else 0
        emitting = self._hooks.emit(CONTEXT_INCLUDE, {"key": key, "bytes": size})
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            asyncio.run(emitting)
            return None
        task = loop.create_task(emitting)
        self._announcing.add(task)
        task.add_done_callback(self._announcing.discard)
        return task


def _size(value: Any) -> int:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return len(text.encode())

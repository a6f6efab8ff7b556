"""Roll back what a module did to a session: when its mount fails, when it is unmounted, when the start fails.

A `Ledger` records how to undo each registration; an `Attempt` also compares mount points before and after.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from amplifier_core.bounded_call import run_all
from amplifier_core.trace import current_scope

Undo = Callable[[], Any]


class _Step(NamedTuple):
    """One action of a module, and how to undo it."""

    number: int
    module: str | None
    undo: Undo


class Ledger:
    """Record, in order, how to undo the registrations of each module with one coordinator."""

    __slots__ = ("_count", "_owner", "_steps")

    def __init__(self, owner: Any) -> None:
        self._owner = owner
        self._steps: list[_Step] = []
        self._count = 0

    def note(self, undo: Undo) -> None:
        """Record `undo` for the module that is mounting or getting ready, if one is."""
        scope = current_scope()
        if scope is not None and scope.owner is self._owner and scope.is_mounting:
            self._steps.append(_Step(self._count, scope.module, undo))
            self._count += 1

    def put(self, table: dict[str, Any], key: str, value: Any) -> None:
        """Set an entry of `table`. Undoing it restores the entry it replaced, unless that was undone as well."""
        put = _Put(self, table, key, value)
        table[key] = value
        self.note(put)

    def mark(self) -> int:
        """Return a position to pass to `undo` later."""
        return self._count

    def knows(self, module_id: str) -> bool:
        return any(step.module == module_id for step in self._steps)

    async def undo(self, module_id: str | None = None, since: int = 0) -> None:
        """Undo what a module registered, or every module, since a mark; newest first."""
        mine: list[_Step] = []
        others: list[_Step] = []
        for step in self._steps:
            undone = step.number >= since and module_id in (None, step.module)
            (mine if undone else others).append(step)
        self._steps = others
        await run_all(step.undo for step in reversed(mine))

    def clear(self) -> None:
        self._steps.clear()

    def covering(self, put: _Put) -> _Put | None:
        """Return the entry that replaced `put` and would restore it, if there is one."""
        for step in self._steps:
            other = step.undo
            if isinstance(other, _Put) and other.covers(put):
                return other
        return None


class _Put:
    """Restore the entry of a table that was there before."""

    __slots__ = ("_before", "_key", "_known", "_ledger", "_number", "_table", "_value")

    def __init__(self, ledger: Ledger, table: dict[str, Any], key: str, value: Any) -> None:
        self._ledger = ledger
        self._number = ledger.mark()
        self._table = table
        self._key = key
        self._value = value
        self._known = key in table
        self._before = table.get(key)

    def covers(self, other: _Put) -> bool:
        """Return whether this came later and would restore the value that `other` set."""
        later_there = self._table is other._table and self._key == other._key and self._number > other._number
        return later_there and self._known and self._before is other._value

    def __call__(self) -> None:
        """Restore the earlier entry; if a later one has replaced ours, that one restores it instead."""
        covering = self._ledger.covering(self)
        if covering is not None:
            covering._known, covering._before = self._known, self._before
        elif self._key in self._table and self._table[self._key] is self._value:
            if self._known:
                self._table[self._key] = self._before
            else:
                del self._table[self._key]


def append(items: list[Any], item: Any) -> Undo:
    """Append an item and return how to remove exactly that one again."""
    items.append(item)
    return lambda: remove_identical(items, item)


def remove_identical(items: list[Any], wanted: Any) -> bool:
    """Remove the first item that is `wanted` itself; return whether there was one."""
    for index, item in enumerate(items):
        if item is wanted:
            del items[index]
            return True
    return False


class Attempt:
    """Roll back what one module, or every module, did to a coordinator since this was created.

    Other coordinator classes are accepted; registrations that they do not record cannot be rolled back.
    """

    __slots__ = ("_coordinator", "_exclusive", "_holder", "_ledger", "_mark", "_module", "_named", "_points")

    def __init__(self, coordinator: Any, module_id: str | None = None, *, exclusive: bool = True) -> None:
        """Look at the coordinator; `exclusive` says that no turn is running that might mount things as well."""
        self._coordinator = coordinator
        self._module = module_id
        self._exclusive = exclusive
        self._points = mount_points_copy(coordinator)
        self._holder = getattr(coordinator, "mount_points", None)
        self._named = dict(self._holder) if isinstance(self._holder, dict) else {}
        ledger = getattr(coordinator, "_ledger", None)
        self._ledger = ledger if isinstance(ledger, Ledger) else None
        self._mark = self._ledger.mark() if self._ledger is not None else 0

    async def roll_back(self) -> None:
        """Unmount, unregister and clean up, newest first; raise only what `run_all` raises, after all is done."""
        try:
            if self._ledger is not None:
                await self._ledger.undo(self._module, self._mark)
        finally:
            if self._exclusive and self._alone():
                self._restore()

    def _alone(self) -> bool:
        """Return whether no other module recorded anything meanwhile, a background task of one for example."""
        return self._ledger is None or all(step.number < self._mark for step in self._ledger._steps)

    def _restore(self) -> None:
        """Restore the mount points and their order, also where they were changed without a record."""
        points = self._holder
        if not isinstance(points, dict):
            return
        if self._coordinator.mount_points is not points:
            self._coordinator.mount_points = points
        for point, mounted in self._points.items():
            held = points[point] = self._named[point]
            if isinstance(mounted, dict) and not same(held, mounted):
                held.clear()
                held.update(mounted)
        for point in [point for point in points if point not in self._points]:
            del points[point]


def mount_points_copy(coordinator: Any) -> dict[str, Any]:
    """Return the mounted objects by mount point, to compare with later; nothing without mount points."""
    points = getattr(coordinator, "mount_points", None)
    if not isinstance(points, dict):
        return {}
    return {point: dict(mounted) if isinstance(mounted, dict) else mounted for point, mounted in points.items()}


def same(before: Any, after: Any) -> bool:
    """Return whether two states of a mount point hold the very same objects in the same order."""
    if isinstance(before, dict) and isinstance(after, dict):
        return list(before) == list(after) and all(after[name] is value for name, value in before.items())
    return before is after

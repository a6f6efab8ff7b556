"""Roll back what a module did to a session: when its mount fails, when it is unmounted, when the start fails.

A `Ledger` records how to undo each registration; an `Attempt` also compares mount points before and after.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from amplifier_core.bounded_call import run_all
from amplifier_core.trace import current_scope

Undo = Callable[[], Any]


#: Where a table had no entry.
_MISSING: Final = object()


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
        before = table.get(key, _MISSING)
        table[key] = value
        self.note(_Put(self._steps, self._count, table, key, value, before))

    def mark(self) -> int:
        """Return a position to pass to `undo` later."""
        return self._count

    def knows(self, module_id: str) -> bool:
        return any(step.module == module_id for step in self._steps)

    def is_alone(self, since: int) -> bool:
        """Return whether nothing that was recorded since a mark remains."""
        return all(step.number < since for step in self._steps)

    async def undo(self, module_id: str | None = None, since: int = 0) -> None:
        """Undo what a module registered, or every module, since a mark; newest first."""
        mine = [step for step in self._steps if step.number >= since and module_id in (None, step.module)]
        self._steps[:] = [step for step in self._steps if step not in mine]
        await run_all(step.undo for step in reversed(mine))

    def clear(self) -> None:
        self._steps.clear()


@dataclass(slots=True, eq=False)
class _Put:
    """Restore the entry of a table that was there before."""

    steps: list[_Step]
    number: int
    table: dict[str, Any]
    key: str
    value: Any
    before: Any

    def __call__(self) -> None:
        """Restore the earlier entry; if a later one has replaced ours, that one restores it instead."""
        for step in self.steps:
            later = step.undo
            if not isinstance(later, _Put) or later.table is not self.table or later.key != self.key:
                continue
            if step.number > self.number and later.before is self.value:
                later.before = self.before
                return
        if self.table.get(self.key, _MISSING) is self.value:
            if self.before is _MISSING:
                del self.table[self.key]
            else:
                self.table[self.key] = self.before


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

    __slots__ = ("_coordinator", "_exclusive", "_ledger", "_mark", "_module", "_points")

    def __init__(self, coordinator: Any, module_id: str | None = None, *, exclusive: bool = True) -> None:
        """Look at the coordinator; `exclusive` says that no turn is running that might mount things as well."""
        self._coordinator = coordinator
        self._module = module_id
        self._exclusive = exclusive
        self._points = mount_points_copy(coordinator)
        ledger = getattr(coordinator, "_ledger", None)
        self._ledger = ledger if isinstance(ledger, Ledger) else None
        self._mark = self._ledger.mark() if self._ledger is not None else 0

    async def roll_back(self) -> None:
        """Unmount, unregister and clean up, newest first; raise only what `run_all` raises, after all is done."""
        try:
            if self._ledger is not None:
                await self._ledger.undo(self._module, self._mark)
        finally:
            # Not when another module recorded something meanwhile, in a background task for example.
            if self._exclusive and (self._ledger is None or self._ledger.is_alone(self._mark)):
                self._restore()

    def _restore(self) -> None:
        """Restore the mount points and their order, also where they were changed without a record."""
        for point, mounted in self._points.items():
            held = self._coordinator.mount_points.get(point)
            if not isinstance(mounted, dict) or not isinstance(held, dict):
                self._coordinator.mount_points[point] = mounted
            elif not same(held, mounted):
                held.clear()
                held.update(mounted)


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

"""Remember how a coordinator was, so that an attempt that fails leaves no trace on it."""

from __future__ import annotations

from typing import Any

from amplifier_core._ledger import Ledger


class Attempt:
    """Take back what one module, or every module, did to a coordinator since this was made.

    Coordinators of other makes are accepted; what they do not record cannot be taken back.
    """

    __slots__ = ("_coordinator", "_holder", "_ledger", "_mark", "_module", "_named", "_points", "_undisturbed")

    def __init__(self, coordinator: Any, module_id: str | None = None, *, undisturbed: bool = True) -> None:
        """Look at the coordinator; `undisturbed` says that no turn runs which might mount things as well."""
        self._coordinator = coordinator
        self._module = module_id
        self._undisturbed = undisturbed
        self._points = mount_points_copy(coordinator)
        self._holder = getattr(coordinator, "mount_points", None)
        self._named = dict(self._holder) if isinstance(self._holder, dict) else {}
        ledger = getattr(coordinator, "_ledger", None)
        self._ledger = ledger if isinstance(ledger, Ledger) else None
        self._mark = self._ledger.mark() if self._ledger is not None else 0

    async def take_back(self) -> None:
        """Unmount, unregister and clean up, newest first; raise only what `run_all` raises, after all is done."""
        try:
            if self._ledger is not None:
                await self._ledger.undo(self._module, self._mark)
        finally:
            if self._undisturbed and self._alone():
                self._restore()

    def _alone(self) -> bool:
        """Tell whether no other module recorded anything meanwhile, a background task of one for example."""
        return self._ledger is None or all(step.number < self._mark for step in self._ledger._steps)

    def _restore(self) -> None:
        """Put back what was mounted where, in its order, also what was written there without a record."""
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
    """Return what is mounted where, to compare with later; nothing for a coordinator that does not tell."""
    points = getattr(coordinator, "mount_points", None)
    if not isinstance(points, dict):
        return {}
    return {point: dict(mounted) if isinstance(mounted, dict) else mounted for point, mounted in points.items()}


def same(before: Any, after: Any) -> bool:
    """Tell whether two states of a mount point hold the very same objects in the same order."""
    if isinstance(before, dict) and isinstance(after, dict):
        return list(before) == list(after) and all(after[name] is value for name, value in before.items())
    return before is after

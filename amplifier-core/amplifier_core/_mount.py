"""Mount one module in a live session, and roll back what modules did.

A live session mounts a module once, and `mount_checked` checks what that left behind. A `Ledger` records how to undo
each registration; an `Attempt` rolls back when a mount or the whole start fails, and also restores the mount points,
which modules may change without a record.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, MutableSequence
from functools import partial
from inspect import unwrap
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from amplifier_core._discovery import validation_error
from amplifier_core.bounded_call import run_all
from amplifier_core.plan import TYPE_TO_MOUNT_POINT
from amplifier_core.trace import current_scope

if TYPE_CHECKING:
    from amplifier_core.validation.base import ModuleValidator, ValidationResult

logger = logging.getLogger(__name__)

Undo = Callable[[], Any]


class SessionList(MutableSequence[Any]):
    """A module-level list with separate contents for every session, and common ones outside of any.

    Whatever runs for a session (mounts, callbacks, handlers, turns) sees that session's contents. They live and die
    with its coordinator; the additions of a module whose mount fails are removed.
    """

    def __init__(self, common: list[Any]) -> None:
        self._common = common
        self._key = object()

    def _contents(self) -> list[Any]:
        scope = current_scope()
        if scope is None:
            return self._common
        contents: list[Any] = vars(scope.owner).setdefault("_module_lists", {}).setdefault(self._key, [])
        return contents

    def insert(self, index: int, value: Any) -> None:
        """Insert a value; append() and extend() call this, too."""
        contents = self._contents()
        contents.insert(index, value)
        scope = current_scope()
        ledger = _ledger_of(scope.owner) if scope is not None else None
        if ledger is not None:
            ledger.note(partial(remove_identical, contents, value))

    def __getitem__(self, index: Any) -> Any:
        return self._contents()[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self._contents()[index] = value

    def __delitem__(self, index: Any) -> None:
        del self._contents()[index]

    def __len__(self) -> int:
        return len(self._contents())

    def __eq__(self, other: object) -> bool:
        return self._contents() == (other._contents() if isinstance(other, SessionList) else other)

    def __add__(self, other: list[Any]) -> list[Any]:
        return self._contents() + list(other)

    def __radd__(self, other: list[Any]) -> list[Any]:
        return list(other) + self._contents()

    def __repr__(self) -> str:
        return repr(self._contents())

    def copy(self) -> list[Any]:
        return self._contents().copy()

    def sort(self, **options: Any) -> None:
        self._contents().sort(**options)


def separate_deferred_lists(module: ModuleType | None, mount: object, ready: object) -> None:
    """Give each session its own contents of the lists in which a module leaves things for on_session_ready.

    The seeds' template appends its config to the module-level list `_deferred_configs` in mount() and pops it in
    on_session_ready(). With two sessions starting at once, one would pop the other's. Every private module-level list
    that is empty when the module is loaded counts as such a list; public ones stay as they are. Replacing them in the
    module is the only way to separate them: the template has no other place to ask which session is running.
    """
    functions = [unwrap(function) for function in (mount, ready) if callable(function)]
    homes = [function.__globals__ for function in functions if isinstance(function, FunctionType)]
    for home in [*homes, vars(module)] if module is not None else homes:
        for name, value in list(home.items()):
            if type(value) is list and not value and name.startswith("_") and not name.startswith("__"):
                home[name] = SessionList(value)


async def mount_checked(
    module_id: str, mount: Any, coordinator: Any, config: dict[str, Any], structure: ValidationResult
) -> Any:
    """Call the real mount(), check it by the rules of its kind and return its cleanup, if any.

    Raises ModuleValidationError when the module does not keep the contract of its kind. Rolling back is up to the
    caller, who does so for every other failure too.
    """
    from amplifier_core.validation import validator_for
    from amplifier_core.validation.base import ValidationResult

    validator = validator_for(structure.module_type)
    if validator is None:
        return await mount(coordinator, config)
    points = mount_points_copy(coordinator)
    before = validator.observe(coordinator)
    returned = await mount(coordinator, config)
    result = ValidationResult(structure.module_type, structure.module_path, list(structure.checks))
    validator.check_mounted(result, coordinator, before, returned)
    if not result.passed:
        raise validation_error(module_id, result, _wrong_kind_hint(validator, points, coordinator))
    if logger.isEnabledFor(logging.INFO):
        logger.info("[module:validated] %s - %s", module_id, result.summary())
    if not validator.is_instance(returned):
        return returned
    # An instance is never a cleanup, even if it can be called. One that did not mount itself is mounted here; hook
    # handlers register themselves.
    if validator.mount_point != "hooks" and same(before, validator.observe(coordinator)):
        await coordinator.mount(validator.mount_point, returned)
    return None


def _wrong_kind_hint(validator: ModuleValidator, before: dict[str, Any], coordinator: Any) -> str:
    """Name the kind of module it mounted instead, if it did: most likely it is listed in the wrong section."""
    for kind, point in TYPE_TO_MOUNT_POINT.items():
        if point != validator.mount_point and not same(before.get(point), coordinator.mount_points.get(point)):
            return f". It mounted a {kind} instead: list it under '{point}'"
    return ""


# -- rolling back --


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


class _Put:
    """Restore the entry of a table that was there before."""

    __slots__ = ("before", "key", "number", "steps", "table", "value")

    def __init__(
        self, steps: list[_Step], number: int, table: dict[str, Any], key: str, value: Any, before: Any
    ) -> None:
        self.steps = steps
        self.number = number
        self.table = table
        self.key = key
        self.value = value
        self.before = before

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
    """Roll back, when its block fails, what one module, or every module, did to a coordinator since this was created.

    Other coordinator classes are accepted; registrations that they do not record cannot be rolled back.
    """

    __slots__ = ("_coordinator", "_exclusive", "_ledger", "_mark", "_module", "_points")

    def __init__(self, coordinator: Any, module_id: str | None = None, *, exclusive: bool = True) -> None:
        """Look at the coordinator; `exclusive` says that no turn is running that might mount things as well."""
        self._coordinator = coordinator
        self._module = module_id
        self._exclusive = exclusive
        self._points = mount_points_copy(coordinator)
        self._ledger = _ledger_of(coordinator)
        self._mark = self._ledger.mark() if self._ledger is not None else 0

    async def __aenter__(self) -> None:
        """Everything was looked at before."""

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """After an error unmount, unregister and clean up, newest first; then raise a fatal error of a cleanup."""
        if error is None:
            return
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


def _ledger_of(coordinator: Any) -> Ledger | None:
    ledger = getattr(coordinator, "_ledger", None)
    return ledger if isinstance(ledger, Ledger) else None


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

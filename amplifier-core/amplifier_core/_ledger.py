"""Remember what each module registered, so that it can be taken back: when its mount fails, or when it is unmounted."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from amplifier_core._foreign import running_task
from amplifier_core._isolation import describe
from amplifier_core._scope import current_scope
from amplifier_core.utils.awaiting import maybe_await

logger = logging.getLogger(__name__)

Undo = Callable[[], Any]


class _Step(NamedTuple):
    """One thing that a module did, and how to take it back."""

    number: int
    module: str
    undo: Undo


class Ledger:
    """Keep, in order, how to undo what each module did to one coordinator."""

    __slots__ = ("_count", "_owner", "_steps")

    def __init__(self, owner: Any) -> None:
        self._owner = owner
        self._steps: list[_Step] = []
        self._count = 0

    def note(self, undo: Undo) -> None:
        """Remember `undo` for the module that is mounting or getting ready, if one is."""
        scope = current_scope()
        if scope is not None and scope.owner is self._owner and scope.module is not None:
            self._steps.append(_Step(self._count, scope.module, undo))
            self._count += 1

    def put(self, table: dict[str, Any], key: str, value: Any) -> None:
        """Set an entry of `table`; undone, the entry it replaced comes back, unless that was taken back as well."""
        put = _Put(self, table, key, value)
        table[key] = value
        self.note(put)

    def mark(self) -> int:
        """Return a mark that `undo` can later go back to."""
        return self._count

    def knows(self, module_id: str) -> bool:
        """Tell whether a module registered anything."""
        return any(step.module == module_id for step in self._steps)

    async def undo(self, module_id: str | None = None, since: int = 0) -> None:
        """Take back what a module registered, or every module, since a mark; newest first."""
        mine: list[_Step] = []
        others: list[_Step] = []
        for step in self._steps:
            undone = step.number >= since and module_id in (None, step.module)
            (mine if undone else others).append(step)
        self._steps = others
        await run_all(step.undo for step in reversed(mine))

    def clear(self) -> None:
        """Forget everything: the session is over."""
        self._steps.clear()

    def covering(self, put: _Put) -> _Put | None:
        """Return the entry that was set over `put` and would bring it back, if there is one."""
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
        """Tell whether this came later and, undone, would bring back what `other` set."""
        later_there = self._table is other._table and self._key == other._key and self._number > other._number
        return later_there and self._known and self._before is other._value

    def __call__(self) -> None:
        """Restore the earlier entry, unless another has replaced ours since; that one then restores it."""
        covering = self._ledger.covering(self)
        if covering is not None:
            covering._known, covering._before = self._known, self._before
        elif self._key in self._table and self._table[self._key] is self._value:
            if self._known:
                self._table[self._key] = self._before
            else:
                del self._table[self._key]


async def run_all(functions: Iterable[Callable[[], Any]]) -> None:
    """Run every function whatever the others do, awaiting what can be awaited.

    Exceptions are logged. The first KeyboardInterrupt, SystemExit or CancelledError is raised after all have run, and
    a cancellation of this task that a function kept to itself is raised again.
    """
    task = running_task()
    cancels = task.cancelling() if task is not None else 0
    fatal: BaseException | None = None
    for function in functions:
        try:
            await maybe_await(function())
        except Exception as error:
            logger.error("Error during cleanup: %s", describe(error), exc_info=error)
        except BaseException as error:
            if fatal is None:
                fatal = error
    if fatal is None and task is not None and task.cancelling() > cancels:
        fatal = asyncio.CancelledError()
    if fatal is not None:
        raise fatal


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

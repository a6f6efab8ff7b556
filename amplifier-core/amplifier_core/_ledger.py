"""Remember what each module registered, so that it can be taken back: when its mount fails, or when it is unmounted."""

from __future__ import annotations

import logging
from collections.abc import Callable
from inspect import isawaitable
from typing import Any

from amplifier_core._isolation import describe
from amplifier_core._scope import current_scope

logger = logging.getLogger(__name__)

Undo = Callable[[], Any]


class Ledger:
    """Keep, in order, how to undo what each module did to one coordinator."""

    __slots__ = ("_owner", "_steps")

    def __init__(self, owner: Any) -> None:
        self._owner = owner
        self._steps: list[tuple[str, Undo]] = []

    def note(self, undo: Undo) -> None:
        """Remember `undo` for the module that is mounting or getting ready, if one is."""
        scope = current_scope()
        if scope is not None and scope.owner is self._owner and scope.module is not None:
            self._steps.append((scope.module, undo))

    def mark(self) -> int:
        """Return a mark that `undo` can later go back to."""
        return len(self._steps)

    def knows(self, module_id: str) -> bool:
        """Tell whether a module registered anything."""
        return any(module == module_id for module, _ in self._steps)

    async def undo(self, module_id: str | None = None, since: int = 0) -> None:
        """Take back what a module registered, or every module, since a mark; newest first."""
        mine = [step for step in self._steps[since:] if module_id is None or step[0] == module_id]
        self._steps = [*self._steps[:since], *(step for step in self._steps[since:] if step not in mine)]
        await run_all(undo for _, undo in reversed(mine))

    def clear(self) -> None:
        """Forget everything: the session is over."""
        self._steps.clear()


async def run_all(functions: Any) -> None:
    """Run every function whatever the others do, awaiting what can be awaited.

    Exceptions are logged. The first KeyboardInterrupt, SystemExit or CancelledError is raised after all have run.
    """
    fatal: BaseException | None = None
    for function in functions:
        try:
            outcome = function()
            if isawaitable(outcome):
                await outcome
        except Exception as error:
            logger.error("Error during cleanup: %s", describe(error), exc_info=error)
        except BaseException as error:
            fatal = fatal or error
    if fatal is not None:
        raise fatal


def put(table: dict[str, Any], key: str, value: Any) -> Undo:
    """Set an entry and return how to restore the earlier one, unless somebody else has replaced ours since."""
    known, before = key in table, table.get(key)
    table[key] = value

    def put_back() -> None:
        if key in table and table[key] is value:
            if known:
                table[key] = before
            else:
                del table[key]

    return put_back


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

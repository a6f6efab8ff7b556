"""Keep the session's context fragments: small pieces of text or JSON that context managers fold into a request."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Coroutine, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from amplifier_core._isolation import clean, copier
from amplifier_core._ledger import Ledger
from amplifier_core.events import CONTEXT_INCLUDE
from amplifier_core.hooks import HookRegistry

logger = logging.getLogger(__name__)


class SessionContext(NamedTuple):
    """What a module sees of the session's context: the fragments, read-only, and the log."""

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
        """Return a read-only copy: what is done to it changes nothing."""
        return MappingProxyType(copier(self._values)())

    def set(self, key: str, value: Any) -> asyncio.Task[Any] | None:
        """Set a fragment at once, None removes it; return the announcement for whoever wants to wait for it."""
        if not isinstance(key, str):
            raise TypeError(f"set_context_fragment: key must be a string, got {type(key).__name__}")
        if value is None:
            self._values.pop(key, None)
        else:
            self._ledger.note(lambda: self._announce(key))  # noted first: undone last, when the value is gone
            self._ledger.put(self._values, key, clean(value))
        return self._announce(key)

    def announcements(self) -> list[Callable[[], Any]]:
        """Return a function for each announcement under way, giving something to await."""
        return [lambda task=task: task for task in self._announcing]  # type: ignore[misc]  # bound early on purpose

    def _announce(self, key: str) -> asyncio.Task[Any] | None:
        size = _size(self._values[key]) if key in self._values else 0
        emitting = self._hooks.emit(CONTEXT_INCLUDE, {"key": key, "bytes": size})
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            _run_without_loop(emitting)
            return None
        task = loop.create_task(emitting)
        self._announcing.add(task)
        task.add_done_callback(self._announcing.discard)
        return task


def _run_without_loop(emitting: Coroutine[Any, Any, Any]) -> None:
    """Tell the handlers that do not wait: no loop runs that could drive the others."""
    try:
        emitting.send(None)
    except StopIteration:
        return
    emitting.close()
    logger.warning("A handler of %s could not wait: no event loop is running", CONTEXT_INCLUDE)


def _size(value: Any) -> int:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return len(text.encode())

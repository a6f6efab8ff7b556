"""Carry a request to stop to the code that is running.

The token only records the request: it stops nothing by itself and emits no event. Orchestrators look at it between
steps; parents pass it to children.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any

from amplifier_core.bounded_call import call, run_all, running_task


class CancellationState(Enum):
    """Name how urgently a session was asked to stop."""

    NONE = "none"
    GRACEFUL = "graceful"
    IMMEDIATE = "immediate"


_NONE = CancellationState.NONE.value
_GRACEFUL = CancellationState.GRACEFUL.value
_IMMEDIATE = CancellationState.IMMEDIATE.value


class CancellationToken:
    """Record a request to stop, the tools that were running, and the children to pass it on to."""

    def __init__(self) -> None:
        self._state = _NONE
        self._tools: dict[str, str] = {}
        self._children: list[CancellationToken] = []
        self._callbacks: list[Callable[[], Any]] = []

    @property
    def state(self) -> str:
        return self._state

    @property
    def is_cancelled(self) -> bool:
        return self._state != _NONE

    @property
    def is_graceful(self) -> bool:
        """Whether running work may finish before the session stops."""
        return self._state == _GRACEFUL

    @property
    def is_immediate(self) -> bool:
        """Whether running work should be dropped at once."""
        return self._state == _IMMEDIATE

    @property
    def running_tools(self) -> set[str]:
        """The ids of the tool calls in flight."""
        return set(self._tools)

    @property
    def running_tool_names(self) -> list[str]:
        """The names of the tools in flight."""
        return list(self._tools.values())

    def request_graceful(self) -> bool:
        """Ask to stop after the current work; return whether that changed anything."""
        if self._state != _NONE:
            return False
        self._state = _GRACEFUL
        for child in list(self._children):
            child.request_graceful()
        return True

    def request_immediate(self) -> bool:
        """Ask to stop at once; return whether that changed anything."""
        if self._state == _IMMEDIATE:
            return False
        self._state = _IMMEDIATE
        for child in list(self._children):
            child.request_immediate()
        return True

    def request_cancellation(self) -> None:
        self.request_graceful()

    def reset(self) -> None:
        """Forget the request and the running tools; children and callbacks stay, children are not reset."""
        self._state = _NONE
        self._tools.clear()

    def register_tool_start(self, tool_call_id: str, tool_name: str) -> None:
        self._tools[tool_call_id] = tool_name

    def register_tool_complete(self, tool_call_id: str) -> None:
        """Note that a tool call ended; an unknown id is ignored."""
        self._tools.pop(tool_call_id, None)

    def register_child(self, child: CancellationToken) -> None:
        """Pass the current state on to `child`, and every later request too; raise TypeError when it is not a token."""
        if not isinstance(child, CancellationToken):
            raise TypeError(f"register_child: child must be a CancellationToken, got {type(child).__name__}")
        if not any(known is child for known in self._children):
            self._children.append(child)
        if self._state == _IMMEDIATE:
            child.request_immediate()
        elif self._state == _GRACEFUL:
            child.request_graceful()

    def unregister_child(self, child: CancellationToken) -> None:
        """Stop passing requests on to `child`; an unknown child is ignored."""
        self._children = [known for known in self._children if known is not child]

    def on_cancel(self, callback: Callable[[], Any]) -> None:
        """Add a sync or async callback that runs at each `trigger_callbacks()`, never by a request itself."""
        self._callbacks.append(callback)

    async def trigger_callbacks(self) -> None:
        """Run every callback in order; a failing one is logged and skipped.

        KeyboardInterrupt, SystemExit and a cancellation of the task that waits here are raised after all have run; a
        CancelledError that a callback raises itself is its failure.
        """
        task = running_task()
        calls = [partial(call, task, None, callback) for callback in self._callbacks]
        await run_all(calls, "Cancellation callback failed")

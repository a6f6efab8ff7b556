"""Find out which part of a session calls the model: the loop, a tool or a hook."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any, Final

from amplifier_core.hooks import HookRegistry
from amplifier_core.trace import current_scope

LOOP: Final = "loop"
_EMIT: Final = HookRegistry.emit.__code__
_UNNAMED: Final = "_auto_"


def source_of_call(coordinator: Any) -> str:
    """Return who waits for the answer whose event is being handled: `loop`, `tool:<name>` or `hook:<name>`.

    To be called by a handler of that event. A hook is known by the handler that is running further out; one that asks
    in a task of its own opens a span `hook:<name>` for that, else it counts as what it was started from.
    """
    return _hook(coordinator.hooks) or _span(coordinator) or LOOP


def _hook(registry: Any) -> str | None:
    """Return the handler that waits for the answer: the one outside of the handler that is running now."""
    frame: FrameType | None = sys._getframe(2)
    is_outside = False
    while frame is not None:
        if frame.f_code is _EMIT:
            known = frame.f_locals
            if known.get("self") is registry:
                if is_outside:
                    return _name(known.get("entry"), known.get("event"))
                is_outside = True
        frame = frame.f_back
    return None


def _name(entry: Any, event: Any) -> str:
    name = str(getattr(entry, "name", "") or _UNNAMED)
    return f"hook:{event}" if name.startswith(_UNNAMED) else f"hook:{name}"


def _span(coordinator: Any) -> str | None:
    scope = current_scope()
    while scope is not None:
        if scope.owner is coordinator:
            if scope.name.startswith(("tool:", "hook:")):
                return scope.name
            if scope.name.startswith("provider:"):
                return LOOP
        scope = scope.before
    return None

"""The tool call that a delegating tool is executing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, TypeVar

from amplifier_kit.engine.tool_dispatch import call_in_progress

__all__ = ["Dispatch"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Dispatch:
    """The ids of a tool call; None when the caller provides none."""

    tool_call_id: str | None = None
    parallel_group_id: str | None = None

    @classmethod
    def current(cls, coordinator: Any) -> Dispatch:
        """Return the call that runs in this task, in the one that started it, or that the session says is running."""
        found = call_in_progress(coordinator)
        if found is None:
            return cls()
        return cls(_text(found.get("tool_call_id")), _text(found.get("parallel_group_id")))

    def fields(self) -> dict[str, str | None]:
        """Return both ids, as events carry them."""
        return {"tool_call_id": self.tool_call_id, "parallel_group_id": self.parallel_group_id}

    async def carry(self, coordinator: Any, work: Awaitable[T]) -> T:
        """Await work in the current task, registered under the same ids."""
        known, task = _known(coordinator), asyncio.current_task()
        if known is None or self.tool_call_id is None or task in known:
            return await work
        known[task] = self.fields()
        try:
            return await work
        finally:
            known.pop(task, None)


def _known(coordinator: Any) -> dict[Any, Any] | None:
    known = getattr(coordinator, "_tool_dispatch_contexts", None)
    return known if isinstance(known, dict) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None

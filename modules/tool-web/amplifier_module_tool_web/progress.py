"""Tell a session how far a download is."""

from __future__ import annotations

import asyncio
from typing import Any, Final

#: Seconds before a download is worth a word, and between two.
_PAUSE: Final = 0.5
EVENT: Final = "tool:progress"


class DownloadProgress:
    """Emits `tool:progress` while bytes arrive, at most twice a second."""

    def __init__(self, coordinator: Any, tool_name: str, url: str) -> None:
        self._coordinator = coordinator
        self._told = {"tool_name": tool_name, **call_id(coordinator)}
        self._url = url
        self._next = asyncio.get_running_loop().time() + _PAUSE

    async def __call__(self, arrived: int, announced: int | None) -> None:
        """Tell of the bytes so far and those announced."""
        now = asyncio.get_running_loop().time()
        hooks = getattr(self._coordinator, "hooks", None)
        if now < self._next or hooks is None:
            return
        self._next = now + _PAUSE
        of = f" of {announced:,}" if announced else ""
        message = f"{self._url}: {arrived:,}{of} bytes"
        await hooks.emit(EVENT, {**self._told, "message": message, "bytes": arrived, "total_bytes": announced})


def call_id(coordinator: Any) -> dict[str, str]:
    """Return the id of the call that runs in this task, if it is known."""
    known = getattr(coordinator, "_tool_dispatch_contexts", None)
    found = known.get(asyncio.current_task()) if isinstance(known, dict) else None
    given = found.get("tool_call_id") if isinstance(found, dict) else None
    return {"tool_call_id": given} if isinstance(given, str) else {}

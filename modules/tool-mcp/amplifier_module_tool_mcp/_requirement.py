"""Let no request out without the servers that are required, each of which has until its own deadline."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from amplifier_module_tool_mcp._connection import Connection
from amplifier_module_tool_mcp._faults import ServerFault

#: Of what a session gives a handler: so much, and at most so many seconds, is kept to say why in time.
_RESERVE_SHARE: Final = 0.2
_RESERVE_MOST: Final = 2.0
#: The most handlers that wait one after the other, which bounds the whole wait.
_MOST_PARTS: Final = 100


class Requirement:
    """The servers that a session requires, waited for in as many parts as the session's deadline for handlers wants.

    A handler that takes longer than `session.hook_timeout` is given up by the kernel; a server may have more time than
    that. So several handlers wait for it, each for a part of the time.
    """

    def __init__(self, connections: Sequence[Connection], config: Any) -> None:
        self._connections = [connection for connection in connections if connection.spec.required]
        self._part = _seconds(config)
        longest = max((connection.connect_timeout for connection in self._connections), default=0.0)
        #: How many handlers it takes.
        self.parts = min(_MOST_PARTS, max(1, math.ceil(longest / self._part)))

    def __bool__(self) -> bool:
        return bool(self._connections)

    async def missing(self, part: int) -> list[str]:
        """Wait as the n-th handler, from 0 on, and return why servers are not there; none that still has time."""
        faults = await asyncio.gather(*(self._fault(connection, part) for connection in self._connections))
        return [
            f"{connection.spec.name}: {fault}"
            for connection, fault in zip(self._connections, faults, strict=True)
            if fault
        ]

    async def _fault(self, connection: Connection, part: int) -> str:
        left = connection.connect_timeout - (part * self._part if part else 0.0)
        is_last = left <= self._part or part + 1 == self.parts
        try:
            await connection.ready(max(0.0, min(left, self._part)))
        except ServerFault as fault:
            if fault.code != "connect_timeout" or connection.state == "failed":
                return fault.reason
            if is_last:
                why = f" ({connection.fault.reason})" if connection.fault is not None else ""
                return f"it is not connected after {min(connection.connect_timeout, self.parts * self._part):g} s{why}"
        return ""


def _seconds(config: Any) -> float:
    """Return how long a handler may wait; without end where the session has no deadline for it."""
    session = config.get("session") if isinstance(config, Mapping) else None
    limit = session.get("hook_timeout") if isinstance(session, Mapping) else None
    if isinstance(limit, bool) or not isinstance(limit, int | float) or not limit > 0:
        return math.inf
    return float(limit - min(_RESERVE_MOST, _RESERVE_SHARE * limit))

"""Connections of the HTTP library, made to addresses that were judged, and to no others."""

from __future__ import annotations

from collections.abc import Iterable

import httpcore2

from amplifier_kit.guard.network import Endpoint
from amplifier_module_tool_web.guard import Guard


class GuardedBackend(httpcore2.AnyIOBackend):
    """Connects where the guard lets it."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Return a connection; raise AddressRefusedError, or ConnectError when nothing answers."""

        async def attempt(address: str) -> httpcore2.AsyncNetworkStream:
            try:
                # Connect to the checked address: resolving the name again could give another one.
                return await super(GuardedBackend, self).connect_tcp(
                    address, port, timeout, local_address, socket_options
                )
            except httpcore2.ConnectError as error:
                raise OSError(str(error)) from error

        try:
            return await self._guard.reach(Endpoint(host, port), attempt)
        except OSError as error:
            raise httpcore2.ConnectError(error) from error

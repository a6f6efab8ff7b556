"""Ports of the host's loopback that lead to ports inside a universe."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from amplifier_digital_twin.backends.twin import Sockets
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import Port

_CHUNK: Final = 64 * 1024
_CONNECT_TIMEOUT: Final = 5.0


class PortForwards:
    """Listens on loopback only; every connection is carried into the universe."""

    def __init__(self, ports: Sequence[Port], sockets: Callable[[], Awaitable[Sockets]]) -> None:
        """Forward `ports`; `sockets` gives the way into the universe as it is at the time of a connection."""
        self._ports = ports
        self._sockets = sockets
        self._servers: list[asyncio.Server] = []
        #: What was opened, for people and programs.
        self.opened: list[dict[str, Any]] = []

    async def open(self) -> None:
        """Open every port; raise TwinError when one is taken."""
        for port in self._ports:
            try:
                server = await asyncio.start_server(self._carrier(port.container), "127.0.0.1", port.host)
            except OSError as error:
                await self.close()
                raise TwinError(
                    "port_taken",
                    f"port {port.host} of the host cannot be opened: {error.strerror or error}",
                    "set `host: 0` in `access.ports`, which takes a free one",
                ) from error
            self._servers.append(server)
            number = server.sockets[0].getsockname()[1]
            url = f"http://127.0.0.1:{number}{port.path}"
            self.opened.append({"label": port.label, "host": number, "container": port.container, "url": url})

    def _carrier(self, container: int) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
        async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                sockets = await self._sockets()
                inner = await sockets.connect("127.0.0.1", container, _CONNECT_TIMEOUT)
                inner_reader, inner_writer = await asyncio.open_connection(sock=inner)
            except (OSError, TwinError):
                writer.close()  # nobody listens inside: the caller sees the connection end
                return
            try:
                await asyncio.gather(_pump(reader, inner_writer), _pump(inner_reader, writer))
            finally:
                inner_writer.close()
                writer.close()

        return carry

    async def close(self) -> None:
        """Close every port; connections that are open end with their partners."""
        servers, self._servers = self._servers, []
        self.opened.clear()
        for server in servers:
            server.close()


async def _pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(_CHUNK):
            target.write(data)
            await target.drain()
        if target.can_write_eof():
            target.write_eof()
    except OSError:
        target.close()  # one side is gone, so the other has nobody to talk to

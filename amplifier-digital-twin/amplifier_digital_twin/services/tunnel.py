"""Bytes carried both ways between two connections until both sides have ended, or nothing was said for too long."""

from __future__ import annotations

import asyncio

from amplifier_digital_twin.services.http_wire import Wire


class Tunnel:
    """A pair of connections; it does not close them."""

    def __init__(self, client: Wire, server: Wire, idle_seconds: float) -> None:
        self._client = client
        self._server = server
        self._idle_seconds = idle_seconds
        self._last = asyncio.get_running_loop().time()

    async def run(self) -> None:
        """Carry until the end; raise OSError when a connection breaks, TimeoutError when both are silent."""
        pumps = {
            asyncio.create_task(self._pump(self._client, self._server)),
            asyncio.create_task(self._pump(self._server, self._client)),
        }
        try:
            await self._watch(pumps)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _watch(self, pumps: set[asyncio.Task[None]]) -> None:
        loop = asyncio.get_running_loop()
        while pumps:
            remaining = self._last + self._idle_seconds - loop.time()
            if remaining <= 0:
                raise TimeoutError
            done, _ = await asyncio.wait(pumps, timeout=remaining, return_when=asyncio.FIRST_COMPLETED)
            for pump in done:
                pump.result()
            pumps = pumps - done

    async def _pump(self, source: Wire, target: Wire) -> None:
        clock = asyncio.get_running_loop().time
        while data := await source.recv():
            self._last = clock()
            await target.send(data)
            self._last = clock()
        await target.send_eof()

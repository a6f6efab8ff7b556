"""Sockets that listen, and the connections that come of them: no more at once than was agreed."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from amplifier_digital_twin.services.caller import Seat
from amplifier_digital_twin.services.http_wire import SocketWire

Serve = Callable[[SocketWire, Seat], Awaitable[None]]

#: After accepting failed, for want of descriptors for instance.
_PAUSE: Final = 0.2


class Listener:
    """Hands every connection to `serve` in a task of its own and closes it afterwards; `failed` hears what it raises.

    When all seats are taken, the client that has asked for nothing for the longest time has to go; when all are busy,
    whoever comes next waits.
    """

    def __init__(self, serve: Serve, failed: Callable[[Exception], None], connections: int) -> None:
        self._serve = serve
        self._failed = failed
        self._connections = connections
        self._seats: dict[asyncio.Task[None], Seat] = {}
        self._loops: list[asyncio.Task[None]] = []
        self._sockets: list[socket.socket] = []

    def start(self, sockets: Sequence[socket.socket]) -> None:
        """Begin to accept on listening sockets, which are the listener's from now on."""
        for listening in sockets:
            listening.setblocking(False)
            self._sockets.append(listening)
            self._loops.append(asyncio.create_task(self._accept(listening)))

    async def close(self) -> None:
        """End every connection and close the sockets; a second time does nothing."""
        for tasks in (self._loops, list(self._seats)):
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for listening in self._sockets:
            listening.close()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await _readable(listening)
            while len(self._seats) >= self._connections:
                self._evict()
                await asyncio.wait(list(self._seats), timeout=_PAUSE, return_when=asyncio.FIRST_COMPLETED)
            try:
                connection, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                continue
            except OSError:
                await asyncio.sleep(_PAUSE)
                continue
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            seat = Seat()
            task = loop.create_task(self._converse(SocketWire(connection), seat))
            self._seats[task] = seat
            task.add_done_callback(self._leave)

    async def _converse(self, wire: SocketWire, seat: Seat) -> None:
        try:
            await self._serve(wire, seat)
        except Exception as error:
            self._failed(error)
        finally:
            wire.close()

    def _leave(self, task: asyncio.Task[None]) -> None:
        del self._seats[task]

    def _evict(self) -> None:
        idle = [(seat.idle_since, task) for task, seat in self._seats.items() if seat.idle_since is not None]
        if idle:
            min(idle, key=lambda entry: entry[0])[1].cancel()


async def _readable(listening: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(listening, lambda: None if ready.done() else ready.set_result(None))
    try:
        await ready
    finally:
        loop.remove_reader(listening)

"""Bytes and HTTP messages over a socket, plain or encrypted; a reader that is cancelled loses nothing."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import Callable
from typing import Final, Protocol

import h11

from amplifier_digital_twin.services.bounds import Bounds

CHUNK: Final = 64 * 1024
#: First byte of a TLS connection; no HTTP request begins with it.
_TLS_HANDSHAKE: Final = 0x16


class Wire(Protocol):
    """A two-way stream of bytes. `recv` and `send` may run at once; each of them by one task only."""

    def unread(self, data: bytes) -> None:
        """Put bytes back: the next `recv` returns them first."""
        ...

    async def recv(self) -> bytes:
        """Return what came, b"" at the end; a cancelled call loses nothing. Raises OSError."""
        ...

    async def send(self, data: bytes) -> None:
        """Return when the other side's system has taken everything, which is what holds back a fast sender."""
        ...

    async def send_eof(self) -> None:
        """Say that nothing more will be sent."""
        ...

    def close(self) -> None:
        """Give up the connection; a second time does nothing."""
        ...

    def abort(self) -> None:
        """Give up the connection so that the other side takes it for an error and not for an end."""
        ...


class SocketWire:
    """A connected socket as a Wire, which owns it."""

    def __init__(self, connected: socket.socket) -> None:
        connected.setblocking(False)
        self._socket: Final = connected
        self._unread = b""

    def unread(self, data: bytes) -> None:
        """Put bytes back: the next `recv` returns them first."""
        self._unread = data + self._unread

    async def recv(self) -> bytes:
        """Return what came, b"" at the end."""
        if self._unread:
            data, self._unread = self._unread, b""
            return data
        # A peer that always has more must not keep the others waiting; before the read, where nothing can be lost.
        await asyncio.sleep(0)
        while True:
            try:
                return self._socket.recv(CHUNK)
            except (BlockingIOError, InterruptedError):
                loop = asyncio.get_running_loop()
                await self._until_ready(loop.add_reader, loop.remove_reader)

    async def send(self, data: bytes) -> None:
        """Return when everything was taken."""
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[self._socket.send(rest) :]
            except (BlockingIOError, InterruptedError):
                loop = asyncio.get_running_loop()
                await self._until_ready(loop.add_writer, loop.remove_writer)

    async def _until_ready(
        self, add: Callable[[socket.socket, Callable[[], None]], object], remove: Callable[[socket.socket], object]
    ) -> None:
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        add(self._socket, lambda: None if ready.done() else ready.set_result(None))
        try:
            await ready
        finally:
            remove(self._socket)

    async def send_eof(self) -> None:
        """Say that nothing more will be sent."""
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # the other side is gone: it knows

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def abort(self) -> None:
        """Close the socket with a reset."""
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except OSError:
            pass  # closed already, or gone
        self._socket.close()


class TlsWire:
    """TLS over another Wire, in either role; `handshake` comes first."""

    def __init__(
        self, inner: Wire, context: ssl.SSLContext, *, server_side: bool = False, host: str | None = None
    ) -> None:
        self._inner = inner
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=server_side, server_hostname=host)
        self._sending = asyncio.Lock()
        self._unread = b""

    def unread(self, data: bytes) -> None:
        """Put bytes back: the next `recv` returns them first."""
        self._unread = data + self._unread

    async def handshake(self) -> None:
        """Agree on keys; raise ssl.SSLError (after the other side was told why) or OSError."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._flush()
                await self._feed()
            except ssl.SSLError:
                await self._flush()
                raise
            else:
                return await self._flush()

    async def recv(self) -> bytes:
        """Return what came, b"" at the end; an end that the other side did not announce is an ssl.SSLError."""
        if self._unread:
            data, self._unread = self._unread, b""
            return data
        while True:
            try:
                return self._tls.read(CHUNK)
            except ssl.SSLWantReadError:
                await self._flush()
                await self._feed()
            except ssl.SSLZeroReturnError:
                return b""

    async def send(self, data: bytes) -> None:
        """Return when everything was taken."""
        self._tls.write(data)
        await self._flush()

    async def _feed(self) -> None:
        data = await self._inner.recv()
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()

    async def _flush(self) -> None:
        if not self._outgoing.pending:
            return
        async with self._sending:
            data = self._outgoing.read()
            if data:
                await self._inner.send(data)

    async def send_eof(self) -> None:
        """Say that nothing more will be sent."""
        try:
            self._tls.unwrap()
        except ssl.SSLError:
            pass  # the other side's own farewell is still to come, or the connection is broken
        await self._flush()
        await self._inner.send_eof()

    def close(self) -> None:
        """Close what is below."""
        self._inner.close()

    def abort(self) -> None:
        """Abort what is below."""
        self._inner.abort()


async def is_tls(wire: Wire) -> bool:
    """Tell whether the other side begins with a TLS handshake; False also when it ends without a word."""
    data = await wire.recv()
    if data:
        wire.unread(data)
    return bool(data) and data[0] == _TLS_HANDSHAKE


class Peer:
    """HTTP/1.1 over a Wire, in either role."""

    def __init__(self, wire: Wire, role: type[h11.CLIENT] | type[h11.SERVER], bounds: Bounds) -> None:
        self.wire: Final = wire
        self.bounds: Final = bounds
        self.http: Final = h11.Connection(role, max_incomplete_event_size=bounds.head_bytes)

    async def next_event(self, timeout: float) -> h11.Event | type[h11.PAUSED]:
        """Return the next part of a message; raise TimeoutError when no byte comes for so long.

        Raises h11.RemoteProtocolError for what is not HTTP, OSError for a broken connection.
        """
        while True:
            event = self.http.next_event()
            if not isinstance(event, type) or event is h11.PAUSED:
                return event
            async with asyncio.timeout(timeout):
                data = await self.wire.recv()
            self.http.receive_data(data)

    async def send(self, event: h11.Event) -> None:
        """Send a part of a message; raise TimeoutError when the other side takes nothing for too long."""
        data = self.http.send(event)
        for start in range(0, len(data or b""), CHUNK):
            async with asyncio.timeout(self.bounds.stall_seconds):
                await self.wire.send(data[start : start + CHUNK] if data else b"")

"""The keeper's side of the control socket: JSON lines, one request per connection, from the owner alone."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import socket
import struct
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from typing import Any, Final

from amplifier_digital_twin.backends.twin import Stream
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.socket_path import with_short_path

#: The longest request.
_MAX_REQUEST: Final = 4 * 1024 * 1024
#: What a client that does not read may make the keeper remember; more of a command's output is dropped, and said so.
_MAX_UNREAD: Final = 32 * 1024 * 1024
#: How long a client that went silent may hold up the keeper's end.
_FLUSH_SECONDS: Final = 5.0

Request = dict[str, Any]


class Client:
    """A connection: what the keeper says on it, and whether anybody is there to hear it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._dropped = 0

    @property
    def uid(self) -> int:
        """Return the user of the process that connected."""
        peer: socket.socket = self._writer.get_extra_info("socket")
        credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return int(struct.unpack("3i", credentials)[1])

    async def request(self) -> Request | None:
        """Return what the client asks for, None when it left; raise TwinError for what cannot be understood."""
        try:
            line = await self._reader.readline()
        except (ValueError, OSError) as error:
            raise _misunderstood(f"the request is longer than {_MAX_REQUEST} bytes") from error
        if not line.endswith(b"\n"):
            return None
        try:
            value = json.loads(line)
        except ValueError as error:
            raise _misunderstood(f"the request is no JSON: {error}") from error
        if not isinstance(value, dict) or not isinstance(value.get("op"), str):
            raise _misunderstood("the request has no `op`")
        return value

    async def gone(self) -> None:
        """Return when the client has closed the connection; what it says meanwhile is not listened to."""
        try:
            while await self._reader.read(65536):
                pass
        except OSError:
            pass  # reset is closed

    def progress(self, text: str) -> None:
        """Tell what is being done."""
        self._send({"progress": text})

    def output(self, stream: Stream, data: bytes) -> None:
        """Pass on what a command writes; for a client that does not keep up, it is counted and dropped."""
        transport = self._writer.transport
        if transport.get_write_buffer_size() > _MAX_UNREAD:
            self._dropped += len(data)
            return
        self._send({"output": stream, "data": base64.b64encode(data).decode("ascii")})

    async def answer(self, record: dict[str, Any]) -> None:
        """Say the last thing, a result or an error, and wait until it is on its way or nobody wants it."""
        self._send({**record, "dropped": self._dropped} if self._dropped else record)
        await self.close()

    async def close(self) -> None:
        """Close the connection after what was said has left, or when nobody takes it for too long."""
        self._writer.close()
        try:
            async with asyncio.timeout(_FLUSH_SECONDS):
                await self._writer.wait_closed()
        except (OSError, TimeoutError):
            self._writer.transport.abort()

    def _send(self, record: dict[str, Any]) -> None:
        if not self._writer.is_closing():
            self._writer.write(json.dumps(record, default=str).encode() + b"\n")


def _misunderstood(why: str) -> TwinError:
    return TwinError("request_invalid", why, "use the program of the same version as the keeper")


Handler = Callable[[Client, Request], Awaitable[dict[str, Any]]]


class ControlServer:
    """Listens in the universe's folder and hands every request of the owner to the handler."""

    def __init__(self, path: Path, handle: Handler) -> None:
        self._path = path
        self._handle = handle
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen; raises OSError."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            with_short_path(self._path, listener.bind)
            self._server = await asyncio.start_unix_server(self._on_connection, sock=listener, limit=_MAX_REQUEST)
        except BaseException:
            listener.close()
            raise

    async def adopt(self, connected: socket.socket) -> asyncio.Task[None]:
        """Serve a connection that was inherited; return the conversation."""
        reader, writer = await asyncio.open_unix_connection(sock=connected, limit=_MAX_REQUEST)
        return self._begin(reader, writer)

    def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A plain callback: asyncio would log a task of its own that is cancelled at the end as a fault.
        self._begin(reader, writer)

    def _begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(self._converse(Client(reader, writer)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _converse(self, client: Client) -> None:
        try:
            request = await client.request()
            if request is None:
                await client.close()
                return
            # Only now: closing while the request is still unread would take the answer away with it.
            if client.uid != os.geteuid():
                raise TwinError("not_yours", "this universe belongs to another user", "ask its owner")
            record = {"result": await self._handle(client, request)}
        except TwinError as error:
            record = {"error": error.record()}
        except asyncio.CancelledError:
            await client.answer({"error": STOPPED.record()})
            raise
        await client.answer(record)

    async def stop(self, spared: Collection[asyncio.Task[Any]], seconds: float) -> None:
        """Listen no more and cancel every conversation but the spared ones; one that does not end in time is left."""
        if self._server is not None:
            self._server.close()
        tasks = [task for task in self._tasks if task not in spared]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)

    async def close(self) -> None:
        """Wait until those who were spared have their answers."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=2 * _FLUSH_SECONDS)


#: What those hear who wait for something when the universe ends.
STOPPED: Final = TwinError(
    "universe_ended", "the universe was destroyed meanwhile", "`amplifier-digital-twin launch PROFILE` makes another"
)

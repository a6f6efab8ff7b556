"""A small HTTP server on a socket that somebody else made: one question, one answer, no path taken from a request."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import field
from io import BufferedReader
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, unquote

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.value import Value

if TYPE_CHECKING:
    import h11

#: How many bytes a request may carry; what git asks with is far smaller.
MAX_BODY: Final = 16 * 1024 * 1024
#: How many bytes all requests of one site may hold at the same time.
_MAX_BODIES: Final = 64 * 1024 * 1024
#: How long a client may be silent in the middle of something, and between two requests, in seconds.
_SILENCE: Final = 300.0
_IDLE: Final = 60.0
#: How many connections are served at the same time; others are closed at once.
_CONNECTIONS: Final = 128
#: How much of a path is written down.
_SHOWN: Final = 200
_CHUNK: Final = 65536
#: How much of a file the kernel is asked to send at a time: a client must take that much within `_SILENCE`.
_FILE_PIECE: Final = 4 * 1024 * 1024

_log: Final = logging.getLogger(__name__)


class Question(Value):
    """A request: its path decoded once, the query apart, header names in lower case."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes = b""


class Answer(Value):
    """A response; a body that comes in pieces is sent as it comes, and the connection is cut when it fails.

    An open file is sent by the kernel, as long as it is when the answer begins, and closed.
    """

    status: int
    body: bytes | BufferedReader | AsyncIterator[bytes] = b""
    content_type: str = "text/plain; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)
    #: How long a body in pieces is, where that is known.
    length: int | None = None


def plain(status: int, text: str) -> Answer:
    """Return an answer in words."""
    return Answer(status, (text + "\n").encode())


class HttpSite:
    """Answers HTTP requests on listening sockets with what one function says."""

    def __init__(self, answer: Callable[[Question], Awaitable[Answer]]) -> None:
        self._answer = answer
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._bodies = _Budget(_MAX_BODIES)

    async def serve(self, listening: socket.socket) -> asyncio.Server:
        """Serve on a listening socket until it or the site is closed; return at once.

        The socket is the site's from now on; closing what is returned gives it up, and the network it is in.
        """
        listening.setblocking(False)
        server = await asyncio.start_server(self._accept, sock=listening)
        self._servers = [one for one in self._servers if one.is_serving()] + [server]
        return server

    async def close(self) -> None:
        """Stop listening and end every connection; a second time does nothing."""
        for server in self._servers:
            server.close()
        self._servers.clear()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._tasks) >= _CONNECTIONS:
            writer.transport.abort()
            return
        # A task of our own: those that asyncio makes for coroutines log what they are cancelled with.
        task = asyncio.get_running_loop().create_task(self._talk(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        import h11

        try:
            connection = _Connection(h11.Connection(h11.SERVER), reader, writer, self._bodies)
            while await connection.exchange(self._answer):
                pass
        except (OSError, TimeoutError, h11.ProtocolError):
            pass  # the client went away, or is none of HTTP: there is nobody to tell
        finally:
            writer.close()


class _Counted(bytes):
    """Stands for bytes that go another way."""

    _length: int

    def __new__(cls, length: int) -> _Counted:
        """Hold nothing."""
        counted = super().__new__(cls)
        counted._length = length
        return counted

    def __len__(self) -> int:
        """Return how many they are."""
        return self._length


class _Budget:
    """Bytes that requests may hold, all together."""

    def __init__(self, left: int) -> None:
        self._left = left

    def take(self, count: int) -> bool:
        """Take so many, or tell that there are not enough."""
        if count > self._left:
            return False
        self._left -= count
        return True

    def give(self, count: int) -> None:
        """Give them back."""
        self._left += count


class _Connection:
    """One client, from its first request to its last."""

    def __init__(
        self, wire: h11.Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, bodies: _Budget
    ) -> None:
        self._bodies = bodies
        self._held = 0
        self._wire = wire
        self._reader = reader
        self._writer = writer

    async def exchange(self, answer: Callable[[Question], Awaitable[Answer]]) -> bool:
        """Answer one request; return False when there will be no other."""
        try:
            return await self._exchange(answer)
        finally:
            self._bodies.give(self._held)
            self._held = 0

    async def _exchange(self, answer: Callable[[Question], Awaitable[Answer]]) -> bool:
        import h11

        try:
            question = await self._question()
        except h11.RemoteProtocolError as error:
            await self._send(plain(error.error_status_hint, f"not understood: {error}"), is_head=False)
            return False
        if question is None:
            return False
        try:
            found = await answer(question)
        except TwinError as error:
            # Told by whoever raises it, once; a program inside that asks in a loop must not fill the host's log.
            found = plain(503, f"the service of this universe cannot answer: {error.code}")
        except Exception:
            # The twin learns nothing of the host from a traceback; the host's own log has it.
            _log.exception("a service could not answer %s %s", question.method, question.path[:_SHOWN])
            found = plain(500, "the service of this universe failed; its log has the reason")
        await self._send(found, is_head=question.method == "HEAD")
        if self._wire.our_state is h11.DONE and self._wire.their_state is h11.DONE:
            self._wire.start_next_cycle()
            return True
        return False

    async def _event(self) -> object:
        import h11

        while True:
            event = self._wire.next_event()
            if event is not h11.NEED_DATA:
                return event
            if self._wire.they_are_waiting_for_100_continue:
                go_on = h11.InformationalResponse(status_code=100, headers=[])
                await self._write(self._wire.send(go_on))
            async with asyncio.timeout(_IDLE if self._wire.their_state is h11.IDLE else _SILENCE):
                self._wire.receive_data(await self._reader.read(_CHUNK))

    async def _question(self) -> Question | None:
        import h11

        request = await self._event()
        if not isinstance(request, h11.Request):
            return None
        body = bytearray()
        while isinstance(event := await self._event(), h11.Data):
            body += event.data
            if len(body) > MAX_BODY or not self._bodies.take(len(event.data)):
                raise h11.RemoteProtocolError("the request is too large", error_status_hint=413)
            self._held += len(event.data)
        path, _, query = request.target.decode("latin-1").partition("?")
        headers: dict[str, str] = {}
        for name, value in request.headers:
            key, text = name.decode("latin-1"), value.decode("latin-1")
            headers[key] = f"{headers[key]}, {text}" if key in headers else text
        asked = dict(parse_qsl(query, keep_blank_values=True))
        return Question(request.method.decode("ascii"), unquote(path), asked, headers, bytes(body))

    async def _send(self, answer: Answer, *, is_head: bool) -> None:
        import h11

        body = answer.body
        if isinstance(body, BufferedReader):
            with body:
                length = os.fstat(body.fileno()).st_size
                await self._begin(answer, length)
                if not is_head:
                    await self._send_file(body, length)
        elif isinstance(body, bytes):
            await self._begin(answer, len(body))
            if not is_head:
                await self._write(self._wire.send(h11.Data(data=body)))
        else:
            await self._begin(answer, answer.length)
            await self._stream(body, is_head)
        await self._write(self._wire.send(h11.EndOfMessage()))

    async def _begin(self, answer: Answer, length: int | None) -> None:
        import h11

        headers = [("Content-Type", answer.content_type), *answer.headers.items()]
        headers.append(("Transfer-Encoding", "chunked") if length is None else ("Content-Length", str(length)))
        await self._write(self._wire.send(h11.Response(status_code=answer.status, headers=headers)))

    async def _send_file(self, file: BufferedReader, length: int) -> None:
        """Let the kernel send a file; raise OSError when the client goes away or the file becomes shorter."""
        import h11

        loop, sent = asyncio.get_running_loop(), 0
        # h11 counts what it does not see.
        self._wire.send_with_data_passthrough(h11.Data(data=_Counted(length)))
        while sent < length:
            try:
                async with asyncio.timeout(_SILENCE):
                    count = await loop.sendfile(
                        self._writer.transport, file, sent, min(_FILE_PIECE, length - sent), fallback=False
                    )
            except RuntimeError as error:
                raise ConnectionAbortedError("the connection is closing") from error
            if not count:
                _log.error("%s became shorter while it was sent", file.name)
                raise ConnectionAbortedError("the file became shorter while it was sent")
            sent += count

    async def _stream(self, body: AsyncIterator[bytes], is_head: bool) -> None:
        import h11

        try:
            async for piece in body:
                if is_head:
                    break
                await self._write(self._wire.send(h11.Data(data=piece)))
        except (OSError, TimeoutError):
            raise
        except Exception as error:
            # Half an answer must not look like a whole one.
            _log.exception("a service could not finish its answer")
            self._writer.transport.abort()
            raise ConnectionAbortedError from error
        finally:
            close = getattr(body, "aclose", None)
            if close is not None:
                await close()

    async def _write(self, data: bytes | None) -> None:
        if data:
            self._writer.write(data)
            async with asyncio.timeout(_SILENCE):
                await self._writer.drain()

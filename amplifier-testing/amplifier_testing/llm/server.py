"""A real HTTP server on loopback that gives scripted answers and misbehaves on request.

It runs on a thread with its own event loop, so that tests of any kind, and programs in other processes, can talk
to it. It speaks just enough HTTP/1.1 for the SDKs: keep-alive, chunked bodies, and connections that end as they should
not.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from amplifier_testing.llm.reply import Reply

__all__ = ["Heard", "ModelServer"]

Answering = Callable[["Heard"], Reply]


@dataclass(frozen=True)
class Heard:
    """One request that the server got."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """Return the body as JSON, None when it is empty."""
        return json.loads(self.body) if self.body else None


@dataclass
class _Plan:
    queue: deque[Reply | Answering] = field(default_factory=deque)
    last: Reply | Answering | None = None


class ModelServer:
    """Answer requests from a script; use as a context manager.

    Every request takes the next reply of its path's script, then the last one again and again. A function in place of a
    reply is called with the request. Paths without a script get 404.
    """

    def __init__(self) -> None:
        self.requests: list[Heard] = []
        #: Connections that are open now, and answers that the client did not wait for.
        self.connections = 0
        self.disconnects = 0
        #: The most answers that were under way at the same time.
        self.most_at_once = 0
        self._active = 0
        self._plans: dict[str, _Plan] = {}
        self._lock = threading.Lock()
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._run, name="model-server", daemon=True)
        self._ready: Future[int] = Future()
        self._stop: asyncio.Event | None = None
        self.port = 0

    def __enter__(self) -> ModelServer:
        self._thread.start()
        self.port = self._ready.result(timeout=30)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(timeout=30)

    @property
    def url(self) -> str:
        """Return the server's address, without a path."""
        return f"http://127.0.0.1:{self.port}"

    def answers(self, *replies: Reply | Answering, path: str = "") -> None:
        """Script what comes next; for paths that begin with `path` only, when it is given."""
        with self._lock:
            self._plans.setdefault(path, _Plan()).queue.extend(replies)

    def clear(self) -> None:
        """Forget the script and the requests."""
        with self._lock:
            self._plans.clear()
            self.requests.clear()

    @property
    def bodies(self) -> list[Any]:
        """Return the JSON bodies of the requests that had one."""
        return [heard.json for heard in self.requests if heard.body]

    # -- on the thread --

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self._ready.set_result(server.sockets[0].getsockname()[1])
        await self._stop.wait()
        server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        ahead: bytes | None = b""
        try:
            while ahead is not None:
                ahead = await self._exchange(reader, writer, ahead)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client went away, or the test is over
        finally:
            self.connections -= 1
            self._tasks.discard(task)
            writer.transport.abort()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, ahead: bytes) -> bytes | None:
        """Answer one request; return what was read of the next one, None when the connection is to be closed."""
        heard = await _read(reader, ahead)
        if heard is None:
            return None
        reply = self._next(heard)
        self._active += 1
        self.most_at_once = max(self.most_at_once, self._active)
        sending = asyncio.ensure_future(reply.send(writer))
        leaving = asyncio.ensure_future(reader.read(1))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not sending.done():
                self.disconnects += 1
                return None
            read = leaving.result() if leaving.done() else b""
            return read if sending.result() else None
        finally:
            self._active -= 1
            for task in (sending, leaving):
                task.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)

    def _next(self, heard: Heard) -> Reply:
        with self._lock:
            self.requests.append(heard)
            known = [path for path in self._plans if heard.path.startswith(path)]
            if not known:
                return Reply.error(404, {"error": {"type": "not_found_error", "message": f"no {heard.path}"}})
            plan = self._plans[max(known, key=len)]
            if plan.queue:
                plan.last = plan.queue.popleft()
            answer = plan.last
        assert answer is not None
        return answer if isinstance(answer, Reply) else answer(heard)


async def _read(reader: asyncio.StreamReader, ahead: bytes) -> Heard | None:
    try:
        head = ahead + await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ", 2)
    pairs = (line.partition(":") for line in lines if line)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    body = b""
    if headers.get("transfer-encoding", "").lower() == "chunked":
        while size := int((await reader.readline()).strip(), 16):
            body += await reader.readexactly(size)
            await reader.readline()
        await reader.readline()
    elif length := int(headers.get("content-length", "0")):
        body = await reader.readexactly(length)
    return Heard(method, path, headers, body)

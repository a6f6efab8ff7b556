"""A gateway and an interceptor on loopback, and servers that play the world."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from amplifier_digital_twin.profile.model import Mock, Rewrite
from amplifier_digital_twin.services.allow import AllowList
from amplifier_digital_twin.services.authority import Authority
from amplifier_digital_twin.services.bounds import Bounds
from amplifier_digital_twin.services.decisions import Decisions
from amplifier_digital_twin.services.gateway import Gateway
from amplifier_digital_twin.services.interceptor import Interceptor
from amplifier_digital_twin.services.rewrites import Routes
from amplifier_digital_twin.services.upstream import Upstream

Handler = Callable[["Server", asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Server:
    """A server of the world: it keeps the heads and bodies of what it is asked."""

    handler: Handler
    heads: list[str] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    connections: int = 0
    port: int = 0
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    #: Every connection, its own and those it makes.
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection, in a task that `end` knows."""
        self.connections += 1
        self.writers.append(writer)
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def end(self) -> None:
        """End everything that is still going on: a slow machine may be in the middle of it when a test is over."""
        tasks = list(self.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for writer in self.writers:
            # A transport that has written its last bytes and is gone already has no loop to say so to.
            with suppress(AttributeError):
                writer.transport.abort()
        # What is aborted is gone in the next turns of the loop: one for TLS, one for what it goes over.
        for _ in range(3):
            await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self.handler(self, reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client went away, which some tests want
        finally:
            writer.close()

    async def read(self, reader: asyncio.StreamReader) -> str:
        """Read one request, keep it, and return its head."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.heads.append(head)
        lower = head.lower()
        body = b""
        if "content-length:" in lower:
            body = await reader.readexactly(int(lower.split("content-length:")[1].split("\r\n")[0]))
        elif "transfer-encoding: chunked" in lower:
            while size := int(await reader.readline(), 16):
                body += await reader.readexactly(size)
                await reader.readline()
            await reader.readline()
        self.bodies.append(body)
        return head


async def hello(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer every request with the same few words."""
    await server.read(reader)
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-From: upstream\r\nConnection: close\r\n\r\nhello")
    await writer.drain()


@dataclass
class World:
    """One universe's way out."""

    port: int
    intercepted_port: int
    path: Path
    ca_file: Path
    decisions: Decisions
    authority: Authority
    gateway: Gateway

    @property
    def proxy(self) -> str:
        """Return the address of the gateway."""
        return f"http://127.0.0.1:{self.port}"

    def log(self) -> list[dict[str, Any]]:
        """Return what was decided."""
        if not self.path.exists():
            return []
        return [json.loads(line) for line in self.path.read_text(encoding="utf-8").splitlines()]

    def verdicts(self) -> list[tuple[str, str]]:
        """Return verdict and host of every decision."""
        return [(line["verdict"], line["host"]) for line in self.log()]

    async def raw(self, data: bytes, port: int | None = None) -> bytes:
        """Send bytes to the gateway and return everything that comes back."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port or self.port)
        writer.write(data)
        answer = await reader.read()
        writer.close()
        return answer


def listening() -> socket.socket:
    """Return a socket that listens on a free port of loopback."""
    return socket.create_server(("127.0.0.1", 0))


Serve = Callable[..., Awaitable[Server]]
Start = Callable[..., Awaitable[World]]


@pytest.fixture
def outer(tmp_path: Path) -> tuple[Authority, Path]:
    """Return the authority that the host trusts, and the file it is in."""
    authority = Authority.create({"real.test", "api.test", "proxy.test", "localhost"})
    path = tmp_path / "host-ca.pem"
    path.write_bytes(authority.certificate_pem)
    return authority, path


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Return what starts servers of the world."""
    servers: list[tuple[asyncio.Server, Server]] = []

    async def start(handler: Handler = hello, context: ssl.SSLContext | None = None) -> Server:
        server = Server(handler)
        running = await asyncio.start_server(server.accept, "127.0.0.1", 0, ssl=context)
        server.port = running.sockets[0].getsockname()[1]
        servers.append((running, server))
        return server

    yield start
    for running, server in servers:
        running.close()
        await server.end()


@pytest.fixture
async def start(tmp_path: Path, outer: tuple[Authority, Path]) -> AsyncIterator[Start]:
    """Return what starts gateways; `names` says what the host resolves, loopback is private but for `private`."""
    closing: list[Callable[[], Awaitable[None]]] = []

    async def begin(
        allow: Sequence[str] = (),
        rewrites: Sequence[Rewrite] = (),
        mocks: Sequence[Mock] = (),
        private: Sequence[str] = (),
        names: Mapping[str, Sequence[str]] | None = None,
        environ: Mapping[str, str] | None = None,
        bounds: Bounds | None = None,
        max_bytes: int = 1_000_000,
    ) -> World:
        async def resolve(host: str) -> Sequence[str]:
            if host not in (names or {}):
                raise socket.gaierror("unknown")
            return (names or {})[host]

        async def connect(host: str, port: int) -> socket.socket:
            reached = socket.socket()
            reached.setblocking(False)
            await asyncio.get_running_loop().sock_connect(reached, (host, port))
            return reached

        routes = Routes(rewrites, mocks)
        authority = Authority.create(routes.hosts)
        decisions = Decisions(tmp_path / "decisions.jsonl", max_bytes)
        found = {"SSL_CERT_FILE": str(outer[1])} | dict(environ or {})
        upstream = Upstream(found, frozenset(private), connect, resolve if names is not None else None, bounds)
        gateway = Gateway(AllowList(allow), decisions, routes, authority, upstream, bounds)
        interceptor = Interceptor(AllowList(allow), decisions, routes, authority, upstream, bounds)
        sockets = [listening(), listening()]
        ports = [each.getsockname()[1] for each in sockets]
        await gateway.serve(sockets[:1])
        await interceptor.serve(sockets[1:])
        closing.extend([gateway.close, interceptor.close])
        ca_file = tmp_path / "ca.pem"
        ca_file.write_bytes(authority.certificate_pem)
        return World(ports[0], ports[1], decisions.path, ca_file, decisions, authority, gateway)

    yield begin
    for close in closing:
        await close()


Until = Callable[[Callable[[], bool]], Awaitable[None]]


@pytest.fixture
def until() -> Until:
    """Return what waits until something has become true in another process or task."""

    async def wait(is_true: Callable[[], bool]) -> None:
        while not is_true():  # noqa: ASYNC110  # what is waited for is a file or a list of somebody else's
            await asyncio.sleep(0.01)

    return wait


@pytest.fixture
def run() -> Callable[..., Awaitable[tuple[int, str, str]]]:
    """Return what runs a program of the host with a clean environment, beside the event loop."""

    async def execute(*argv: str, **environ: str) -> tuple[int, str, str]:
        import os

        process = await asyncio.create_subprocess_exec(
            *argv,
            env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", **environ},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        return process.returncode or 0, out.decode(), err.decode()

    return execute

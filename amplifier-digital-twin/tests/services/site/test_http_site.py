"""The server of the services answers real HTTP, holds its limits, and tells the twin nothing of the host."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.services import http_site
from amplifier_digital_twin.services.http_site import Answer, HttpSite, Question, plain

Ask = Callable[[bytes], Awaitable[bytes]]


async def pieces(*parts: bytes | Exception) -> AsyncIterator[bytes]:
    """Yield parts; raise the one that is a failure."""
    for part in parts:
        if isinstance(part, Exception):
            raise part
        yield part


async def answer(question: Question) -> Answer:
    """Answer as the path says."""
    if question.path == "/fail":
        raise ValueError("/secret/path of the host")
    if question.path == "/full":
        raise TwinError("decisions_unwritable", "/secret/path of the host is full", "make room")
    if question.path == "/stream":
        return Answer(200, pieces(b"one", b"two"))
    if question.path.startswith("/file/"):
        return Answer(200, Path(question.path.removeprefix("/file")).open("rb"))
    if question.path == "/cut":
        return Answer(200, pieces(b"one", ValueError("half way")))
    said = f"{question.method} {question.path} {dict(question.query)} {len(question.body)}"
    return plain(200, said)


@pytest.fixture
async def ask() -> AsyncIterator[Ask]:
    """Serve, and send bytes as they are."""
    site = HttpSite(answer)
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    await site.serve(listening)

    async def send(request: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        writer.write_eof()
        try:
            return await reader.read()
        except ConnectionResetError:
            return b"reset"
        finally:
            writer.close()

    yield send
    await site.close()


async def test_requests_on_one_connection(ask: Ask) -> None:
    """Several requests share a connection; paths are decoded once, queries kept apart, HEAD has no body."""
    said = await ask(
        b"GET /a%2520b?x=1&y= HTTP/1.1\r\nHost: x\r\n\r\n"
        b"POST /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
        b"HEAD /stream HTTP/1.1\r\nHost: x\r\n\r\n"
    )
    assert b"GET /a%20b {'x': '1', 'y': ''} 0" in said
    assert b"POST /c {} 3" in said
    assert said.count(b"HTTP/1.1 200") == 3
    assert b"one" not in said


async def test_streams(ask: Ask) -> None:
    """A body in pieces arrives whole; one that fails half way is not taken for a whole one."""
    assert (await ask(b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n")).endswith(b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n")
    assert not (await ask(b"GET /cut HTTP/1.1\r\nHost: x\r\n\r\n")).endswith(b"0\r\n\r\n")


async def test_file_arrives_byte_for_byte(ask: Ask, tmp_path: Path) -> None:
    """A file is sent whole, whatever its size, and what is asked next on the connection is answered too."""
    path = tmp_path / "file"
    for content in (b"", b"x", os.urandom(http_site._FILE_PIECE * 2 + 17)):
        path.write_bytes(content)
        said = await ask(f"GET /file{path} HTTP/1.1\r\nHost: x\r\n\r\n".encode() * 2)
        first, second = (said[: len(said) // 2], said[len(said) // 2 :])
        assert first == second
        head, _, body = first.partition(b"\r\n\r\n")
        assert body == content
        assert f"Content-Length: {len(content)}".encode() in head
    said = await ask(f"HEAD /file{path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    assert said.endswith(b"\r\n\r\n")
    assert f"Content-Length: {len(content)}".encode() in said


async def test_file_that_becomes_shorter_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What is missing of a file is seen to be missing by the client, and told in the host's log."""
    path = tmp_path / "file"
    path.write_bytes(b"x" * 1000)
    monkeypatch.setattr(http_site, "_FILE_PIECE", 100)
    begin, file = http_site._Connection._begin, path.open("rb")

    async def begin_and_shrink(connection: http_site._Connection, answer: Answer, length: int | None) -> None:
        await begin(connection, answer, length)
        os.truncate(path, 500)

    async def answer_with_it(question: Question) -> Answer:
        return Answer(200, file)

    monkeypatch.setattr(http_site._Connection, "_begin", begin_and_shrink)
    site = HttpSite(answer_with_it)
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    await site.serve(listening)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    said = await reader.read()
    writer.close()
    await site.close()
    assert said.endswith(b"\r\n\r\n" + b"x" * 500)
    assert "became shorter" in caplog.text
    assert file.closed


async def test_client_that_leaves_a_file(ask: Ask, tmp_path: Path) -> None:
    """One that goes away in the middle of a file takes nobody else's connection with it."""
    path = tmp_path / "large"
    path.write_bytes(bytes(32 * 1024 * 1024))
    site = HttpSite(answer)
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    await site.serve(listening)
    leaving = socket.create_connection(("127.0.0.1", port))
    leaving.sendall(f"GET /file{path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    assert await asyncio.to_thread(leaving.recv, 1000)
    leaving.close()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /next HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert b"GET /next" in await reader.read()
    writer.close()
    await site.close()


async def test_failure_tells_nothing(ask: Ask, caplog: pytest.LogCaptureFixture) -> None:
    """What goes wrong in a service is in the host's log and not in the answer."""
    with caplog.at_level(logging.ERROR):
        said = await ask(b"GET /fail HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert said.startswith(b"HTTP/1.1 500")
    assert b"secret" not in said
    assert "/secret/path" in caplog.text


@pytest.mark.parametrize(
    "request_",
    [
        b"",
        b"\x16\x03\x01\x02\x00",
        b"GET\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Le",
    ],
)
async def test_what_is_no_request(ask: Ask, request_: bytes) -> None:
    """Whatever is sent, the answer is an error or the end, and the next client is served."""
    said = await ask(request_)
    assert said in (b"", b"reset") or said.startswith(b"HTTP/1.1 4")
    assert b"200" in await ask(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")


async def test_large_request_is_refused(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request larger than the limit is refused before it is answered."""
    monkeypatch.setattr(http_site, "MAX_BODY", 10)
    said = await ask(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\nhello world")
    assert said == b"reset" or said.startswith(b"HTTP/1.1 413")


async def test_silent_client_is_left(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that says nothing does not hold its connection for ever."""
    monkeypatch.setattr(http_site, "_IDLE", 0.05)
    monkeypatch.setattr(http_site, "_SILENCE", 0.05)
    site = HttpSite(answer)
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    await site.serve(listening)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    async with asyncio.timeout(30):
        assert await reader.read() == b""
    writer.close()
    await site.close()


async def test_told_faults_are_not_logged_again(ask: Ask, caplog: pytest.LogCaptureFixture) -> None:
    """A fault with a code is answered by the code alone, and a program that asks in a loop fills no log."""
    with caplog.at_level(logging.DEBUG):
        found = await ask(b"GET /full HTTP/1.1\r\nHost: x\r\n\r\n")
    assert b" 503 " in found
    assert b"decisions_unwritable" in found
    assert b"secret" not in found
    assert not caplog.records


async def _until(is_true: Callable[[], bool]) -> None:
    while not is_true():  # noqa: ASYNC110 - what the site's own tasks do
        await asyncio.sleep(0.01)


async def test_all_requests_share_one_allowance(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """What requests hold together is bounded, and given back when they are answered."""
    monkeypatch.setattr(http_site, "_MAX_BODIES", 1000)
    site = HttpSite(answer)
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    await site.serve(listening)

    async def start(length: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (length + 1) + b"x" * length)
        await writer.drain()
        return reader, writer

    try:
        _, first = await start(800)
        await _until(lambda: site._bodies._left == 200)
        second, writer = await start(800)
        assert b" 413 " in await second.readline()
        writer.close()
        first.close()
        await _until(lambda: site._bodies._left == 1000)
        reader, third = await start(800)
        third.write(b"x")
        assert b" 200 " in await reader.readline()
        third.close()
    finally:
        await site.close()


async def test_connections_beyond_the_limit_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody queues: a connection that cannot be served is closed at once, and later ones are served again."""
    monkeypatch.setattr(http_site, "_CONNECTIONS", 2)
    site = HttpSite(answer)
    listening = socket.create_server(("127.0.0.1", 0))
    await site.serve(listening)
    port = listening.getsockname()[1]
    try:
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        await _until(lambda: len(site._tasks) == 2)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            assert await reader.read() == b""
        except ConnectionResetError:
            pass  # closed, and told so
        writer.close()
        for _, one in held:
            one.close()
        await _until(lambda: not site._tasks)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b" 200 " in await reader.readline()
        writer.close()
    finally:
        await site.close()

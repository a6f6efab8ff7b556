"""A request and its answer at once: early answers, broken ones, clients that leave, and every way a body can end."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Any

import pytest


async def _allowed(start: Any, server: Any) -> Any:
    return await start([f"127.0.0.1:{server.port}"], private=["127.0.0.1"])


def _head(server: Any, *headers: str, method: str = "GET", version: str = "1.1", path: str = "/x") -> bytes:
    place = f"127.0.0.1:{server.port}"
    return "\r\n".join([f"{method} http://{place}{path} HTTP/{version}", f"Host: {place}", *headers, "", ""]).encode()


def _saying(answer: bytes) -> Any:
    async def say(server: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.read(reader)
        writer.write(answer)
        await writer.drain()

    return say


async def test_client_that_leaves_ends_the_request_to_the_server(start: Any, serve: Any, until: Any) -> None:
    """When the client is gone, the server is not kept busy with its request."""
    ended: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def wait(server: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.read(reader)
        ended.set_result(await reader.read())

    server = await serve(wait)
    world = await _allowed(start, server)
    _, writer = await asyncio.open_connection("127.0.0.1", world.port)
    writer.write(_head(server))
    await until(lambda: bool(server.heads))
    writer.close()
    assert await ended == b""


async def test_client_that_resets_in_its_body_ends_the_request(start: Any, serve: Any, until: Any) -> None:
    """A body that breaks off reaches the server as one that broke off, not as a whole one."""
    ended: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def read_all(_: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ended.set_result(await reader.read())

    server = await serve(read_all)
    world = await _allowed(start, server)
    client = socket.create_connection(("127.0.0.1", world.port))
    client.sendall(_head(server, "Transfer-Encoding: chunked", method="POST") + b"5\r\nhello\r\n")
    await until(lambda: bool(server.connections))
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    assert not (await ended).endswith(b"0\r\n\r\n")


async def test_server_may_answer_before_it_has_read_everything(start: Any, serve: Any, run: Any, tmp_path: Any) -> None:
    """An early answer arrives, although the client is still sending and the server has hung up."""

    async def too_large(server: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nno\n")
        await writer.drain()
        writer.write_eof()
        while await reader.read(65536):
            pass

    server = await serve(too_large)
    world = await _allowed(start, server)
    file = tmp_path / "body"
    file.write_bytes(b"x" * 5_000_000)
    argv = ["curl", "-sS", "-x", world.proxy, "--data-binary", f"@{file}", "-H", "Expect:"]
    _, out, _ = await run(*argv, f"http://127.0.0.1:{server.port}/", "-w", "%{http_code}")
    assert out == "no\n413"


async def test_expectation_is_met_by_the_gateway(start: Any, serve: Any) -> None:
    """A client that waits for `100 Continue` gets it, and the server never sees the question."""
    server = await serve()
    world = await _allowed(start, server)
    reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
    writer.write(_head(server, "Expect: 100-continue", "Content-Length: 4", "Connection: close", method="POST"))
    assert b" 100 " in await reader.readuntil(b"\r\n\r\n")
    writer.write(b"body")
    assert (await reader.read()).endswith(b"hello")
    writer.close()
    assert server.bodies == [b"body"]
    assert "expect" not in server.heads[0].lower()


@pytest.mark.parametrize(
    "broken",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
async def test_answer_that_breaks_off_is_not_taken_for_whole(start: Any, serve: Any, run: Any, broken: bytes) -> None:
    """A client notices when the server broke off in the middle of its answer."""
    server = await serve(_saying(broken))
    world = await _allowed(start, server)
    code, _, _ = await run("curl", "-sS", "-x", world.proxy, f"http://127.0.0.1:{server.port}/")
    assert code in (18, 56)  # partial file, receive failure


@pytest.mark.parametrize(
    "broken", [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"]
)
async def test_server_that_does_not_answer_gives_502(start: Any, serve: Any, run: Any, broken: bytes) -> None:
    """What is no answer is told as such, and the decision stays written down once."""
    server = await serve(_saying(broken))
    world = await _allowed(start, server)
    _, out, _ = await run("curl", "-sS", "-x", world.proxy, f"http://127.0.0.1:{server.port}/", "-w", "%{http_code}")
    assert out.endswith("502")
    assert [line["verdict"] for line in world.log()] == ["allow"]


async def test_answer_headers_are_written_anew(start: Any, serve: Any) -> None:
    """Of the answer too, headers of the connection stay behind, and its length is said once."""
    said = (
        b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 Fine\r\nConnection: x-mine\r\nX-Mine: 1\r\n"
        b"Keep-Alive: 5\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n\r\n"
        b"5\r\nhello\r\n0\r\nX-Trailer: 1\r\n\r\n"
    )
    server = await serve(_saying(said))
    world = await _allowed(start, server)
    answer = await world.raw(_head(server, "Connection: close"))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.split(b"\r\n") == [
        b"HTTP/1.1 200 Fine",
        b"Set-Cookie: a",
        b"Set-Cookie: b",
        b"Transfer-Encoding: chunked",
        b"Connection: close",
    ]
    assert body == b"5\r\nhello\r\n0\r\n\r\n"


async def test_old_client_gets_an_answer_that_ends_with_the_connection(start: Any, serve: Any) -> None:
    """A client of HTTP/1.0 is never sent chunks."""
    server = await serve(_saying(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"))
    world = await _allowed(start, server)
    head, _, body = (await world.raw(_head(server, version="1.0"))).partition(b"\r\n\r\n")
    assert b"chunked" not in head
    assert body == b"hello"


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n"),
        ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 500\r\n\r\n"),
        ("DELETE", b"HTTP/1.1 204 No Content\r\n\r\n"),
    ],
)
async def test_answers_without_a_body_keep_the_connection(start: Any, serve: Any, method: str, answer: bytes) -> None:
    """After an answer that has no body by definition, the next request of the connection is understood."""

    async def reply(server: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await server.read(reader)
        writer.write(answer if head.startswith(method) and "/first" in head else b"HTTP/1.1 200 OK\r\n\r\nhello")
        await writer.drain()

    server = await serve(reply)
    world = await _allowed(start, server)
    both = _head(server, method=method, path="/first") + _head(server, "Connection: close", path="/second")
    answers = await world.raw(both)
    assert answers.startswith(answer.partition(b"\r\n")[0])
    assert answers.count(b"HTTP/1.1 ") == 2
    assert b"hello" in answers.rpartition(b"HTTP/1.1 ")[2]
    assert [head.split()[1] for head in server.heads] == ["/first", "/second"]


async def test_requests_sent_ahead_are_answered_in_order(start: Any, serve: Any) -> None:
    """Requests that come before the earlier ones were answered are neither lost nor mixed up."""

    async def reply(server: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await server.read(reader)).split()[1]
        await asyncio.sleep(0.01)
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(path)}\r\n\r\n{path}".encode())
        await writer.drain()

    server = await serve(reply)
    world = await _allowed(start, server)
    paths = [f"/{number}" for number in range(20)]
    data = b"".join(_head(server, path=path) for path in paths) + _head(server, "Connection: close", path="/last")
    answers = (await world.raw(data)).split(b"HTTP/1.1 200 OK")[1:]
    assert [answer.rpartition(b"\r\n")[2].decode() for answer in answers] == [*paths, "/last"]


async def test_next_request_is_never_lost_behind_an_answer(start: Any, serve: Any) -> None:
    """A client that asks again the moment it has its answer is heard, two hundred times in a row."""
    server = await serve()
    world = await _allowed(start, server)
    reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
    for _ in range(200):
        writer.write(_head(server))
        await reader.readuntil(b"\r\n\r\n")
        assert await reader.readexactly(5) == b"hello"
    writer.close()
    assert len(world.log()) == 200


async def test_old_client_notices_an_answer_that_broke_off(start: Any, serve: Any) -> None:
    """Where only the end of the connection ends the answer, a broken one ends with a reset."""
    server = await serve(_saying(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"))
    world = await _allowed(start, server)
    with pytest.raises(ConnectionResetError):
        await world.raw(_head(server, version="1.0"))


async def test_refusal_reaches_a_client_that_is_still_sending(start: Any) -> None:
    """Who is refused in the midst of a large body can read why, although nobody wanted the body."""
    world = await start()
    reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
    writer.write(b"POST http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\nContent-Length: 5000000\r\n\r\n")
    for _ in range(50):
        writer.write(b"x" * 100_000)
        await writer.drain()
    answer = await reader.read()
    writer.close()
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert answer.endswith(b"`mocks`.\n")

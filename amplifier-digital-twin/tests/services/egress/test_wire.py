"""Messages on the wire: read and written anew, bounded, and never held in memory as a whole."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from amplifier_digital_twin.services.bounds import Bounds


async def _allowed(start: Any, server: Any, bounds: Bounds | None = None) -> Any:
    return await start([f"127.0.0.1:{server.port}"], private=["127.0.0.1"], bounds=bounds)


def _head(server: Any, *headers: str, method: str = "POST", version: str = "1.1") -> bytes:
    place = f"127.0.0.1:{server.port}"
    return "\r\n".join([f"{method} http://{place}/x HTTP/{version}", f"Host: {place}", *headers, "", ""]).encode()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (["Content-Length: 5", "Transfer-Encoding: chunked"], 400),
        (["Content-Length: 5", "Content-Length: 6"], 400),
        (["Content-Length: +5"], 400),
        (["Transfer-Encoding: chunked", "Transfer-Encoding: identity"], 501),
        (["Transfer-Encoding: gzip, chunked"], 501),
        (["Transfer-Encoding : chunked"], 400),
        (["Host: other.test"], 400),
    ],
)
async def test_request_with_two_readings_reaches_nobody(
    start: Any, serve: Any, headers: list[str], status: int
) -> None:
    """What two servers in a row could read as different messages is refused and ends the connection."""
    server = await serve()
    world = await _allowed(start, server)
    smuggled = b"0\r\n\r\nGET /admin HTTP/1.1\r\nHost: x\r\n\r\n"
    answer = await world.raw(_head(server, *headers) + smuggled)
    assert answer.split()[1] == str(status).encode()
    assert answer.count(b"HTTP/1.1 ") == 1
    assert server.connections == 0
    assert [line["verdict"] for line in world.log()] == ["refuse"]


async def test_headers_of_the_connection_stay_behind(start: Any, serve: Any) -> None:
    """Hop-by-hop headers, those that Connection names, and the proxy's password do not reach the server."""
    server = await serve()
    world = await _allowed(start, server)
    mine = [
        "Connection: close, X-Mine",
        "X-Mine: 1",
        "Keep-Alive: 5",
        "TE: trailers",
        "Proxy-Authorization: Basic eA==",
    ]
    answer = await world.raw(_head(server, *mine, "Upgrade: h2c", "HTTP2-Settings: AA", "X-Other: kept", method="GET"))
    assert answer.endswith(b"hello")
    lines = server.heads[0].split("\r\n")
    assert lines == ["GET /x HTTP/1.1", f"Host: 127.0.0.1:{server.port}", "X-Other: kept", "Connection: close", "", ""]


async def test_bare_line_feeds_and_folds_are_written_anew(start: Any, serve: Any) -> None:
    """A lenient reading never reaches the server as it came."""
    server = await serve()
    world = await _allowed(start, server)
    data = _head(server, "X-Folded: a", "  b", "Connection: close", method="GET").replace(b"\r\n", b"\n")
    assert (await world.raw(data)).endswith(b"hello")
    assert "X-Folded: a b\r\n" in server.heads[0]


@pytest.mark.parametrize(
    ("target", "host", "status"),
    [
        ("http://user:pw@real.test/", "real.test", 400),
        ("http://real.test@evil.test/", "evil.test", 400),
        ("http://real.test/", "evil.test", 421),
        ("http://real.test:81/", "real.test", 421),
        ("http://0x7f000001/", "0x7f000001", 400),
        ("http://2130706433/", "2130706433", 400),
        ("http://0177.0.0.1/", "0177.0.0.1", 400),
        ("http://127.1/", "127.1", 400),
        ("http://[::1%25lo]/", "[::1]", 400),
        ("http:///x", "real.test", 400),
        ("ftp://real.test/", "real.test", 400),
        ("https://real.test/", "real.test", 400),
        ("/x", "real.test", 400),
        ("*", "real.test", 400),
        ("http://real.test/#x", "real.test", 400),
    ],
)
async def test_odd_targets_are_refused(start: Any, target: str, host: str, status: int) -> None:
    """A target that is no plain http URL, or disagrees with its Host header, is refused and logged without secrets."""
    world = await start(["real.test"], names={})
    answer = await world.raw(f"GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    assert answer.split()[1] == str(status).encode()
    assert [line["verdict"] for line in world.log()] == ["refuse"]
    assert "pw" not in world.path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("target", "host", "status"),
    [
        ("real.test:443", "evil.test:443", 421),
        ("real.test:443", "real.test:80", 421),
        ("real.test", "real.test", 400),
        ("u@real.test:443", "real.test:443", 400),
        ("real.test:0", "real.test:0", 400),
        ("real.test:065536", "x", 400),
        ("http://real.test:443", "real.test:443", 400),
        ("REAL.test.:443", "real.TEST:443", 502),
        ("real.test:443", "real.test", 502),
    ],
)
async def test_connect_says_one_host_in_one_way(start: Any, target: str, host: str, status: int) -> None:
    """Authority and Host header of CONNECT agree; case and a trailing dot make no difference (502: no such name)."""
    world = await start(["real.test"], names={})
    answer = await world.raw(f"CONNECT {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    assert answer.split()[1] == str(status).encode()
    assert len(world.log()) == 1


@pytest.mark.parametrize("data", [b"\x16\x03\x01\x00\x05hello", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"hello\r\n\r\n"])
async def test_what_is_no_request_is_refused(start: Any, data: bytes) -> None:
    """Bytes that are no HTTP/1 request get an answer in 4xx or 5xx and one line in the log."""
    world = await start()
    answer = await world.raw(data)
    assert answer.split()[1][:1] in (b"4", b"5")
    assert [line["verdict"] for line in world.log()] == ["refuse"]


async def test_endless_head_is_cut_off(start: Any) -> None:
    """A head larger than the bound is answered 431, whatever follows."""
    world = await start(bounds=Bounds(head_bytes=2000))
    answer = await world.raw(b"GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\nX: " + b"a" * 200_000)
    assert answer.split()[1] == b"431"


async def test_slow_head_is_cut_off(start: Any) -> None:
    """A client that drips its request is answered 408, however steadily it drips."""
    world = await start(bounds=Bounds(head_seconds=0.3))
    reader, writer = await asyncio.open_connection("127.0.0.1", world.port)

    async def drip() -> None:
        while True:
            writer.write(b"G")
            await writer.drain()
            await asyncio.sleep(0.02)

    task = asyncio.create_task(drip())
    assert (await reader.readuntil(b"\r\n\r\n")).split()[1] == b"408"
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    writer.close()


async def test_silent_client_is_let_go_without_a_word(start: Any) -> None:
    """A connection on which nothing is asked ends after the idle time, and is no decision."""
    world = await start(bounds=Bounds(idle_seconds=0.1))
    assert await world.raw(b"") == b""
    assert world.log() == []


async def test_idle_client_makes_room_and_busy_ones_make_wait(start: Any, serve: Any, until: Any) -> None:
    """Beyond the bound, the one who asks for nothing has to go; nobody who is served is disturbed."""
    release = asyncio.Event()

    async def slow(server: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.read(reader)
        await release.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        await writer.drain()

    server = await serve(slow)
    world = await _allowed(start, server, Bounds(connections=2))
    request = _head(server, "Connection: close", method="GET")
    busy = asyncio.create_task(world.raw(request))
    await until(lambda: bool(server.heads))
    idle_reader, idle_writer = await asyncio.open_connection("127.0.0.1", world.port)
    second = asyncio.create_task(world.raw(request))
    assert await idle_reader.read() == b""
    idle_writer.close()
    await until(lambda: len(server.heads) == 2)
    third = asyncio.create_task(world.raw(request))
    await asyncio.sleep(0.1)
    assert len(server.heads) == 2
    release.set()
    answers = await asyncio.gather(busy, second, third)
    assert all(answer.endswith(b"ok") for answer in answers)


async def test_large_bodies_stream_both_ways(start: Any, serve: Any, run: Any, tmp_path: Any) -> None:
    """Bodies far larger than any buffer arrive whole: counted up, in chunks down."""
    size = 30_000_000
    file = tmp_path / "body"
    file.write_bytes(bytes(range(256)) * (size // 256))

    async def echo(server: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.read(reader)
        body = server.bodies[-1]
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for at in range(0, len(body), 1_000_000):
            piece = body[at : at + 1_000_000]
            writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    server = await serve(echo)
    world = await _allowed(start, server)
    url = f"http://127.0.0.1:{server.port}/x"
    for extra in ([], ["-H", "Transfer-Encoding: chunked"]):
        target = tmp_path / "answer"
        argv = ["curl", "-sS", "-x", world.proxy, "--data-binary", f"@{file}", "-o", str(target), *extra, url]
        assert (await run(*argv))[0] == 0
        assert target.read_bytes() == file.read_bytes()


@pytest.mark.parametrize("is_tunnel", [True, False])
async def test_slow_reader_holds_the_sender_back(start: Any, serve: Any, is_tunnel: bool) -> None:
    """A server that sends without end is stopped by a client that does not read."""
    sent = 0

    async def flood(server: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await server.read(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(b"x" * 100_000)
            await writer.drain()
            sent += 100_000

    server = await serve(flood)
    world = await _allowed(start, server)
    client = socket.create_connection(("127.0.0.1", world.port))
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    if is_tunnel:
        client.sendall(_connect(server))
    client.sendall(_head(server, method="GET"))
    before = -1
    while sent == 0 or sent != before:
        before = sent
        await asyncio.sleep(0.3)
    assert sent < 60_000_000
    client.close()


def _connect(server: Any) -> bytes:
    return f"CONNECT 127.0.0.1:{server.port} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode()


async def test_silent_tunnel_ends(start: Any, serve: Any) -> None:
    """A tunnel in which nobody says anything ends after its time, for both sides."""
    ended = asyncio.Event()

    async def wait(_: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        ended.set()

    server = await serve(wait)
    world = await _allowed(start, server, Bounds(tunnel_seconds=0.2))
    with pytest.raises(ConnectionResetError):
        await world.raw(_connect(server))
    await ended.wait()

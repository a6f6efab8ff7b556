"""The gateway: who gets out, who does not, and what is written down."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import httpx2
import pytest

from amplifier_digital_twin.services.authority import Authority

NAMES = {"real.test": ["127.0.0.1"]}


async def test_absolute_form_reaches_an_allowed_host(start: Any, serve: Any, run: Any) -> None:
    """Plain HTTP to an allowed host goes through, and is written down without its query."""
    server = await serve()
    world = await start([f"real.test:{server.port}"], private=["real.test"], names=NAMES)
    url = f"http://real.test:{server.port}/a/b?token=secret"
    code, out, err = await run("curl", "-sS", "-x", world.proxy, "-H", "Authorization: Bearer s3cret", url)
    assert (code, out, err) == (0, "hello", "")
    head = server.heads[0]
    assert head.startswith("GET /a/b?token=secret HTTP/1.1\r\n")
    assert f"Host: real.test:{server.port}\r\n" in head
    assert "Authorization: Bearer s3cret" in head
    assert "Proxy-Connection" not in head
    [line] = world.log()
    assert line.pop("ts").endswith("Z")
    assert line == {
        "service": "gateway",
        "verdict": "allow",
        "host": "real.test",
        "port": server.port,
        "method": "GET",
        "path": "/a/b",
        "reason": "",
    }
    assert "secret" not in world.path.read_text(encoding="utf-8")


async def test_unlisted_host_is_refused_and_logged(start: Any, run: Any) -> None:
    """A host that the profile does not list is refused with the key to change, by both forms of request."""
    world = await start(["real.test"])
    code, out, _ = await run("curl", "-sS", "-x", world.proxy, "http://evil.test/x?q=1", "-w", "%{http_code}")
    assert code == 0
    assert "`network.allow`" in out
    assert '"evil.test"' in out
    assert out.endswith("403")
    code, out, err = await run("curl", "-sS", "-x", world.proxy, "https://evil.test:8443/x")
    assert code != 0
    assert "403" in err
    assert [(entry["verdict"], entry["host"], entry["port"], entry["method"]) for entry in world.log()] == [
        ("refuse", "evil.test", 80, "GET"),
        ("refuse", "evil.test", 8443, "CONNECT"),
    ]
    assert world.decisions.refused_hosts() == {"evil.test"}


async def test_allowed_host_on_another_port_is_refused(start: Any) -> None:
    """An entry without a port means the web's two ports and no other."""
    world = await start(["real.test"])
    answer = await world.raw(b"CONNECT real.test:22 HTTP/1.1\r\nHost: real.test:22\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert b'"real.test:22"' in answer


async def test_connect_tunnels_to_an_allowed_host(
    start: Any, serve: Any, run: Any, outer: tuple[Authority, Path]
) -> None:
    """What is in a tunnel is the client's and the server's affair: the certificate is the server's own."""
    server = await serve(context=outer[0].context_for("real.test"))
    world = await start([f"real.test:{server.port}"], private=["real.test"], names=NAMES)
    url = f"https://real.test:{server.port}/x"
    code, out, err = await run("curl", "-sS", "--cacert", str(outer[1]), "-x", world.proxy, url)
    assert (code, out, err) == (0, "hello", "")
    assert [(line["verdict"], line["method"], line["path"]) for line in world.log()] == [("allow", "CONNECT", "")]


async def test_urllib_and_httpx_come_through(start: Any, serve: Any, run: Any, outer: tuple[Authority, Path]) -> None:
    """Clients of both common kinds (HTTP/1.0 CONNECT without a Host header, and HTTP/1.1) get their tunnel."""
    import sys

    server = await serve(context=outer[0].context_for("real.test"))
    world = await start([f"real.test:{server.port}"], private=["real.test"], names=NAMES)
    url = f"https://real.test:{server.port}/x"
    program = f"import urllib.request; print(urllib.request.urlopen({url!r}).read())"
    environ = {"https_proxy": world.proxy, "SSL_CERT_FILE": str(outer[1])}
    code, out, err = await run(sys.executable, "-c", program, **environ)
    assert (code, out.strip(), err) == (0, "b'hello'", "")
    context = ssl.create_default_context(cafile=str(outer[1]))
    async with httpx2.AsyncClient(proxy=world.proxy, verify=context, trust_env=False) as client:
        assert (await client.get(url)).text == "hello"


async def test_tunnel_ends_when_the_handshake_is_for_another_host(
    start: Any, serve: Any, until: Any, outer: tuple[Authority, Path]
) -> None:
    """A tunnel to an allowed host cannot be used to ask the same server for a host that is not."""
    server = await serve(context=outer[0].context_for("real.test"))
    world = await start([f"real.test:{server.port}"], private=["real.test"], names=NAMES)
    reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
    writer.write(f"CONNECT real.test:{server.port} HTTP/1.1\r\nHost: real.test:{server.port}\r\n\r\n".encode())
    assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
    context = ssl.create_default_context(cafile=str(outer[1]))
    with pytest.raises(OSError):
        await writer.start_tls(context, server_hostname="api.test")
    writer.transport.abort()
    await until(lambda: len(world.log()) == 2)
    assert world.verdicts() == [("allow", "real.test"), ("refuse", "api.test")]
    assert server.heads == []


async def test_tunnel_carries_what_is_no_tls_and_half_closed_ends(start: Any, serve: Any) -> None:
    """A tunnel carries any protocol, also one in which the server speaks first, and the end of each side by itself."""

    async def greet(_: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"welcome\n")
        said = await reader.read()
        writer.write(b"you said " + said)
        await writer.drain()

    server = await serve(greet)
    world = await start([f"127.0.0.1:{server.port}"], private=["127.0.0.1"])
    reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
    # The client does not wait for the tunnel before it speaks.
    writer.write(f"CONNECT 127.0.0.1:{server.port} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\nahead ".encode())
    assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
    assert await reader.readline() == b"welcome\n"
    writer.write(b"hi")
    writer.write_eof()
    assert await reader.read() == b"you said ahead hi"
    writer.close()


async def test_git_clones_through_the_gateway(start: Any, serve: Any, run: Any, tmp_path: Path) -> None:
    """git reaches an allowed host over plain HTTP, and is told when a host is refused."""
    work, bare, target = tmp_path / "work", tmp_path / "bare.git", tmp_path / "clone"
    await run("git", "init", "-q", str(work))
    identity = ["-c", "user.name=n", "-c", "user.email=e@example.com"]
    await run("git", "-C", str(work), *identity, "commit", "-q", "--allow-empty", "-m", "first")
    await run("git", "clone", "-q", "--bare", str(work), str(bare))
    await run("git", "-C", str(bare), "update-server-info")

    async def dumb(server: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await server.read(reader)).split()[1].partition("?")[0]
        file = bare / path.removeprefix("/repo.git/")
        content = file.read_bytes() if file.is_file() else b""
        status = "200 OK" if file.is_file() else "404 Not Found"
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content)
        await writer.drain()

    server = await serve(dumb)
    world = await start([f"real.test:{server.port}"], private=["real.test"], names=NAMES)
    url = f"http://real.test:{server.port}/repo.git"
    code, _, err = await run("git", "clone", "-q", url, str(target), http_proxy=world.proxy)
    assert code == 0, err
    assert (target / ".git").is_dir()
    code, _, err = await run("git", "clone", "-q", "http://evil.test/r", str(tmp_path / "no"), http_proxy=world.proxy)
    assert code != 0
    assert "403" in err


async def test_upstream_that_cannot_be_reached_is_an_error_not_a_refusal(start: Any) -> None:
    """A server that is down gives 502 and the verdict `error`, once."""
    world = await start(["real.test:1", "gone.test"], private=["real.test"], names=NAMES)
    request = "CONNECT {0} HTTP/1.1\r\nHost: {0}\r\nConnection: close\r\n\r\n"
    assert (await world.raw(request.format("real.test:1").encode())).startswith(b"HTTP/1.1 502 ")
    answer = await world.raw(b"GET http://gone.test/ HTTP/1.1\r\nHost: gone.test\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 502 ")
    assert b"cannot be resolved" in answer
    assert world.verdicts() == [("error", "real.test"), ("error", "gone.test")]


async def test_what_cannot_be_written_down_does_not_happen(start: Any, serve: Any) -> None:
    """When the log is full, requests are refused instead of let through unseen."""
    server = await serve()
    world = await start([f"127.0.0.1:{server.port}"], private=["127.0.0.1"], max_bytes=300)
    request = (
        f"GET http://127.0.0.1:{server.port}/ HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nConnection: close\r\n\r\n"
    )
    assert b" 200 " in await world.raw(request.encode())
    answer = await world.raw(request.encode())
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert len(server.heads) == 1
    assert len(world.log()) == 1


async def test_close_ends_connections_and_frees_the_port(start: Any) -> None:
    """After `close` nobody is served any more and nobody listens; a second time does nothing."""
    world = await start()
    reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
    await asyncio.sleep(0)
    await world.gateway.close()
    await world.gateway.close()
    try:
        assert await reader.read() == b""
    except ConnectionResetError:
        pass  # it was still in the queue of the socket
    writer.close()
    with pytest.raises(OSError):
        await asyncio.open_connection("127.0.0.1", world.port)

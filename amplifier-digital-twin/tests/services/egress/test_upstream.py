"""The way out: which addresses may be reached, that the judged one is, and the host's own proxies."""

from __future__ import annotations

import asyncio
import base64
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from amplifier_digital_twin.services.authority import Authority
from amplifier_digital_twin.services.endpoints import Endpoint
from amplifier_digital_twin.services.upstream import AddressRefusedError, UnreachableError, Upstream


@pytest.fixture(autouse=True)
def reached(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return where connections were tried to; of the world beyond loopback nothing is ever reached by a test."""
    places: list[Any] = []
    loop = asyncio.SelectorEventLoop
    original = loop.sock_connect

    async def sock_connect(self: Any, connection: socket.socket, place: Any) -> None:
        places.append(place[:2])
        if not place[0].startswith("127."):
            raise ConnectionRefusedError(111, "refused")
        await original(self, connection, place)

    monkeypatch.setattr(loop, "sock_connect", sock_connect)
    return places


PRIVATE = [
    "127.0.0.1",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "0.0.0.0",
    "0.1.2.3",
    "224.0.0.1",
    "239.1.1.1",
    "240.0.0.1",
    "255.255.255.255",
    "192.0.0.8",
    "192.0.0.192",
    "168.63.129.16",
    "203.0.113.1",
    "198.18.0.1",
    "192.88.99.1",
    "::",
    "::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::127.0.0.1",
    "64:ff9b::a00:1",
    "64:ff9b:1::a00:1",
    "2002:7f00:1::",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "fe80::1",
    "fe80::1%1",
    "fec0::1",
    "fc00::1",
    "ff02::1",
    "2001:db8::1",
    "3fff::1",
    "5f00::1",
    "100::1",
]


def _resolving(*addresses: str) -> Any:
    async def resolve(_: str) -> Sequence[str]:
        return addresses

    return resolve


@pytest.mark.parametrize("address", PRIVATE)
async def test_private_address_behind_a_public_name_is_refused(address: str, reached: list[Any]) -> None:
    """Whatever a name resolves to, no private, special or own address is connected to."""
    upstream = Upstream({}, resolve=_resolving(address))
    with pytest.raises(AddressRefusedError):
        await upstream.open_tunnel(Endpoint("real.test", 443))
    with pytest.raises(AddressRefusedError):
        await upstream.open_http("http", Endpoint("real.test", 80))
    assert reached == []


@pytest.mark.parametrize("address", ["169.254.169.254", "fe80::1%1", "224.0.0.1", "0.0.0.0", "::ffff:169.254.169.254"])
async def test_private_host_may_not_be_link_local_either(address: str) -> None:
    """A host that may be in a private network may still not be where clouds hand out credentials."""
    upstream = Upstream({}, frozenset({"real.test"}), resolve=_resolving(address))
    with pytest.raises(AddressRefusedError):
        await upstream.open_tunnel(Endpoint("real.test", 443))


async def test_private_host_with_a_port_is_private_on_that_port_only(serve: Any) -> None:
    """`host:port` among the private hosts means that port."""
    server = await serve()
    upstream = Upstream({}, frozenset({f"real.test:{server.port}"}), resolve=_resolving("127.0.0.1"))
    (await upstream.open_tunnel(Endpoint("real.test", server.port))).close()
    with pytest.raises(AddressRefusedError):
        await upstream.open_tunnel(Endpoint("real.test", server.port + 1))


async def test_own_public_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """An address of the internet that is this machine's own leads to the host, and is refused."""
    monkeypatch.setattr("amplifier_digital_twin.services.upstream.is_own", lambda address: address == "8.8.8.8")
    with pytest.raises(AddressRefusedError):
        await Upstream({}, resolve=_resolving("8.8.8.8")).open_tunnel(Endpoint("real.test", 443))


async def test_name_is_resolved_once_and_the_judged_address_connected_to(reached: list[Any]) -> None:
    """A name that changes its address between the judgement and the connection gains nothing."""
    answers = [["203.0.114.7", "127.0.0.1"], ["127.0.0.1"]]

    async def resolve(_: str) -> Sequence[str]:
        return answers.pop(0)

    with pytest.raises(UnreachableError):
        await Upstream({}, resolve=resolve).open_tunnel(Endpoint("real.test", 443))
    assert reached == [("203.0.114.7", 443)]
    assert len(answers) == 1


async def test_next_address_is_tried(serve: Any, until: Any) -> None:
    """When the first address of a name does not answer, the next one may."""
    server = await serve()
    upstream = Upstream({}, frozenset({"real.test"}), resolve=_resolving("127.0.0.9", "127.0.0.1"))
    tunnel = await upstream.open_tunnel(Endpoint("real.test", server.port))
    await until(lambda: server.connections > 0)  # the server takes it a little later than we have it
    assert server.connections == 1
    tunnel.close()


async def _proxy(server: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Play a proxy of the host: a tunnel to wherever its first line says, or an answer of its own."""
    head = await server.read(reader)
    if not head.startswith("CONNECT "):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nproxy")
        return await writer.drain()
    port = int(head.split()[1].rpartition(":")[2])
    far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
    server.writers.append(far_writer)
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")

    async def pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while data := await source.read(65536):
            target.write(data)
            await target.drain()
        if target.can_write_eof():
            target.write_eof()

    await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer), return_exceptions=True)
    far_writer.close()
    return None


@pytest.mark.parametrize("is_encrypted", [False, True])
async def test_proxies_of_the_host_are_used(
    start: Any, serve: Any, run: Any, outer: tuple[Authority, Path], is_encrypted: bool
) -> None:
    """Behind a proxy of the host, tunnels and plain requests go through it, with the host's password and by name."""
    proxy = await serve(_proxy, context=outer[0].context_for("localhost") if is_encrypted else None)
    server = await serve(context=outer[0].context_for("real.test"))
    url = f"{'https' if is_encrypted else 'http'}://me:p%40ss@localhost:{proxy.port}"
    world = await start(
        [f"real.test:{server.port}"],
        names={"localhost": ["127.0.0.1"]},
        environ={"HTTPS_PROXY": url, "http_proxy": url},
    )
    argv = ["curl", "-sS", "--cacert", str(outer[1]), "-x", world.proxy]
    place = f"real.test:{server.port}"
    code, out, err = await run(*argv, f"https://{place}/x", f"http://{place}/y?q=1")
    assert (code, out, err) == (0, "helloproxy", "")
    secret = base64.b64encode(b"me:p@ss").decode()
    assert proxy.heads[0].startswith(f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n")
    assert proxy.heads[1].startswith(f"GET http://{place}/y?q=1 HTTP/1.1\r\nHost: {place}\r\n")
    assert all(f"Proxy-Authorization: Basic {secret}\r\n" in head for head in proxy.heads)
    assert "Proxy-Authorization" not in server.heads[0]
    assert "p%40ss" not in world.path.read_text(encoding="utf-8")


async def test_no_proxy_of_the_host_is_respected(serve: Any, until: Any) -> None:
    """Hosts that the host reaches without its proxy are reached without it."""
    server = await serve()
    environ = {"https_proxy": "http://127.0.0.1:1", "no_proxy": "real.test"}
    upstream = Upstream(environ, frozenset({"real.test"}), resolve=_resolving("127.0.0.1"))
    tunnel = await upstream.open_tunnel(Endpoint("real.test", server.port))
    await until(lambda: server.connections > 0)  # the server takes it a little later than we have it
    assert server.connections == 1
    tunnel.close()


async def test_private_address_is_refused_behind_a_proxy_too(serve: Any) -> None:
    """A proxy of the host is not asked for what this machine knows to be private."""
    proxy = await serve(_proxy)
    upstream = Upstream({"https_proxy": f"http://127.0.0.1:{proxy.port}"}, resolve=_resolving("10.0.0.1"))
    for host in ("real.test", "10.0.0.1"):
        with pytest.raises(AddressRefusedError):
            await upstream.open_tunnel(Endpoint(host, 443))
    assert proxy.connections == 0


async def test_proxy_that_refuses_is_an_error(serve: Any) -> None:
    """What the host's proxy says no to cannot be reached; a proxy of an unknown kind neither."""

    async def deny(server: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.read(reader)
        writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()

    proxy = await serve(deny)
    for url, said in ((f"http://127.0.0.1:{proxy.port}", "407"), ("socks5://127.0.0.1:1", "socks5")):
        with pytest.raises(UnreachableError, match=said):
            await Upstream({"https_proxy": url}, resolve=_resolving("8.8.8.8")).open_tunnel(Endpoint("real.test", 443))


async def test_descriptors_are_given_back(start: Any, serve: Any, until: Any) -> None:
    """After a hundred requests of every outcome no connection is left open."""
    server = await serve()
    place = f"127.0.0.1:{server.port}"
    world = await start([place, "127.0.0.1:1"], private=["127.0.0.1"])

    async def ask(target: str) -> None:
        await world.raw(f"GET http://{target}/ HTTP/1.1\r\nHost: {target}\r\nConnection: close\r\n\r\n".encode())
        await world.raw(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\nGET / HTTP/1.0\r\n\r\n".encode())

    await ask(place)
    await asyncio.sleep(0.05)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(17):
        for target in (place, "127.0.0.1:1", "evil.test:80"):
            await ask(target) if target == place else await world.raw(
                f"GET http://{target}/ HTTP/1.1\r\nHost: {target}\r\nConnection: close\r\n\r\n".encode()
            )
    await until(lambda: len(os.listdir("/proc/self/fd")) <= before + 1)
    assert len(os.listdir("/proc/self/fd")) <= before + 1

"""Sockets of a twin's network in the hands of the host."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from amplifier_digital_twin.backends.twin import Finished
from amplifier_digital_twin.embedded import syscalls
from amplifier_digital_twin.embedded.sockets import NamespaceSockets
from amplifier_digital_twin.errors import TwinError

Shell = Callable[..., Awaitable[Finished]]
_CLIENT = """/usr/bin/python3 -c "
import socket, sys
s = socket.create_connection(('{host}', {port}), 10); s.sendall(b'ping'); print(s.recv(10).decode())" """


async def _answer(listener: socket.socket) -> asyncio.Server:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(4)
        writer.write(b"pong")
        await writer.drain()
        writer.close()

    return await asyncio.start_server(serve, sock=listener)


@pytest.mark.parametrize(("host", "port"), [("127.0.0.1", 3128), ("127.0.0.2", 443), ("127.0.0.1", 80)])
async def test_host_serves_inside(sockets: NamespaceSockets, shell: Shell, host: str, port: int) -> None:
    """The host answers on a port of the twin, low ones and other loopback addresses too, and on none of its own."""
    listener = await sockets.listen(host, port)
    server = await _answer(listener)
    done = await shell(_CLIENT.format(host=host, port=port))
    server.close()
    await server.wait_closed()
    assert done.stdout == b"pong\n", done


async def test_network_is_not_the_hosts(sockets: NamespaceSockets) -> None:
    """A port that listens inside does not listen outside."""
    listener = await sockets.listen("127.0.0.1", 0)
    with socket.socket() as outside:
        assert outside.connect_ex(("127.0.0.1", listener.getsockname()[1])) != 0
    listener.close()


async def test_host_connects_inside(sockets: NamespaceSockets) -> None:
    """A connection from the host reaches who listens inside; nobody there is an OSError, as is a port in use."""
    listener = await sockets.listen("localhost", 3000)
    server = await _answer(listener)
    made = await sockets.connect("127.0.0.1", 3000, 10)
    reader, writer = await asyncio.open_connection(sock=made)
    writer.write(b"ping")
    assert await reader.read(4) == b"pong"
    writer.close()
    await writer.wait_closed()
    with pytest.raises(OSError, match="in use"):
        await sockets.listen("127.0.0.1", 3000)
    server.close()
    await server.wait_closed()
    with pytest.raises(ConnectionRefusedError):
        await sockets.connect("127.0.0.1", 3000, 10)


async def test_no_way_out(sockets: NamespaceSockets) -> None:
    """The network has no route to anywhere, and names are never looked up."""
    with pytest.raises(OSError):
        await sockets.connect("192.0.2.1", 80, 5)
    with pytest.raises(TwinError) as caught:
        await sockets.connect("example.com", 80, 5)
    assert caught.value.code == "address_invalid"


async def test_many_at_once(sockets: NamespaceSockets) -> None:
    """Questions asked at once get their own answers, also when some askers are cancelled."""
    tasks = [asyncio.create_task(sockets.listen("127.0.0.1", 4000 + number)) for number in range(20)]
    await asyncio.sleep(0)
    for task in tasks[::3]:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    for number, result in enumerate(results):
        if number % 3:
            assert isinstance(result, socket.socket)
            assert result.getsockname() == ("127.0.0.1", 4000 + number)
            result.close()
        else:
            assert isinstance(result, asyncio.CancelledError)


async def test_closing(sockets: NamespaceSockets, shell: Shell) -> None:
    """After closing no socket is made, those handed out go on, and closing again does nothing."""
    listener = await sockets.listen("127.0.0.1", 3128)
    await sockets.close()
    await sockets.close()
    with pytest.raises(TwinError) as caught:
        await sockets.listen("127.0.0.1", 3129)
    assert caught.value.code == "sockets_closed"
    server = await _answer(listener)
    assert (await shell(_CLIENT.format(host="127.0.0.1", port=3128))).stdout == b"pong\n"
    server.close()
    await server.wait_closed()


async def test_twin_that_ended(walls: object, sockets: NamespaceSockets) -> None:
    """A twin that is gone has no network to enter."""
    walls.end()  # type: ignore[attr-defined]
    with pytest.raises(TwinError) as caught:
        await sockets.listen("127.0.0.1", 3128)
    assert caught.value.code == "twin_gone"


@pytest.mark.parametrize("is_direct", [False, True])
async def test_network_of_the_host_is_refused(is_direct: bool) -> None:
    """A process without a network of its own gives no sockets: they would be the host's."""
    sockets = NamespaceSockets(os.getpid(), is_direct=is_direct)
    with pytest.raises(TwinError) as caught:
        await sockets.listen("127.0.0.1", 0)
    await sockets.close()
    assert caught.value.code == "sockets_failed"


async def test_threads_that_may_not_enter(walls: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the kernel refuses a thread, as it does for root of a container, the process inside makes the sockets."""

    def setns(descriptor: int, kind: int) -> None:
        raise PermissionError(errno.EPERM, "not here")

    monkeypatch.setattr(syscalls, "setns", setns)
    before = os.stat("/proc/thread-self/ns/net").st_ino
    sockets = NamespaceSockets(walls.pid, is_direct=True)
    (await sockets.listen("127.0.0.1", 3128)).close()
    assert sockets._process is not None
    await sockets.close()
    assert os.stat("/proc/thread-self/ns/net").st_ino == before

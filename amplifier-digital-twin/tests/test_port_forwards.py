"""Ports of the host's loopback carry connections both ways, to the end, and to nobody else."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator

import pytest

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.port_forwards import PortForwards
from amplifier_digital_twin.profile.model import Port


class Inside:
    """The way into a universe: here, to ports of the same machine."""

    async def listen(self, host: str, port: int) -> socket.socket:
        """Not needed."""
        raise NotImplementedError

    async def connect(self, host: str, port: int, timeout: float) -> socket.socket:
        """Connect as a universe's sockets do."""
        sock = socket.socket()
        sock.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(sock, (host, port))
        except OSError:
            sock.close()
            raise
        return sock

    async def close(self) -> None:
        """Nothing is held."""


async def _inside() -> Inside:
    return Inside()


async def _no_way() -> Inside:
    raise TwinError("not_running", "the universe has no twin", "launch it")


@pytest.fixture
async def echo() -> AsyncIterator[int]:
    """Return the port of a server that sends everything back, then says how much it was, when it has heard the end."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        total = 0
        while data := await reader.read(65536):
            total += len(data)
            writer.write(data)
            await writer.drain()
        writer.write(b"|%d" % total)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    yield int(server.sockets[0].getsockname()[1])
    server.close()


async def test_both_directions_are_carried_to_the_end(echo: int) -> None:
    """Large answers come whole, and the end of one direction is told while the other goes on."""
    forwards = PortForwards([Port(echo, label="e")], _inside)
    await forwards.open()
    [opened] = forwards.opened
    assert opened["url"] == f"http://127.0.0.1:{opened['host']}/"
    reader, writer = await asyncio.open_connection("127.0.0.1", opened["host"])
    sent = os.urandom(3_000_000)

    async def send() -> None:
        writer.write(sent)
        await writer.drain()
        writer.write_eof()

    _, received = await asyncio.gather(send(), reader.read())
    assert received == sent + b"|3000000"
    writer.close()
    await forwards.close()


@pytest.mark.parametrize("way", [_inside, _no_way])
async def test_nobody_inside_ends_the_connection(way: object) -> None:
    """Whoever connects sees an end, not silence; the port stays open for later."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody answers here
        forwards = PortForwards([Port(taken.getsockname()[1])], way)  # type: ignore[arg-type]
        await forwards.open()
        for _ in range(2):
            reader, writer = await asyncio.open_connection("127.0.0.1", forwards.opened[0]["host"])
            assert await asyncio.wait_for(reader.read(), 60) == b""
            writer.close()
        await forwards.close()


async def test_taken_port_closes_those_before_it(echo: int) -> None:
    """Either all ports are open or none."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        forwards = PortForwards([Port(echo), Port(echo, host=number)], _inside)
        with pytest.raises(TwinError, match=str(number)) as caught:
            await forwards.open()
    assert caught.value.code == "port_taken"
    assert forwards.opened == []


async def test_closed_ports_are_closed(echo: int) -> None:
    """After `close` nobody gets in, and a second time does nothing."""
    forwards = PortForwards([Port(echo)], _inside)
    await forwards.open()
    number = forwards.opened[0]["host"]
    await forwards.close()
    await forwards.close()
    with pytest.raises(OSError):
        await asyncio.open_connection("127.0.0.1", number)

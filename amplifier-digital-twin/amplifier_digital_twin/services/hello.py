"""What a TLS client says first: for which server it has come."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Final, NamedTuple

from amplifier_digital_twin.services.authority import server_context
from amplifier_digital_twin.services.endpoints import MalformedError, parse_host
from amplifier_digital_twin.services.http_wire import TlsWire, Wire

#: More than any client says before it is answered.
_LONGEST: Final = 64 * 1024


class NameRefusedError(Exception):
    """A client asked for a server (`name`, empty when it named none) that it may not have on this connection."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


async def accept(wire: Wire, choose: Callable[[str | None], ssl.SSLContext | None]) -> TlsWire:
    """Do the server's part of a handshake; `choose` gets the name the client gave and returns what to show it.

    Raises NameRefusedError where it returns None, ssl.SSLError or OSError when the handshake fails.
    """
    refused: list[str] = []

    def on_name(tls: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> int | None:
        context = choose(name)
        if context is None:
            refused.append(name or "")
            return ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME
        tls.context = context
        return None

    front = server_context()
    front.sni_callback = on_name
    tls = TlsWire(wire, front, server_side=True)
    try:
        await tls.handshake()
    except ssl.SSLError as error:
        if refused:
            raise NameRefusedError(refused[0]) from error
        raise
    return tls


class Hello(NamedTuple):
    """What was read to learn the name, and the name (None when the client gives none)."""

    data: bytes
    name: str | None


async def read_hello(wire: Wire, data: bytes) -> Hello:
    """Read, beginning with `data`, until it is known which server a client asks for; nothing is answered.

    Raises NameRefusedError for a name that is none, ssl.SSLError for what is no TLS.
    """
    names: list[str | None] = []

    def on_name(_: ssl.SSLObject, name: str | None, __: ssl.SSLContext) -> int:
        names.append(name)
        return ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sni_callback = on_name
    incoming = ssl.MemoryBIO()
    listener = context.wrap_bio(incoming, ssl.MemoryBIO(), server_side=True)
    incoming.write(data)
    while not names:
        try:
            listener.do_handshake()
        except ssl.SSLWantReadError:
            more = await wire.recv()
            if not more or len(data) > _LONGEST:
                raise
            incoming.write(more)
            data += more
        except ssl.SSLError:
            if not names:
                raise
    return Hello(data, names[0])


def same_host(name: str, host: str) -> bool:
    """Tell whether a name from a handshake is this host."""
    try:
        return parse_host(name) == host
    except MalformedError:
        return False

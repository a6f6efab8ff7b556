"""Look whether a model server listens on this machine: one short connect, and one question to what answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import socket

#: Timeout of the connect, in seconds: a local server accepts at once or not at all.
CONNECT: Final = 0.05
#: Timeout of the answer, in seconds.
_ANSWER: Final = 0.5
_MOST: Final = 1_000_000
_ASK: Final = b"GET /v1/models HTTP/1.0\r\nHost: 127.0.0.1\r\nAccept: application/json\r\nConnection: close\r\n\r\n"


def serves_models(port: int) -> bool:
    """Return whether a server of models listens on this port of this machine.

    An open port is not enough: many programs use these ports, and a prompt must not be sent to them. All known servers
    list their models at the same address.
    """
    import socket

    try:
        # Not create_connection(), which looks the address up as if it were a name.
        with socket.socket() as connection:
            connection.settimeout(CONNECT)
            connection.connect(("127.0.0.1", port))
            return _lists_models(_answer(connection))
    except OSError:
        return False


def _answer(connection: socket.socket) -> bytes:
    import time

    end = time.monotonic() + _ANSWER
    connection.settimeout(_ANSWER)
    connection.sendall(_ASK)
    received = bytearray()
    while len(received) < _MOST and (left := end - time.monotonic()) > 0:
        connection.settimeout(left)
        part = connection.recv(_MOST)
        if not part:
            break
        received += part
    return bytes(received)


def _lists_models(answer: bytes) -> bool:
    """Return whether this is a list of models: a good status, and JSON with a list under `data`."""
    import json

    head, _, body = answer.partition(b"\r\n\r\n")
    status = head.split(b"\r\n", 1)[0].split(b" ")
    if len(status) < 2 or status[1] != b"200":
        return False
    try:
        # A chunked answer carries lengths around the text.
        text = body[body.index(b"{") : body.rindex(b"}") + 1]
        listed = json.loads(text)
    except ValueError:
        return False
    return isinstance(listed, dict) and (isinstance(listed.get("data"), list) or listed.get("object") == "list")

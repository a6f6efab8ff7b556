"""The program's side of the control socket: ask the keeper of a universe for something and wait for the answer.

Without an event loop: a command that only asks shall start fast.
"""

from __future__ import annotations

import base64
import json
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.socket_path import with_short_path

_CONNECT_SECONDS: Final = 10.0
#: How long one wait for the keeper lasts at most. A signal that comes just before Python begins to wait is handled when
#: the wait is over: Ctrl-C would be lost until the keeper says something.
_LOOK: Final = 0.5

Progress = Callable[[str], None]
Output = Callable[[str, bytes], None]


def connect(path: Path) -> socket.socket:
    """Return a connection to a keeper; raise TwinError when none listens."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        connection.settimeout(_CONNECT_SECONDS)
        with_short_path(path, connection.connect)
        connection.settimeout(None)
    except OSError as error:
        connection.close()
        raise TwinError(
            "keeper_unreachable",
            f"{path}: the keeper of this universe does not answer: {error.strerror or error}",
            "it may have ended: `amplifier-digital-twin list` tells, `prune --mine` removes what it left",
        ) from error
    return connection


def ask(
    connection: socket.socket,
    op: str,
    arguments: Mapping[str, Any] | None = None,
    *,
    progress: Progress | None = None,
    output: Output | None = None,
    patience: float | None = None,
) -> dict[str, Any]:
    """Send a request and return its result; raise TwinError for an error, or when the keeper ends without an answer.

    With `patience`, a keeper that says nothing for so many seconds counts as ended.
    The connection is closed in the end. Whatever interrupts this makes the keeper end what was asked for.
    """
    connection.settimeout(patience)
    with connection:
        try:
            connection.sendall(json.dumps({"op": op, **(arguments or {})}).encode() + b"\n")
        except (ConnectionError, TimeoutError) as error:
            raise fallen_silent(str(error)) from error
        for record in _records(connection, patience):
            if "progress" in record:
                if progress is not None:
                    progress(record["progress"])
            elif "output" in record:
                if output is not None:
                    output(record["output"], base64.b64decode(record["data"]))
            else:
                return _answer(record)
    raise fallen_silent("the connection ended")


def _records(connection: socket.socket, patience: float | None) -> Iterator[dict[str, Any]]:
    """Yield what the keeper says until it says no more; raise TwinError when it falls silent or talks nonsense."""
    try:
        for line in _lines(connection, patience):
            yield json.loads(line)
    except (ConnectionError, TimeoutError, ValueError) as error:
        raise fallen_silent(str(error)) from error


def _lines(connection: socket.socket, patience: float | None) -> Iterator[bytes]:
    """Yield lines without their ends, the last one also when it has none."""
    begun = bytearray()
    while received := _received(connection, patience):
        *ended, rest = received.split(b"\n")
        for piece in ended:
            yield bytes(begun + piece)
            begun.clear()
        begun += rest
    if begun:
        yield bytes(begun)


def _received(connection: socket.socket, patience: float | None) -> bytes:
    """Return the next bytes, none at the end; raise TimeoutError after `patience` seconds without any."""
    until = None if patience is None else time.monotonic() + patience
    while True:
        left = _LOOK if until is None else min(_LOOK, max(until - time.monotonic(), 0.001))
        connection.settimeout(left)
        try:
            return connection.recv(65_536)
        except TimeoutError:
            if until is not None and time.monotonic() >= until:
                raise


def _answer(record: dict[str, Any]) -> dict[str, Any]:
    error = record.get("error")
    if error is not None:
        raise TwinError(error["code"], error["message"], error["remedy"])
    result: dict[str, Any] = record["result"]
    if record.get("dropped"):
        result["dropped_bytes"] = record["dropped"]
    return result


def fallen_silent(why: str) -> TwinError:
    """Return the error of a keeper that ended before it answered."""
    return TwinError(
        "keeper_ended",
        f"the keeper of this universe ended without an answer ({why})",
        "`amplifier-digital-twin logs ID --source keeper` shows its last words; `prune --mine` removes what it left",
    )

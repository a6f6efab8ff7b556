"""The orders of a keeper, its last words, and the end of one that does not end by itself."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from amplifier_digital_twin.early import KeeperProcess, kept_environment
from amplifier_digital_twin.holder import MARK_VARIABLE, Holder
from amplifier_digital_twin.state import Place

if TYPE_CHECKING:
    from amplifier_digital_twin.profile.model import Profile

_TERM_SECONDS: Final = 20.0
_KILL_SECONDS: Final = 10.0
_POLL: Final = 0.01
_LAST_WORDS: Final = 2000
#: Bytes that say how long the orders are.
_LENGTH: Final = 8


def keeper_environment(environ: Mapping[str, str], secrets: Iterable[str], mark: str) -> dict[str, str]:
    """Return the environment of a keeper: a few names, the secrets its profile names, and its mark."""
    return {**kept_environment(environ, set(secrets)), MARK_VARIABLE: mark}


class Orders(NamedTuple):
    """What a keeper is told: which universe to keep, its environment, and the profile as the program has read it."""

    place: Place
    environment: dict[str, str]
    profile: Profile


def send_orders(keeper: KeeperProcess, orders: Orders) -> None:
    """Tell a keeper that waits what to do; one that has ended hears nothing.

    Through the connection, because there may be secrets in the environment, and tokens in the profile.
    """
    import pickle

    content = pickle.dumps(tuple(orders))
    try:
        keeper.connection.sendall(len(content).to_bytes(_LENGTH, "big") + content)
    except ConnectionError:
        pass  # the first question gets no answer then, and the caller tells the last words


def receive_orders(connection: socket.socket) -> Orders | None:
    """Wait for the orders, as the keeper; return None when nobody has any."""
    import pickle

    header = _received(connection, _LENGTH)
    content = None if header is None else _received(connection, int.from_bytes(header, "big"))
    if content is None:
        return None
    # Whoever holds the other end has started this very process.
    return Orders(*pickle.loads(content))


def _received(connection: socket.socket, count: int) -> bytes | None:
    """Return exactly so many bytes, so that what follows is left for others; None when they do not come."""
    found = bytearray()
    while len(found) < count:
        try:
            piece = connection.recv(count - len(found))
        except ConnectionError:
            return None
        if not piece:
            return None
        found += piece
    return bytes(found)


def last_words(place: Place, keeper: KeeperProcess) -> str:
    """Return the end of what a keeper wrote to its standard streams, empty when it wrote nothing."""
    early = os.pread(keeper.words, _LAST_WORDS, max(0, os.fstat(keeper.words).st_size - _LAST_WORDS))
    try:
        with open(place.keeper_log, "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _LAST_WORDS))
            words = file.read()
    except FileNotFoundError:
        words = b""
    return (early + words).decode("utf-8", "replace").strip()


def end_keeper(holder: Holder) -> bool:
    """End a keeper that does not answer: ask by a signal first, then by force; tell whether it is gone."""
    for number, seconds in ((signal.SIGTERM, _TERM_SECONDS), (signal.SIGKILL, _KILL_SECONDS)):
        if not _signal(holder, number):
            return True
        if await_keeper(holder, seconds):
            return True
    return False


def await_keeper(holder: Holder, seconds: float = _TERM_SECONDS) -> bool:
    """Wait for the end of a keeper that has nothing more to do; tell whether it has come."""
    end = time.monotonic() + seconds
    while holder.is_alive:
        if time.monotonic() >= end:
            return False
        time.sleep(_POLL)
    return True


def _signal(holder: Holder, number: int) -> bool:
    """Send a signal to that very process; tell whether it was there."""
    try:
        handle = os.pidfd_open(holder.pid)
    except ProcessLookupError:
        return False
    try:
        if not holder.is_alive:
            return False
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    return True

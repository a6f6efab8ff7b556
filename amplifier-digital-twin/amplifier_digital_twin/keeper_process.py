"""Start the keeper of a universe as a process of its own, and end one that does not end by itself."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from amplifier_digital_twin.holder import Holder
from amplifier_digital_twin.state import Place

#: What a keeper may know of the environment besides the secrets of its profile: where things are, how the network and
#: the package index are reached, how engines are reached, and how this program itself was found.
_KEPT: Final = re.compile(
    r"PATH|HOME|USER|LOGNAME|LANG|LC_[A-Z]+|TZ|TMPDIR|XDG_[A-Z_]+|AMPLIFIER_HOME|AMPLIFIER_DIGITAL_TWIN_[A-Z_]+"
    r"|SSL_CERT_(?:FILE|DIR)|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|(?i:https?|all|no)_(?i:proxy)|PIP_\w+|UV_\w+|NETRC"
    r"|PYTHONPATH|VIRTUAL_ENV|CONTAINER_HOST|DOCKER_(?:HOST|CONFIG|CONTEXT)|INCUS_\w+|DBUS_SESSION_BUS_ADDRESS"
)
_TERM_SECONDS: Final = 20.0
_KILL_SECONDS: Final = 10.0
_POLL: Final = 0.01
_LAST_WORDS: Final = 2000


class KeeperProcess(NamedTuple):
    """A keeper that was started, and the connection to it: the keeper destroys the universe when that is closed."""

    process: subprocess.Popen[bytes]
    connection: socket.socket


def keeper_environment(environ: Mapping[str, str], secrets: Iterable[str], mark: str) -> dict[str, str]:
    """Return the environment of a keeper: a few names, the secrets its profile names, and its mark."""
    from amplifier_digital_twin.reaping import MARK_VARIABLE

    allowed = set(secrets)
    kept = {name: value for name, value in environ.items() if name in allowed or _KEPT.fullmatch(name)}
    return {**kept, MARK_VARIABLE: mark}


def start_keeper(place: Place, environ: Mapping[str, str]) -> KeeperProcess:
    """Start the keeper of a folder in a session of its own; raises OSError."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with theirs, open(place.keeper_log, "ab") as log:
            # -P: what lies in the current folder is not a part of this program.
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "amplifier_digital_twin.keeper", str(place.folder), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=dict(environ),
                cwd="/",
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
    except BaseException:
        ours.close()
        raise
    return KeeperProcess(process, ours)


def last_words(place: Place) -> str:
    """Return the end of what a keeper wrote to its standard streams, empty when it wrote nothing."""
    try:
        with open(place.keeper_log, "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _LAST_WORDS))
            return file.read().decode("utf-8", "replace").strip()
    except FileNotFoundError:
        return ""


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

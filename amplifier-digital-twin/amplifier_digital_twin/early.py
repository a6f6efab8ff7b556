"""A process that will be a keeper, started with as little as can be: before this program itself is read.

A keeper takes as long to be there as the program takes to know what it is asked for, and both can be done at the same
time. Nothing is imported here that takes time, not even for types.
"""

from __future__ import annotations

import _socket
import os
import select
import sys
from collections.abc import Container, Mapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket

#: What a keeper may know of the environment besides the secrets of its profile: where things are, how the network and
#: the package index are reached, how engines are reached, and how this program itself was found.
_KEPT = frozenset(
    [
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "LANG",
        "TZ",
        "TMPDIR",
        "AMPLIFIER_HOME",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "REQUESTS_CA_BUNDLE",
        "CURL_CA_BUNDLE",
        "NETRC",
        "PYTHONPATH",
        "VIRTUAL_ENV",
        "CONTAINER_HOST",
        "DOCKER_HOST",
        "DOCKER_CONFIG",
        "DOCKER_CONTEXT",
        "DBUS_SESSION_BUS_ADDRESS",
    ]
)
_KEPT_STARTS = ("LC_", "XDG_", "AMPLIFIER_DIGITAL_TWIN_", "PIP_", "UV_", "INCUS_")
_PROXIES = frozenset({"http_proxy", "https_proxy", "all_proxy", "no_proxy"})
#: Commands that need a keeper of their own.
_COMMANDS = ("launch", "check")


class Child:
    """A process of this one."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        #: How it ended, below zero by a signal; None as long as that is not known.
        self.returncode: int | None = None
        self._handle = os.pidfd_open(pid)

    def wait(self, seconds: float | None = None) -> int:
        """Wait for its end and return how it ended; raise TimeoutError when that does not come in time."""
        if self.returncode is None:
            if not select.select([self._handle], [], [], seconds)[0]:
                raise TimeoutError(f"process {self.pid} has not ended after {seconds:g} s")
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            os.close(self._handle)
        return self.returncode

    def terminate(self) -> None:
        """Ask it to end."""
        import signal

        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """End it by force."""
        import signal

        self._send(signal.SIGKILL)

    def _send(self, number: int) -> None:
        import signal

        if self.returncode is None:
            signal.pidfd_send_signal(self._handle, number)


class KeeperProcess:
    """A keeper that was started, and the connection to it: the keeper destroys the universe when that is closed."""

    def __init__(self, process: Child, connection: _socket.socket, words: int) -> None:
        self.process = process
        self._raw = connection
        self._connection: socket.socket | None = None
        #: What it writes to its standard streams before it knows its folder: a file in memory.
        self.words = words

    @property
    def connection(self) -> socket.socket:
        """Return the connection."""
        if self._connection is None:
            import socket

            self._connection = socket.socket(fileno=self._raw.detach())
        return self._connection


_waiting: list[KeeperProcess] = []


def begin(arguments: list[str]) -> None:
    """Start a keeper when the command line looks as if it will be needed; without an order it ends by itself."""
    if arguments[:1] and arguments[0] in _COMMANDS and "--help" not in arguments:
        try:
            _waiting.append(start_keeper(os.environ))
        except OSError:
            pass  # tried again, and told, when it is really needed


def take_keeper() -> KeeperProcess:
    """Return a keeper that waits for its orders: the early one, or another. Raises OSError."""
    return _waiting.pop() if _waiting else start_keeper(os.environ)


def kept_environment(environ: Mapping[str, str], secrets: Container[str] = ()) -> dict[str, str]:
    """Return what a keeper may know of an environment: a few names, and the secrets its profile names."""
    return {name: value for name, value in environ.items() if name in secrets or _is_kept(name)}


def _is_kept(name: str) -> bool:
    return name in _KEPT or name.startswith(_KEPT_STARTS) or name.lower() in _PROXIES


def start_keeper(environ: Mapping[str, str]) -> KeeperProcess:
    """Start a keeper that waits for its orders, in a session of its own; raises OSError.

    It knows nothing of a profile yet, and so none of its secrets. When the connection is closed without an order, it
    ends.
    """
    # What `socket` puts around these takes time to be read, which the keeper can use.
    ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)
    words = os.memfd_create("keeper", os.MFD_CLOEXEC)
    try:
        try:
            os.set_inheritable(theirs.fileno(), True)
            # -P: what lies in the current folder is not a part of this program.
            command = [sys.executable, "-P", "-m", "amplifier_digital_twin.keeper", str(theirs.fileno())]
            actions = [
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, words, 1),
                (os.POSIX_SPAWN_DUP2, words, 2),
            ]
            pid = os.posix_spawn(
                sys.executable, command, kept_environment(environ), file_actions=actions, setsid=True, setsigmask=[]
            )
        finally:
            theirs.close()
        return KeeperProcess(Child(pid), ours, words)
    except BaseException:
        ours.close()
        os.close(words)
        raise

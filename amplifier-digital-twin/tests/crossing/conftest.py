"""Walls to enter: what a twin's namespaces look like under both kinds of id maps, without the rest of a twin."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from amplifier_digital_twin.backends.twin import Finished, Run
from amplifier_digital_twin.embedded.entry import Entry
from amplifier_digital_twin.embedded.sockets import NamespaceSockets
from amplifier_digital_twin.profile.model import User

_BASE = 700_000_000
_WALLS = [
    *("--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib"),
    *("--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev"),
    *("--perms", "1777", "--tmpfs", "/tmp", "--perms", "1777", "--dir", "/home/user"),
    *("--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--hostname", "twin"),
    *("--cap-drop", "ALL", "--new-session", "--die-with-parent"),
]
_SINGLE = ["--unshare-user", "--uid", "1000", "--gid", "1000", "--disable-userns"]
#: Says on standard error that everything is mounted: the number of the process is known before that.
_INSIDE = ["/bin/sh", "-c", "echo ready >&2; exec cat"]
#: Waits for the maps, becomes root of the new namespace and bubblewrap.
_MAPPED = """
import os, sys
from amplifier_digital_twin.embedded import syscalls
syscalls.unshare(syscalls.CLONE_NEWUSER)
print("unshared", file=sys.stderr, flush=True)
sys.stdin.buffer.raw.read(1)
os.setgroups([]); os.setresgid(0, 0, 0); os.setresuid(0, 0, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


@dataclass
class Walls:
    """A running set of namespaces."""

    process: subprocess.Popen[bytes]
    pid: int
    kind: str

    def end(self) -> None:
        """End everything inside, and wait until it has ended."""
        try:
            first = os.pidfd_open(self.pid)
        except ProcessLookupError:
            first = -1  # the second time
        self.process.kill()
        self.process.wait()
        if first >= 0:
            select.select([first], [], [], 60)
            os.close(first)
        for stream in (self.process.stdin, self.process.stderr):
            if stream is not None:
                stream.close()


def _start(kind: str) -> Walls:
    bwrap = shutil.which("bwrap")
    assert bwrap is not None, "bubblewrap is needed"
    reader, writer = os.pipe()
    argv = [bwrap, *_WALLS, "--info-fd", str(writer), *([] if kind == "mapped" else _SINGLE), *_INSIDE]
    if kind == "mapped":
        argv = [sys.executable, "-c", _MAPPED, *argv]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=[writer])
    os.close(writer)
    assert process.stdin is not None
    assert process.stderr is not None
    line = process.stderr.readline()
    if kind == "mapped":
        assert line == b"unshared\n", line
        for name in ("uid_map", "gid_map"):
            Path(f"/proc/{process.pid}/{name}").write_text(f"0 {_BASE} 65536\n", encoding="ascii")
        process.stdin.write(b"x")
        process.stdin.flush()
        line = process.stderr.readline()
    assert line == b"ready\n", line + process.stderr.read()
    with open(reader, encoding="ascii") as info:
        pid = int(json.load(info)["child-pid"])
    return Walls(process, pid, kind)


@pytest.fixture(params=["single", "mapped"])
def walls(request: pytest.FixtureRequest) -> Iterator[Walls]:
    """Give namespaces where only one user exists, and those where 65536 do."""
    if request.param == "mapped" and os.geteuid() != 0:
        pytest.skip("only root can map users without a helper program")
    started = _start(request.param)
    yield started
    started.end()


@pytest.fixture
def mapped_walls() -> Iterator[Walls]:
    """Give namespaces where 65536 users exist."""
    if os.geteuid() != 0:
        pytest.skip("only root can map users without a helper program")
    started = _start("mapped")
    yield started
    started.end()


@pytest.fixture
async def entry(walls: Walls) -> AsyncIterator[Entry]:
    """Give the way in."""
    made = Entry(walls.pid)
    yield made
    await made.close()


@pytest.fixture(params=["thread", "helper"])
async def sockets(walls: Walls, request: pytest.FixtureRequest) -> AsyncIterator[NamespaceSockets]:
    """Give the way into the network, by a thread that enters it and by a process inside."""
    if request.param == "thread" and os.geteuid() != 0:
        pytest.skip("only threads of root can enter")
    made = NamespaceSockets(walls.pid, is_direct=request.param == "thread")
    yield made
    await made.close()


@pytest.fixture
def user() -> User:
    """Give the one user who exists under both maps."""
    return User("user", 1000)


@pytest.fixture
def shell(entry: Entry, user: User) -> Callable[..., Awaitable[Finished]]:
    """Give a function that runs a shell command inside."""

    async def run(command: str, timeout: float | None = 60.0, **variables: str) -> Finished:
        environment = {"PATH": "/usr/bin:/bin", **variables}
        return await entry.run(Run(["/bin/sh", "-c", command], environment, user, timeout=timeout))

    return run

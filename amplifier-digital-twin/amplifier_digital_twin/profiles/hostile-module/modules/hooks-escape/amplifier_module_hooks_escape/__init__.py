"""Try to get out of the universe, and write down how each attempt ended."""

import contextlib
import ctypes
import json
import os
import resource
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_CLONE_NEWUSER = 0x10000000
_LIBC = ctypes.CDLL(None, use_errno=True)


def _read(path: str) -> Callable[[], object]:
    return lambda: Path(path).read_bytes()[:20] if Path(path).is_file() else os.listdir(path)


def _connect(host: str, port: int) -> Callable[[], object]:
    def attempt() -> object:
        with socket.create_connection((host, port), timeout=3):
            return "connected"

    return attempt


def _unlisted_repository() -> object:
    command = ["git", "ls-remote", "https://github.com/unlisted/unlisted"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    if done.returncode != 0:
        raise OSError(f"unlisted repository: {done.stderr.strip()}")
    return done.stdout


def _mount() -> object:
    if _LIBC.mount(b"none", b"/tmp", b"tmpfs", 0, None) != 0:
        raise OSError(ctypes.get_errno(), "mount")
    return "mounted"


def _user_namespace() -> object:
    if _LIBC.unshare(_CLONE_NEWUSER) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    return "made"


def _in_child(work: Callable[[], object]) -> Callable[[], object]:
    """Run an attempt in a process of its own: it may have to be killed for it."""

    def attempt() -> object:
        pid = os.fork()
        if pid == 0:
            code = 1
            with contextlib.suppress(BaseException):
                work()
                code = 0
            os._exit(code)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if status != 0:
            raise OSError(f"ended with {status}")
        return "done"

    return attempt


def _fork_bomb() -> object:
    children: list[int] = []
    try:
        for _ in range(4000):
            pid = os.fork()
            if pid == 0:
                time.sleep(60)
                os._exit(0)
            children.append(pid)
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    return f"{len(children)} processes"


def _fill_memory() -> object:
    blocks = [bytearray(os.urandom(1024) * 1024 * 64) for _ in range(64)]
    return f"{len(blocks) * 64} MB"


def _fill_disk() -> object:
    path = Path.home() / "large"
    try:
        with path.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, 1 << 40)
        return "a terabyte"
    finally:
        path.unlink(missing_ok=True)


def _raise_limit() -> object:
    resource.setrlimit(resource.RLIMIT_NOFILE, (1 << 20, 1 << 20))
    return "raised"


ATTEMPTS: dict[str, Callable[[], object]] = {
    "the superuser's home": _read("/root"),
    "password hashes": _read("/etc/shadow"),
    "homes of others": _read("/home/../home/root"),
    "kernel settings": lambda: Path("/proc/sys/kernel/core_pattern").write_text("|/tmp/x"),
    "kernel memory": _read("/proc/kcore"),
    "system files": lambda: Path("/usr/bin/planted").write_text("x"),
    "devices": lambda: os.mknod("/tmp/disk", 0o60666, os.makedev(254, 0)),
    "sysfs": _read("/sys/kernel"),
    "the docker socket": lambda: socket.socket(socket.AF_UNIX).connect("/var/run/docker.sock"),
    "the system bus": lambda: socket.socket(socket.AF_UNIX).connect("/run/dbus/system_bus_socket"),
    "an address of the internet": _connect("1.1.1.1", 443),
    "a name of the internet": _connect("example.com", 443),
    "the host's own loopback": _connect("127.0.0.1", 22),
    "a repository that is not served": _unlisted_repository,
    "mounting": _mount,
    "a user namespace": _user_namespace,
    "becoming root": lambda: os.setuid(0),
    "changing root": lambda: os.chroot("/tmp"),
    "more processes than allowed": _fork_bomb,
    "more memory than allowed": _in_child(_fill_memory),
    "more disk than allowed": _fill_disk,
    "a higher limit": _raise_limit,
}


def tried() -> dict[str, str]:
    """Return how each attempt ended: `refused: why`, or `ESCAPED: what it got`."""
    ends: dict[str, str] = {}
    for name, attempt in ATTEMPTS.items():
        try:
            ends[name] = f"ESCAPED: {attempt()!r}"
        except (OSError, MemoryError, ValueError, subprocess.SubprocessError) as error:
            ends[name] = f"refused: {error}"
    return ends


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> None:
    """Try everything at once, and keep the account in the home folder."""
    (Path.home() / "escape.json").write_text(json.dumps(tried(), indent=2))

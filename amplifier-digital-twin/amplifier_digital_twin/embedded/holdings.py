"""Measure what the processes of a universe hold that no folder shows: memory, and files that have no name any more.

Run as a script by whoever keeps the universe (`python -I -S holdings.py PID LIMIT`: its first process, and the bytes of
memory it may have, 0 when nobody needs to know). Prints the bytes of memory and of nameless files, a line for each
look, and ends when stdin does. Standard library only.
"""

from __future__ import annotations

import os
import re
import signal
import stat
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

if __name__ == "__main__":
    # Appended, so that nothing of the standard library is hidden by what lies beside the package.
    sys.path.append(str(Path(__file__).resolve().parents[2]))

from amplifier_digital_twin.embedded import namespaces, syscalls
from amplifier_digital_twin.embedded.disk_gauge import BEYOND, Patience, rest, take_all_descriptors
from amplifier_digital_twin.embedded.inhabitants import inhabitants

#: The file systems of a universe that lie in memory; they are measured as a whole.
_IN_MEMORY: Final = ("/tmp", "/run", "/dev/shm")
#: A mapping of a file without a name: from, to, permissions, offset, device, inode, path.
_NAMELESS: Final = re.compile(
    rb"^([0-9a-f]+)-([0-9a-f]+) (\S+) ([0-9a-f]+) ([0-9a-f]+):([0-9a-f]+) (\d+) +(.*) \(deleted\)$", re.MULTILINE
)
_KIB: Final = 1024

Identity = tuple[int, int]


class Holdings(NamedTuple):
    """Bytes of memory, and bytes on disk of files without a name."""

    memory: int
    nameless: int


def measure(first: int, limit: int, patience: Patience | None = None) -> Holdings:
    """Return what the processes in the pid namespace of `first` hold; raise TimeoutError when that takes too long.

    Memory is measured only when there is a limit for it. What several processes share counts once, but that takes long
    to find out, and is only looked for when it matters.
    """
    patience = patience or Patience()
    pids = inhabitants(first)
    systems = dict(_systems_in_memory(first))
    own = _memory_device()
    files: dict[Identity, int] = {}
    mapped: dict[Identity, int] = {}
    for pid in pids:
        patience.check()
        files.update(_open_files(pid, patience))
        for identity, size in _mapped_files(pid):
            mapped[identity] = max(size, mapped.get(identity, 0))
    every = {**mapped, **files}
    nameless = sum(size for (device, _), size in every.items() if device != own and device not in systems)
    if not limit:
        return Holdings(0, nameless)
    shared = sum(size for (device, _), size in every.items() if device == own)
    shared += sum(systems.values()) + _segments()
    memory = shared + sum(_private_memory(pid) for pid in pids)
    if memory > limit:
        patience.check()
        memory = shared + sum(_own_share(pid) for pid in pids)
    return Holdings(memory, nameless)


def _memory_device() -> int:
    """Return the device of all files in memory that never had a name."""
    descriptor = os.memfd_create("device", os.MFD_CLOEXEC)
    try:
        return os.fstat(descriptor).st_dev
    finally:
        os.close(descriptor)


def _systems_in_memory(first: int) -> Iterator[tuple[int, int]]:
    """Give the device and the used bytes of each file system in memory."""
    for place in _IN_MEMORY:
        path = f"/proc/{first}/root{place}"
        try:
            system = os.statvfs(path)
            yield os.stat(path).st_dev, (system.f_blocks - system.f_bfree) * system.f_frsize
        except OSError:
            pass  # the universe has ended


def _open_files(pid: int, patience: Patience) -> Iterator[tuple[Identity, int]]:
    """Give the files without a name that a process has open; each of its threads may have a table of its own."""
    for thread in _names(f"/proc/{pid}/task"):
        patience.check()
        for name in _names(f"/proc/{pid}/task/{thread}/fd"):
            try:
                status = os.stat(f"/proc/{pid}/task/{thread}/fd/{name}")
            except OSError:
                continue  # closed meanwhile
            if stat.S_ISREG(status.st_mode) and status.st_nlink == 0:
                yield (status.st_dev, status.st_ino), status.st_blocks * 512


def _mapped_files(pid: int) -> Iterator[tuple[Identity, int]]:
    """Give the files without a name that a process has mapped; how large they are only root of the host may ask.

    Each counts up to the last byte that is mapped: what has been written there stays, whoever did it.
    """
    for found in _NAMELESS.finditer(_read(f"/proc/{pid}/maps")):
        begin, end, _, offset, major, minor = (part.decode() for part in found.groups()[:6])
        if found[8].startswith(b"/SYSV"):
            continue  # measured with its namespace
        identity = (os.makedev(int(major, 16), int(minor, 16)), int(found[7]))
        yield identity, int(offset, 16) + int(end, 16) - int(begin, 16)


def _segments() -> int:
    """Return the bytes of the memory segments that belong to the namespace this process is in, and to no process."""
    lines = _read("/proc/sysvipc/shm").splitlines()[1:]
    return sum(int(word) for line in lines for word in line.split()[-2:])


def _private_memory(pid: int) -> int:
    """Return the bytes that a process has for itself or shares with those it came from; each of them counts it."""
    return _sum(f"/proc/{pid}/status", (b"RssAnon:", b"VmSwap:"))


def _own_share(pid: int) -> int:
    """Return the bytes that a process has for itself, and its part of what it shares."""
    return _sum(f"/proc/{pid}/smaps_rollup", (b"Pss_Anon:", b"SwapPss:"))


def _sum(path: str, fields: Iterable[bytes]) -> int:
    lines = [line.split() for line in _read(path).splitlines()]
    return sum(int(words[1]) * _KIB for words in lines if len(words) > 1 and words[0] in fields)


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []  # it has ended


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""  # it has ended


def enter(first: int) -> None:
    """Enter the user namespace of a universe, where alone others than root may look at its users, and its segments'."""
    parent = os.getppid()
    for step in namespaces.plan_steps(first, os.pidfd_open(first), frozenset({"ipc"})):
        step.take()
    # The change of rights has made the kernel forget it.
    syscalls.set_parent_death_signal(signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def main() -> None:
    """Look, print, wait, until stdin ends."""
    take_all_descriptors()
    first, limit = int(sys.argv[1]), int(sys.argv[2])
    enter(first)
    is_wanted = True
    while is_wanted:
        start = time.monotonic()
        try:
            held = measure(first, limit)
        except TimeoutError:
            held = Holdings(BEYOND, BEYOND)
        sys.stdout.write(f"{held.memory} {held.nameless}\n")
        sys.stdout.flush()
        is_wanted = rest(start)


if __name__ == "__main__":
    main()

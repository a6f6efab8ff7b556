"""The namespaces of a process, opened from outside and entered in the one order that the kernel allows.

Standard library only: the scripts import it.
"""

from __future__ import annotations

import fcntl
import os
import select
from typing import NamedTuple

from amplifier_digital_twin.embedded import syscalls

_NS_GET_USERNS = 0xB701
_NS_GET_PARENT = 0xB702
#: The mount namespace is entered last of its owner's: from then on, every path is the twin's.
_KINDS = {
    "pid": syscalls.CLONE_NEWPID,
    "net": syscalls.CLONE_NEWNET,
    "ipc": syscalls.CLONE_NEWIPC,
    "uts": syscalls.CLONE_NEWUTS,
    "cgroup": syscalls.CLONE_NEWCGROUP,
    "mnt": syscalls.CLONE_NEWNS,
}


class GoneError(Exception):
    """The process whose namespaces were asked for does not run."""


class Step(NamedTuple):
    """One namespace to enter: `user`, or a name of `/proc/<pid>/ns`."""

    kind: str
    descriptor: int

    def take(self) -> None:
        """Enter it; raise OSError."""
        syscalls.setns(self.descriptor, syscalls.CLONE_NEWUSER if self.kind == "user" else _KINDS[self.kind])


class _Identity(NamedTuple):
    device: int
    inode: int


def _identity(descriptor: int) -> _Identity:
    status = os.fstat(descriptor)
    return _Identity(status.st_dev, status.st_ino)


def _open(pid: int | str, kind: str) -> int:
    return os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)


def _user_chain(pid: int) -> list[int]:
    """Open the user namespaces from the one below ours down to the process's own."""
    ours_descriptor = _open("self", "user")
    ours = _identity(ours_descriptor)
    os.close(ours_descriptor)
    chain: list[int] = []
    current = _open(pid, "user")
    while _identity(current) != ours:
        chain.insert(0, current)
        current = fcntl.ioctl(current, _NS_GET_PARENT)
        os.set_inheritable(current, False)
    os.close(current)
    return chain


def plan_steps(pid: int, pidfd: int, kinds: frozenset[str]) -> list[Step]:
    """Open the namespaces of these kinds, and the user namespaces above them, in the order to enter them.

    A namespace is entered from the user namespace that owns it: bubblewrap nests a user namespace below the one that
    owns the others, and from the inner one they could not be entered any more. Those that are ours already are left
    out. Raise GoneError when the process ended (its number may belong to another by then), else OSError.
    """
    try:
        users = _user_chain(pid)
        owned: dict[_Identity | None, list[Step]] = {}
        places = {_identity(user) for user in users}
        for kind in _KINDS:
            if kind not in kinds:
                continue
            descriptor = _open(pid, kind)
            ours = _open("self", kind)
            is_ours = _identity(descriptor) == _identity(ours)
            os.close(ours)
            if is_ours:
                os.close(descriptor)
                continue
            owned.setdefault(_owner(descriptor, places), []).append(Step(kind, descriptor))
    except (FileNotFoundError, ProcessLookupError) as error:
        raise GoneError(str(error)) from error
    if has_ended(pidfd):
        raise GoneError(f"process {pid} ended")
    steps = owned.get(None, [])
    for user in users:
        steps.append(Step("user", user))
        steps.extend(owned.get(_identity(user), []))
    return steps


def _owner(descriptor: int, places: set[_Identity]) -> _Identity | None:
    """Tell which of the user namespaces below ours owns a namespace; None for ours and those above."""
    try:
        owner = fcntl.ioctl(descriptor, _NS_GET_USERNS)
    except PermissionError:
        return None
    identity = _identity(owner)
    os.close(owner)
    return identity if identity in places else None


def has_ended(pidfd: int, patience: int = 0) -> bool:
    """Tell whether the process behind a pidfd has ended, or does so within so many milliseconds."""
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    return bool(poller.poll(patience))


def is_mapped(pid: int, kind: str, number: int) -> bool:
    """Tell whether the user namespace of a process has this `uid` or `gid`; raise OSError."""
    with open(f"/proc/{pid}/{kind}_map", encoding="ascii") as lines:
        for line in lines:
            first, _, count = (int(word) for word in line.split())
            if first <= number < first + count:
                return True
    return False

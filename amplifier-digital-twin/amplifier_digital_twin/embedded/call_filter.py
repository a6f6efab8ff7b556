"""The kernel's filter for the calls of everybody inside: what belongs to no namespace is refused to all.

Keys belong to a user of the host whatever namespace he is in; sockets of the hypervisor lead out of every network; the
kernel's log and its counters are the whole machine's. The rest, memory that others fault in and queues of calls that no
filter sees, is what breaks out of kernels. Standard library only: the scripts import it.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from amplifier_digital_twin.embedded import syscalls

#: There where the kernel can filter calls.
_ACTIONS: Final = "/proc/sys/kernel/seccomp/actions_avail"
#: Steps of the filter: load a word, jump if equal, jump if at least, give the answer.
_LOAD: Final = 0x20
_EQUAL: Final = 0x15
_AT_LEAST: Final = 0x35
_GIVE: Final = 0x06
#: Where the words of a call lie: its number, the machine, the lower half of the first argument.
_NUMBER: Final = 0
_MACHINE: Final = 4
_ARGUMENT: Final = 16
_ALLOW: Final = 0x7FFF0000
_REFUSE: Final = 0x00050000
#: Calls of x86_64 with short pointers have numbers from here on.
_X32: Final = 0x40000000
#: Local, IPv4, IPv6 and the kernel's own: they belong to the network namespace.
FAMILIES: Final = (1, 2, 10, 16)


class Machine(NamedTuple):
    """How a kind of processor names calls: its own number, then those refused, then those that make sockets."""

    audit: int
    #: add_key, request_key, keyctl, io_uring_setup, userfaultfd, syslog, perf_event_open, bpf
    refused: tuple[int, ...]
    #: socket, socketpair
    sockets: tuple[int, int]


MACHINES: Final = {
    "x86_64": Machine(0xC000003E, (248, 249, 250, 425, 323, 103, 298, 321), (41, 53)),
    "aarch64": Machine(0xC00000B7, (217, 218, 219, 425, 282, 116, 241, 280), (198, 199)),
}


def missing_reason() -> str:
    """Say why calls cannot be filtered here; nothing when they can."""
    machine = os.uname().machine
    if machine not in MACHINES:
        return f"the numbers of the calls to refuse are not known for {machine}, only for {', '.join(MACHINES)}"
    if not os.path.exists(_ACTIONS):
        return "the kernel was built without filters for calls (CONFIG_SECCOMP_FILTER)"
    return ""


def filter_program() -> bytes:
    """Return the filter, as the kernel and bubblewrap take it; nothing where `missing_reason` says why not."""
    return b"" if missing_reason() else b"".join(_steps(MACHINES[os.uname().machine]))


def _step(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("HBBI", code, then, otherwise, value)


def _steps(machine: Machine) -> Iterable[bytes]:
    """Give the steps; programs for another machine than this, whose calls have other numbers, get none at all."""
    yield _step(_LOAD, _MACHINE)
    yield _step(_EQUAL, machine.audit, 1, 0)
    yield _step(_GIVE, _REFUSE | errno.ENOSYS)
    yield _step(_LOAD, _NUMBER)
    yield _step(_AT_LEAST, _X32, 0, 1)
    yield _step(_GIVE, _REFUSE | errno.ENOSYS)
    for number in machine.refused:
        yield _step(_EQUAL, number, 0, 1)
        yield _step(_GIVE, _REFUSE | errno.EPERM)
    families = len(FAMILIES)
    yield _step(_EQUAL, machine.sockets[0], 1, 0)
    yield _step(_EQUAL, machine.sockets[1], 0, families + 2)
    yield _step(_LOAD, _ARGUMENT)
    for index, family in enumerate(FAMILIES):
        yield _step(_EQUAL, family, families - index, 0)
    yield _step(_GIVE, _REFUSE | errno.EAFNOSUPPORT)
    yield _step(_GIVE, _ALLOW)


#: Made now: nothing may be looked up once the file system is the twin's.
_PROGRAM: Final = filter_program()


def refuse_calls() -> None:
    """Put the filter on this process and all that come from it; after `set_no_new_privileges`. Raises OSError.

    Does nothing where there is no filter: whether that is good enough is decided when a universe is made.
    """
    if _PROGRAM:
        syscalls.set_call_filter(_PROGRAM)

"""The script that makes sockets in a twin's network for the host. Run as `python -I -S net_helper.py`.

It enters the network namespace and the user namespaces above it, nothing else: its files and its process table are
the host's, and no process of the twin sees it. It keeps the one capability that low ports need.

Arguments: the numbers of two descriptors: the control socket (SOCK_SEQPACKET, JSON) and a pidfd of the process whose
network it is; and that process's number. It ends with the control socket.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import struct
import sys
from typing import Any, NoReturn

if __name__ == "__main__":
    # At the end: nothing of the standard library is hidden.
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from amplifier_digital_twin.embedded import namespaces, syscalls

_SIOCGIFFLAGS = 0x8913
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 0x1
_BACKLOG = 128


def _enter(pid: int, pidfd: int) -> None:
    steps = namespaces.plan_steps(pid, pidfd, frozenset({"net"}))
    # The user namespaces below the network's owner are not ours to enter: rights over the network end there.
    until = max((number for number, step in enumerate(steps) if step.kind == "net"), default=-1)
    if until < 0:
        raise ValueError("the process has no network of its own")
    for step in steps[: until + 1]:
        step.take()
    raise_loopback()
    syscalls.limit_bounding_set({syscalls.CAP_NET_BIND_SERVICE})
    syscalls.set_capabilities({syscalls.CAP_NET_BIND_SERVICE})
    syscalls.set_no_new_privileges()
    syscalls.set_dumpable(False)
    syscalls.set_parent_death_signal(signal.SIGKILL)


def raise_loopback() -> None:
    """Bring the loopback interface up, when whoever made the network has not."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh14x", b"lo", 0)
        answer = fcntl.ioctl(any_socket, _SIOCGIFFLAGS, request)
        flags = struct.unpack("16sh14x", answer)[1]
        if not flags & _IFF_UP:
            fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | _IFF_UP))


def make_socket(request: dict[str, Any]) -> socket.socket:
    """Make the socket asked for: bound and listening, or free to be connected by whoever gets it."""
    made = socket.socket(int(request["family"]), socket.SOCK_STREAM)
    try:
        if request["operation"] == "listen":
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind((request["host"], int(request["port"])))
            made.listen(_BACKLOG)
    except BaseException:
        made.close()
        raise
    return made


def _serve(control: socket.socket) -> None:
    while request := control.recv(4096):
        try:
            made = make_socket(json.loads(request))
        except OSError as error:
            control.send(json.dumps({"errno": error.errno, "message": error.strerror}).encode("ascii"))
            continue
        socket.send_fds(control, [b"{}"], [made.fileno()])
        made.close()


def _main() -> NoReturn:
    control = socket.socket(fileno=int(sys.argv[1]))
    syscalls.set_dumpable(False)
    syscalls.set_process_name("twin-sockets")
    try:
        _enter(int(sys.argv[3]), int(sys.argv[2]))
    except Exception as error:
        is_gone = isinstance(error, namespaces.GoneError) or namespaces.has_ended(int(sys.argv[2]))
        code = "twin_gone" if is_gone else "sockets_failed"
        control.send(json.dumps({"code": code, "message": f"{type(error).__name__}: {error}"}).encode("ascii"))
        os._exit(0)
    os.close(int(sys.argv[2]))
    control.send(b"{}")
    try:
        _serve(control)
    except (ConnectionResetError, BrokenPipeError):
        os._exit(0)  # Whoever asked is gone.
    os._exit(0)


if __name__ == "__main__":
    _main()

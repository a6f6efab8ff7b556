"""The script that takes one command, or one stream of files, into a twin. Run as `python -I -S entrance.py`.

Three processes: this one stays outside, with the host's process table, and decides when the command is over; the
second (`crossing.py`) lives in the twin's pid namespace as the adopter of the command's orphans; the third becomes
the command. None of them can be looked into from the twin, and none imports or opens anything of the twin before
its rights are dropped.

Arguments: the numbers of three descriptors: the control socket (SOCK_SEQPACKET, JSON), a pidfd of the twin's first
process, the command's standard input. Standard input is the request (JSON). The end of the control socket, or any
message on it, means: end the command and everything that came from it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import time
from typing import Any, NoReturn

if __name__ == "__main__":
    # At the end: nothing of the standard library is hidden.
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from amplifier_digital_twin.embedded import crossing, descendants, namespaces, syscalls

#: How long, in milliseconds, the first process of a namespace may take to die after all others in it were killed.
_DYING = 100
_GONE = {"kind": "failed", "code": "twin_gone", "message": "the twin ended while the command ran"}
_KINDS = frozenset({"pid", "net", "ipc", "uts", "cgroup", "mnt"})


class Outside:
    """The process that stays outside: what it holds, and what it tells its starter."""

    def __init__(self, control: socket.socket, pidfd: int, request: dict[str, Any]) -> None:
        self._control = control
        self._pidfd = pidfd
        self._pid = int(request["pid"])
        self._init = descendants.namespace_init(self._pid)

    def report(self, **message: Any) -> None:
        """Tell the starter; it may be gone."""
        try:
            self._control.send(json.dumps(message).encode("ascii"))
        except OSError:
            # Nobody is left to hear it; the command was ended because of just that.
            return

    def watch(self, supervisor: int, inner: socket.socket) -> None:
        """Wait for the command's end, or for the order to end it; report either."""
        first = descendants.read_process(supervisor)
        since = 0 if first is None else first.started
        poller = select.poll()
        poller.register(self._control, select.POLLIN)
        poller.register(inner, select.POLLIN)
        while True:
            ready = {number for number, _ in poller.poll()}
            if inner.fileno() in ready:
                message = _receive(inner)
                if message:
                    inner.send(b"go")
                    os.waitpid(supervisor, 0)
                    self._pass_on(json.loads(message))
                else:
                    self._lost(supervisor, since)
                return
            if self._control.fileno() in ready:
                self.report(kind="killed", is_complete=self._end(supervisor, since))
                return

    def _pass_on(self, message: dict[str, Any]) -> None:
        """Report how the command ended; one that was killed may have been so together with the twin."""
        is_killed = message.get("status") == signal.SIGKILL
        if is_killed and namespaces.has_ended(self._pidfd, _DYING):
            message = _GONE
        self.report(**message)

    def _end(self, supervisor: int, since: int) -> bool:
        """End the command and everything that came from it; tell whether all of it is gone."""
        # Stopped, it starts nothing more, and stays the parent of what it adopted until the last is dead.
        os.kill(supervisor, signal.SIGSTOP)
        _await_stop(supervisor)
        is_complete = descendants.end_all(lambda table: descendants.descendants(table, supervisor))
        is_lost = os.waitpid(supervisor, os.WNOHANG)[0] != 0
        if is_lost:
            return self._end_orphans(since) and is_complete
        os.kill(supervisor, signal.SIGKILL)
        os.waitpid(supervisor, 0)
        return is_complete

    def _lost(self, supervisor: int, since: int) -> None:
        """Handle that the adopter was killed: with the twin, or by a command that may signal it."""
        os.waitpid(supervisor, 0)
        if namespaces.has_ended(self._pidfd, _DYING):
            self.report(**_GONE)
            return
        self._end_orphans(since)
        self.report(kind="ended", status=int(signal.SIGKILL))

    def _end_orphans(self, since: int) -> bool:
        init = self._init
        if init is None or namespaces.has_ended(self._pidfd):
            return True
        return descendants.end_all(lambda table: descendants.orphans(table, init, since))


def _receive(channel: socket.socket) -> bytes:
    try:
        return channel.recv(65536)
    except ConnectionResetError:
        return b""


def _await_stop(pid: int) -> None:
    deadline = time.monotonic() + 1.0
    while time.monotonic() < deadline:
        process = descendants.read_process(pid)
        if process is None or process.state in "TtZX":
            return
        time.sleep(0.001)


def _hide() -> None:
    """Make this process and its children unreadable to others, its arguments included."""
    syscalls.set_dumpable(False)
    syscalls.set_process_name("twin-entrance")
    with open("/proc/self/stat", "rb") as file:
        line = file.read()
    words = line[line.rindex(b")") + 2 :].split()
    syscalls.hide_arguments(int(words[45]), int(words[46]), "twin-entrance")


def _seal_imports() -> None:
    """Make importing anything new impossible: from now on a search would look into the twin."""
    sys.path.clear()
    sys.meta_path.clear()
    sys.path_hooks.clear()
    sys.path_importer_cache.clear()


def _read_request() -> dict[str, Any]:
    with open(0, "rb", closefd=False) as file:
        request: dict[str, Any] = json.load(file)
    os.close(0)
    os.open("/dev/null", os.O_RDONLY)
    return request


def _check_user(request: dict[str, Any]) -> None:
    pid = int(request["pid"])
    for kind in ("uid", "gid"):
        if not namespaces.is_mapped(pid, kind, int(request[kind])):
            raise crossing.CrossingError(
                "user_unmapped", f"the twin has no {kind} {request[kind]}: its user namespace does not map it"
            )
    request["base_uid"] = 0 if namespaces.is_mapped(pid, "uid", 0) else request["uid"]
    request["base_gid"] = 0 if namespaces.is_mapped(pid, "gid", 0) else request["gid"]
    with open(f"/proc/{pid}/setgroups", encoding="ascii") as file:
        request["may_set_groups"] = file.read().strip() == "allow"


def _enter(outside: Outside, control: socket.socket, pidfd: int, stdin: int, request: dict[str, Any]) -> None:
    pid = int(request["pid"])
    steps = namespaces.plan_steps(pid, pidfd, _KINDS)
    root = os.open(f"/proc/{pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    cgroups = [os.open(path, os.O_WRONLY | os.O_CLOEXEC) for path in request["cgroups"]]
    _check_user(request)
    if namespaces.has_ended(pidfd):
        raise namespaces.GoneError(f"process {pid} ended")
    _seal_imports()
    # Only children are moved into a pid namespace: this process keeps the host's process table and its own files.
    until = 1 + max((number for number, step in enumerate(steps) if step.kind == "pid"), default=-1)
    for step in steps[:until]:
        if step.kind == "mnt":
            raise crossing.CrossingError("entrance_failed", "the mount namespace's owner is above the pid namespace's")
        step.take()
    syscalls.set_dumpable(False)
    inner, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    supervisor = os.fork()
    if supervisor == 0:
        inner.close()
        crossing.cross(steps[until:], root, cgroups, stdin, control, theirs, request)
    theirs.close()
    for descriptor in (stdin, root, *cgroups):
        os.close(descriptor)
    outside.watch(supervisor, inner)


def _main() -> NoReturn:
    control = socket.socket(fileno=int(sys.argv[1]))
    pidfd, stdin = int(sys.argv[2]), int(sys.argv[3])
    for descriptor in (control.fileno(), pidfd, stdin):
        os.set_inheritable(descriptor, False)
    _hide()
    request = _read_request()
    outside = Outside(control, pidfd, request)
    try:
        crossing.prepare(request)
        _enter(outside, control, pidfd, stdin, request)
    except namespaces.GoneError as error:
        outside.report(kind="failed", code="twin_gone", message=str(error))
    except crossing.CrossingError as error:
        outside.report(kind="failed", code=error.code, message=str(error))
    except Exception as error:
        # No traceback: writing one reads source files, and the reason is what the starter needs.
        code = "twin_gone" if namespaces.has_ended(pidfd) else "entrance_failed"
        outside.report(kind="failed", code=code, message=f"{type(error).__name__}: {error}")
    os._exit(0)


if __name__ == "__main__":
    _main()

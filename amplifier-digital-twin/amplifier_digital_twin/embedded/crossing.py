"""The way from the host's rights to a user of the twin: the adopter of a command's orphans, and the command itself.

Standard library only: the entrance script imports it. Everything here runs after `fork`, on the way into the twin or
inside: nothing may be imported, and no path opened before the rights are dropped.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import socket
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NoReturn

from amplifier_digital_twin.embedded import call_filter, syscalls
from amplifier_digital_twin.embedded.namespaces import Step

_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
_NOT_FOUND = 127
_NOT_EXECUTABLE = 126
#: The module that handles files, loaded before the twin is entered when it is needed.
_transfer: ModuleType | None = None


class CrossingError(Exception):
    """Something that the caller of the entrance must hear, by a stable code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def prepare(request: dict[str, Any]) -> None:
    """Load what the operation needs, while files are still the host's."""
    global _transfer
    if request["operation"] != "exec":
        from amplifier_digital_twin.embedded import transfer

        _transfer = transfer


def cross(
    steps: Sequence[Step],
    root: int,
    cgroups: Sequence[int],
    stdin: int,
    control: socket.socket,
    inner: socket.socket,
    request: dict[str, Any],
) -> NoReturn:
    """Enter the twin, start the command, adopt its orphans, tell the outside how it ended; never returns."""
    message: dict[str, Any]
    try:
        _go_inside(steps, root, request)
        stdout, stderr = _make_streams(control, request)
        status_reader, status_writer = os.pipe()
        syscalls.set_child_subreaper()
        command = os.fork()
        if command == 0:
            control.close()
            inner.close()
            os.close(status_reader)
            _become_command(cgroups, (stdin, stdout, stderr), status_writer, request)
        _drop_everything()
        control.close()
        for descriptor in (stdin, stdout, stderr, status_writer, root, *cgroups):
            os.close(descriptor)
        message = _await(command, status_reader)
    except CrossingError as error:
        message = {"kind": "failed", "code": error.code, "message": str(error)}
    except BaseException as error:
        message = {"kind": "failed", "code": "entrance_failed", "message": f"{type(error).__name__}: {error}"}
    try:
        inner.send(json.dumps(message).encode("ascii"))
        inner.recv(16)
    finally:
        os._exit(0)


def _go_inside(steps: Sequence[Step], root: int, request: dict[str, Any]) -> None:
    for step in steps:
        step.take()
    os.fchdir(root)
    os.chroot(".")
    os.chdir("/")
    _set_ids(int(request["base_uid"]), int(request["base_gid"]), bool(request["may_set_groups"]))
    syscalls.set_dumpable(False)
    # After the change of ids, which forgets it.
    syscalls.set_parent_death_signal(signal.SIGKILL)


def _set_ids(uid: int, gid: int, may_set_groups: bool) -> None:
    if may_set_groups:
        os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def _make_streams(control: socket.socket, request: dict[str, Any]) -> tuple[int, int]:
    """Make the pipes that the command writes to, hand their other ends out, and return ours."""
    # They belong to the user, so that /dev/stdout and /dev/stderr can be opened again.
    syscalls.set_file_ids(int(request["uid"]), int(request["gid"]))
    try:
        out_reader, out_writer = os.pipe()
        err_reader, err_writer = os.pipe()
    finally:
        syscalls.set_file_ids(int(request["base_uid"]), int(request["base_gid"]))
    socket.send_fds(control, [b'{"kind": "streams"}'], [out_reader, err_reader])
    os.close(out_reader)
    os.close(err_reader)
    return out_writer, err_writer


def _drop_everything() -> None:
    syscalls.limit_bounding_set()
    syscalls.set_capabilities()
    syscalls.set_no_new_privileges()
    call_filter.refuse_calls()
    syscalls.set_dumpable(False)
    syscalls.set_parent_death_signal(signal.SIGKILL)


def _await(command: int, status: int) -> dict[str, Any]:
    """Wait for the command, taking every orphan's end on the way."""
    while True:
        pid, how = os.waitpid(-1, 0)
        if pid == command:
            break
    os.set_blocking(status, False)
    try:
        told = os.read(status, 65536)
    except BlockingIOError:
        told = b""
    if told:
        failure: dict[str, Any] = json.loads(told)
        return {"kind": "failed", **failure}
    return {"kind": "ended", "status": how}


def _become_command(
    cgroups: Sequence[int], streams: tuple[int, int, int], status: int, request: dict[str, Any]
) -> NoReturn:
    try:
        os.setsid()
        for descriptor in cgroups:
            os.write(descriptor, b"0")
        _limit(request["rlimits"])
        _drop_to_user(request)
        status = _keep_only(streams, status)
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.umask(0o022)
        if request["operation"] == "exec":
            _execute(request)
        assert _transfer is not None
        _transfer.perform(request)
        os._exit(0)
    except CrossingError as error:
        _tell(status, error.code, str(error))
    except BaseException as error:
        _tell(status, "entrance_failed", f"{type(error).__name__}: {error}")
    os._exit(1)


def _tell(status: int, code: str, message: str) -> None:
    try:
        os.write(status, json.dumps({"code": code, "message": message[:2000]}).encode("ascii"))
    except OSError:
        # The adopter is gone, and with it everyone who would have read this; the exit code still says no.
        return


def _limit(limits: dict[str, int]) -> None:
    for name, value in limits.items():
        if name == "CPUS":
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: max(1, value)])
            continue
        kind = getattr(resource, name)
        hard = resource.getrlimit(kind)[1]
        highest = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (highest, highest))


def _drop_to_user(request: dict[str, Any]) -> None:
    uid, gid = int(request["uid"]), int(request["gid"])
    keep = syscalls.ROOT_CAPABILITIES if uid == 0 and request["keep_root_capabilities"] else frozenset()
    syscalls.limit_bounding_set(keep)
    syscalls.set_no_new_privileges()
    _set_ids(uid, gid, bool(request["may_set_groups"]))
    syscalls.set_capabilities(keep)
    syscalls.join_new_session_keyring()
    call_filter.refuse_calls()
    syscalls.set_dumpable(False)
    syscalls.set_parent_death_signal(signal.SIGKILL)


def _keep_only(streams: tuple[int, int, int], status: int) -> int:
    """Make the streams 0, 1 and 2, close every other descriptor but the status pipe, and return its new number."""
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number, inheritable=True)
    os.dup2(status, 3, inheritable=False)
    syscalls.close_from(4)
    return 3


def _execute(request: dict[str, Any]) -> NoReturn:
    try:
        os.chdir(_encode(request["cwd"]))
    except OSError as error:
        raise CrossingError("cwd_missing", f"{request['cwd']!r} cannot be entered: {error.strerror}") from error
    arguments = [_encode(word) for word in request["argv"]]
    environment = {_encode(name): _encode(value) for name, value in request["environment"].items()}
    name = request["argv"][0]
    folders = [] if "/" in name else request["environment"].get("PATH", _DEFAULT_PATH).split(":")
    candidates = [name] if "/" in name else [f"{folder}/{name}" for folder in folders if folder]
    failure: OSError = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    for candidate in candidates:
        try:
            os.execve(_encode(candidate), arguments, environment)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            failure = error
            if error.errno != errno.EACCES:
                break
    os.write(2, f"{name}: {failure.strerror}\n".encode("utf-8", "replace"))
    os._exit(_NOT_FOUND if isinstance(failure, FileNotFoundError) else _NOT_EXECUTABLE)


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")

"""Commands and files into a twin, from the outside: one short-lived entrance process for each."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from amplifier_digital_twin.backends.twin import Finished, Run, Sink
from amplifier_digital_twin.embedded.passage import Output, Passage, memory_file, write_all
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import User

#: What a command that was ended at its timeout is said to have returned, as `timeout` does.
TIMED_OUT = 124
#: How much a tar stream may be larger than what is in it: headers and filling, for each file and in all.
_TAR_OVERHEAD = 64 * 1024 * 1024
_CHUNK = 256 * 1024


class Entry:
    """The way into the namespaces of a process (the twin's first, as the host numbers it)."""

    def __init__(self, pid: int, python: str = sys.executable) -> None:
        """Take hold of the process; raise TwinError (`twin_gone`) when there is none."""
        self._pid = pid
        self._python = python
        try:
            #: Held, so that another process which gets the number is never entered.
            self._pidfd = os.pidfd_open(pid)
        except ProcessLookupError as error:
            raise _failure("twin_gone", f"the twin's process {pid} does not run") from error
        self._open: set[Passage] = set()

    async def run(
        self,
        run: Run,
        sink: Sink | None = None,
        *,
        cgroups: Sequence[Path] = (),
        rlimits: Mapping[str, int] | None = None,
        keep_root_capabilities: bool = True,
    ) -> Finished:
        """Run a command to its end.

        `cgroups` are folders that the command joins; `rlimits` are values by name (`RLIMIT_AS`), and `CPUS`, the
        number of processors. At the timeout, or when the caller is cancelled, or when `sink` raises, everything that
        came from the command ends. What it leaves running after its own end stays, and may go on writing to nobody.
        A command that is not found returns 127, one that cannot be executed 126. Raise TwinError when it could not be
        started: `twin_gone`, `user_unmapped`, `cwd_missing`, `run_invalid`, `entrance_failed`.
        """
        _check(run)
        request = self._request("exec", run.user, cgroups, rlimits)
        request |= {
            "argv": list(run.argv),
            "environment": dict(run.environment),
            "cwd": run.cwd,
            "keep_root_capabilities": keep_root_capabilities,
        }
        outputs = (Output("stdout", sink), Output("stderr", sink))
        stdin = memory_file("stdin", run.stdin)
        begin = time.monotonic()
        status, is_timed_out = await self._pass(request, stdin, outputs, run.timeout)
        return Finished(
            exit_code=TIMED_OUT if is_timed_out else _exit_code(status),
            stdout=bytes(outputs[0].kept),
            stderr=bytes(outputs[1].kept),
            is_timed_out=is_timed_out,
            is_cut=outputs[0].is_cut or outputs[1].is_cut,
            seconds=time.monotonic() - begin,
        )

    async def put(
        self,
        archive: BinaryIO,
        user: User,
        folder: str,
        *,
        cgroups: Sequence[Path] = (),
        rlimits: Mapping[str, int] | None = None,
    ) -> None:
        """Unpack a tar stream into a folder inside, as that user; the folder is made when missing.

        Links in the way are not followed and setuid bits not kept; owners count only for root. Raise TwinError:
        `archive_invalid`, `archive_unsafe`, `transfer_failed`, and those of `run`.
        """
        request = self._request("put", user, cgroups, rlimits) | {"folder": folder}
        reader, writer = os.pipe2(os.O_CLOEXEC)
        feeding = asyncio.create_task(asyncio.to_thread(_feed, archive, writer))
        try:
            await self._pass(request, reader, (Output("stdout", None), Output("stderr", None)), None)
        finally:
            # It ends by itself: whoever read the pipe is gone by now.
            await asyncio.shield(feeding)

    async def get(
        self,
        paths: Sequence[str],
        user: User,
        archive: BinaryIO,
        max_bytes: int,
        *,
        cgroups: Sequence[Path] = (),
        rlimits: Mapping[str, int] | None = None,
    ) -> None:
        """Write a tar stream of files inside, read as that user, to `archive`; `~` is the user's home.

        Names in the archive are absolute paths without the first slash. Links are recorded, not followed, and devices
        left out; patterns find nothing in folders that the user may not list. Raise TwinError: `file_missing`,
        `path_invalid`, `too_large`, `too_many`, `transfer_failed`, and those of `run`.
        """
        expanded = [user.home + path[1:] if path == "~" or path.startswith("~/") else path for path in paths]
        request = self._request("get", user, cgroups, rlimits) | {"paths": expanded, "max_bytes": max_bytes}
        written = 0

        def store(stream: str, data: bytes) -> None:
            nonlocal written
            if stream == "stdout":
                written += len(data)
                if written > max_bytes + _TAR_OVERHEAD:
                    raise _failure("too_large", f"more than {max_bytes} bytes came out of the twin")
                archive.write(data)

        stdin = memory_file("stdin", b"")
        await self._pass(request, stdin, (Output("stdout", store, 0), Output("stderr", None)), None)

    async def close(self) -> None:
        """Give up the descriptors held; what runs inside is not touched."""
        for passage in list(self._open):
            passage.close()
        self._open.clear()
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1

    def _request(
        self, operation: str, user: User, cgroups: Sequence[Path], rlimits: Mapping[str, int] | None
    ) -> dict[str, Any]:
        return {
            "operation": operation,
            "pid": self._pid,
            "uid": user.uid,
            "gid": user.uid,
            "cgroups": [str(folder / "cgroup.procs") for folder in cgroups],
            "rlimits": dict(rlimits or {}),
            "keep_root_capabilities": True,
        }

    async def _pass(
        self, request: dict[str, Any], stdin: int, outputs: tuple[Output, Output], timeout: float | None
    ) -> tuple[int, bool]:
        """Let an entrance do the request (`stdin` is closed); return the wait status and whether time ran out."""
        if self._pidfd < 0:
            os.close(stdin)
            raise _failure("twin_gone", "the way into the twin was closed")
        passage = Passage(self._python, self._pidfd, request, stdin, outputs)
        self._open.add(passage)
        passage.when_closed(lambda: self._open.discard(passage))
        try:
            await passage.ended(timeout)
        finally:
            await passage.end()
        message = passage.message
        for output in outputs:
            if output.failure is not None:
                raise output.failure
        if message["kind"] == "failed":
            raise _failure(message["code"], message["message"])
        if message["kind"] == "killed":
            if not message["is_complete"]:
                raise _failure("not_ended", "some processes of the command could not be ended")
            return 0, True
        return int(message["status"]), False


_REMEDY = "Look into the twin's log; `amplifier-digital-twin doctor` says what this machine can do."
_REMEDIES = {
    "twin_gone": "Launch the universe again; its log says why it ended.",
    "user_unmapped": "Run as the profile's user, or install uidmap and a range in /etc/subuid for other users.",
    "cwd_missing": "Name a folder that is there and that the user may enter.",
    "run_invalid": "Give at least one word, and no NUL bytes.",
    "not_ended": "Reset or destroy the universe.",
    "archive_invalid": "Give a whole, uncompressed tar archive.",
    "archive_unsafe": "Give an archive of files, folders and links whose names stay below the folder.",
    "file_missing": "Look at the path, or ask by a pattern, which may find nothing.",
    "path_invalid": "Give an absolute path inside the universe, or one that begins with `~/`.",
    "too_large": "Ask for less, or allow more.",
    "too_many": "Ask for fewer files.",
    "transfer_failed": "Look at the rights of the user on that path inside the universe.",
}


def _failure(code: str, message: str) -> TwinError:
    return TwinError(code, message, _REMEDIES.get(code, _REMEDY))


def _check(run: Run) -> None:
    if not run.argv or not run.argv[0]:
        raise _failure("run_invalid", "there is no command to run")
    words = [*run.argv, run.cwd, *run.environment, *run.environment.values()]
    if any("\0" in word for word in words) or any("=" in name or not name for name in run.environment):
        raise _failure("run_invalid", "a word of the command or its environment cannot be passed to a process")


def _exit_code(status: int) -> int:
    """Return what a shell would say: the exit code, or 128 and the signal."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _feed(archive: BinaryIO, descriptor: int) -> None:
    """Copy a stream into a pipe and close it."""
    try:
        while chunk := archive.read(_CHUNK):
            write_all(descriptor, chunk)
    except BrokenPipeError:
        return  # The reader gave up, and says itself why.
    finally:
        os.close(descriptor)

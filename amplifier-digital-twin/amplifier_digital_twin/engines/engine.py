"""What the program needs of a container engine, and what is the same for all of them."""

from __future__ import annotations

import os
import secrets
import sys
import time
from abc import ABC, abstractmethod
from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, NamedTuple

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import Limits, NetworkMode
from amplifier_kit.guard.processes.launch import (
    PIPE,
    CommandResult,
    CommandTimeoutError,
    memory_file,
    open_process,
    run_program,
)
from amplifier_kit.guard.processes.programs import find_program

#: Every label starts with this; nothing without `LABEL_ID` is ever touched.
LABEL: Final = "amplifier.digital-twin"
LABEL_ID: Final = f"{LABEL}.id"
LABEL_HOME: Final = f"{LABEL}.home"
LABEL_USER: Final = f"{LABEL}.user"

#: Bytes of each stream that are kept of a command.
OUTPUT_LIMIT: Final = 16 * 1024 * 1024
#: What package managers need, for a profile that asks for root; every other universe has no capability at all.
ROOT_CAPABILITIES: Final = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID")
#: Marks the processes of one command inside, so that they can be found and killed.
_MARK: Final = "AMPLIFIER_TWIN_COMMAND"
#: `timeout` and container engines use these.
TIMED_OUT: Final = 124
_KILLED: Final = 137
#: Seconds to wait for `timeout` inside before the client is ended as well.
_GRACE: Final = 15.0
#: Reads variables from standard input, one `NAME=base64` a line up to an empty one, and runs the command with them:
#: engines keep the environment of commands in files and show it in argv.
_WITH_SECRETS: Final = (
    'while IFS= read -r line && [ -n "$line" ]; do'
    ' value=$(printf %s "${line#*=}" | base64 -d; printf x); export "${line%%=*}=${value%x}"; done; exec "$@"'
)
_KILL: Final = (
    "for directory in /proc/[0-9]*; do"
    ' grep -qsz "^$0$" "$directory/environ" && kill -KILL "${directory#/proc/}"; done; true'
)


@dataclass(frozen=True)
class ContainerSpec:
    """A container to be: everything it may see and use."""

    name: str
    image: str
    labels: Mapping[str, str]
    uid: int
    hostname: str
    limits: Limits
    network: NetworkMode
    #: Seconds after which the engine ends it in any case.
    lifetime: float
    #: A private directory of the host for files that the engine wants.
    folder: Path
    #: The script of the first process; the container lives as long as it does.
    script: str
    #: Where files and directories of the host are seen inside, read-only.
    mounts: Mapping[str, Path]


class Probe(NamedTuple):
    """Whether an engine can be used here, and if not, why and what to do; features it has or lacks, with the reason."""

    is_available: bool
    reason: str = ""
    remedy: str = ""
    #: Feature → "yes" or why not.
    features: Mapping[str, str] = {}


class Finished(NamedTuple):
    """How a command inside ended; 128 + N means signal N."""

    exit_code: int
    stdout: bytes
    stderr: bytes
    is_timed_out: bool
    seconds: float


class Command(NamedTuple):
    """A command to run inside."""

    argv: Sequence[str]
    uid: int
    cwd: str = "/"
    environment: Mapping[str, str] = {}
    #: By name and value; neither files of the engine nor argv ever hold the values.
    secrets: Mapping[str, str] = {}
    timeout: float = 300.0
    stdin: bytes = b""


def disk_parts(disk: int) -> dict[str, int]:
    """Return the sized file systems that share a disk limit: mount point → bytes."""
    return {"/home": disk - disk // 4, "/tmp": disk // 4}


def end_of(output: bytes, size: int = 2000) -> str:
    """Return the end of some output as text, where the reason of a failure stands."""
    return output[-size:].decode("utf-8", "replace").strip()


class Engine(ABC):
    """One container engine; every method that changes something raises TwinError when the engine refuses."""

    name: str
    #: Words before every command of the engine.
    options: tuple[str, ...] = ()

    @abstractmethod
    def probe(self) -> Probe:
        """Find out whether containers can be made here, and which limits hold."""

    @abstractmethod
    def has_image(self, image: str) -> bool:
        """Return whether an image is on this machine."""

    @abstractmethod
    def import_image(self, archive: Path, image: str) -> None:
        """Make an image of a root file system in a tar archive."""

    @abstractmethod
    def create(self, spec: ContainerSpec) -> None:
        """Create a container and start it; nothing of it stays when that fails."""

    @abstractmethod
    def exec_argv(
        self, container: str, uid: int, gid: int | None = None, cwd: str = "/", environment: Mapping[str, str] = {}
    ) -> list[str]:
        """Return the command that runs, with stdin, what is appended to it in a container."""

    @abstractmethod
    def init_pid(self, container: str) -> int | None:
        """Return the host's number of the container's first process; None when it does not run."""

    @abstractmethod
    def commit(self, container: str, image: str) -> None:
        """Keep a container's root file system as an image."""

    @abstractmethod
    def find(self, labels: Mapping[str, str]) -> list[str]:
        """Return the names of containers that have all these labels (an empty value means any), running or not."""

    @abstractmethod
    def remove(self, container: str) -> None:
        """End and remove a container; one that is gone is no error."""

    @abstractmethod
    def remove_image(self, image: str) -> None:
        """Remove an image; one that is gone is no error."""

    # -- the engine's program --

    def executable(self) -> str:
        """Return the path of the engine's program; raise TwinError when it is not installed."""
        found = find_program(self.name, os.environ.get("PATH"))
        if found is None:
            remedy = f"install it (Debian: apt install {self.name}), or `make system` in this repository"
            raise TwinError("engine_missing", f"{self.name} is not installed", remedy)
        return found

    def call(self, *words: str, timeout: float = 120.0, data: bytes | None = None) -> CommandResult:
        """Run the engine's program; any exit code is a result. Raises TwinError when it hangs or cannot start."""
        argv = [self.executable(), *self.options, *words]
        try:
            return run_program(
                argv, timeout=timeout, environment=os.environ, is_split=True, data=data, limit=OUTPUT_LIMIT
            )
        except (CommandTimeoutError, OSError) as error:
            remedy = f"see whether {self.name} works by itself: `{self.name} ps`"
            raise TwinError("engine_failed", f"{self.name} {words[0]}: {error}", remedy) from error

    def must(self, *words: str, timeout: float = 600.0, data: bytes | None = None) -> str:
        """Run the engine's program and return its output; raise TwinError, with its last words, when it fails."""
        result = self.call(*words, timeout=timeout, data=data)
        if result.returncode != 0:
            raise self.failure(words[0], result)
        return result.stdout.decode("utf-8", "replace").strip()

    def failure(self, verb: str, result: CommandResult) -> TwinError:
        """Return the error of a command of the engine."""
        said = end_of(result.stderr) or end_of(result.stdout)
        remedy = "`amplifier-digital-twin doctor` shows what this machine can do"
        return TwinError("engine_failed", f"{self.name} {verb}: {said}", remedy)

    # -- commands inside --

    def run(self, container: str, command: Command, *, is_streamed: bool = False) -> Finished:
        """Run a command inside to its end; `is_streamed` passes its output through. When interrupted, it is killed.

        Raises TwinError `twin_gone` when the container does not run.
        """
        mark = secrets.token_hex(8)
        argv, data = self.command_line(container, command, mark)
        begin = time.monotonic()
        try:
            run = _stream if is_streamed else _capture
            result = run(argv, data, command.timeout + _GRACE)
        except CommandTimeoutError as error:
            self._kill(container, command.uid, mark)
            result = CommandResult(TIMED_OUT, error.output.encode(), error.stderr)
        except BaseException:
            self._kill(container, command.uid, mark)
            raise
        seconds = time.monotonic() - begin
        code = result.returncode
        if code in (125, 126, 127, 255) and self.init_pid(container) is None:
            said = f"the container {container} does not run: {end_of(result.stderr, 500)}"
            raise TwinError("twin_gone", said, "it was ended or reached its lifetime: launch it again")
        is_timed_out = code in (TIMED_OUT, _KILLED, -9) and seconds >= command.timeout
        return Finished(code, result.stdout, result.stderr, is_timed_out, seconds)

    def command_line(self, container: str, command: Command, mark: str) -> tuple[list[str], bytes]:
        """Return the words that run a command inside, and what they get on standard input."""
        prefix = self.exec_argv(container, command.uid, None, command.cwd, {**command.environment, _MARK: mark})
        argv = [*prefix, "timeout", "-k", "5", f"{command.timeout:g}", *command.argv]
        if not command.secrets:
            return argv, command.stdin
        argv[len(prefix) : len(prefix)] = ["/bin/sh", "-c", _WITH_SECRETS, "sh"]
        lines = [f"{name}={b64encode(os.fsencode(value)).decode()}\n" for name, value in command.secrets.items()]
        return argv, "".join([*lines, "\n"]).encode() + command.stdin

    def _kill(self, container: str, uid: int, mark: str) -> None:
        """Kill a command inside with everything it started: the end of the engine's client does not end it."""
        argv = [*self.exec_argv(container, uid), "/bin/sh", "-c", _KILL, f"{_MARK}={mark}"]
        run_program(argv, timeout=20, environment=os.environ)

    def copy_in(self, container: str, archive: IO[bytes], uid: int, gid: int, target: str) -> None:
        """Unpack a tar archive in a directory inside, as a user; raises TwinError."""
        argv = [*self.exec_argv(container, uid, gid), "tar", "-C", target, "-xf", "-"]
        with open_process(argv, environment=os.environ, stdin=archive, stderr=PIPE) as process:
            _, words = process.communicate()
        if process.returncode != 0:
            remedy = "name a directory that the user may write to"
            raise TwinError("transfer_failed", f"{target}: {end_of(words, 500)}", remedy)

    def copy_out(self, container: str, script: str, uid: int, archive: IO[bytes], limit: int) -> None:
        """Write the tar archive that a shell script inside prints; raise TwinError for more than `limit` bytes."""
        argv = [*self.exec_argv(container, uid), "/bin/sh", "-c", script]
        size = 0

        def write(data: bytes) -> bool:
            nonlocal size
            size += len(data)
            archive.write(data if size <= limit else b"")
            return size > limit

        result = run_program(argv, timeout=600, environment=os.environ, is_split=True, on_stdout=write)
        if size > limit:
            raise TwinError("too_large", f"more than {limit:,} bytes", "name less, or a smaller directory")
        if result.returncode != 0:
            said = end_of(result.stderr, 500) or f"exit code {result.returncode}"
            raise TwinError("transfer_failed", said, "see whether the path exists and the user may read it")


def _capture(argv: Sequence[str], data: bytes, timeout: float) -> CommandResult:
    return run_program(argv, timeout=timeout, environment=os.environ, data=data, is_split=True, limit=OUTPUT_LIMIT)


def _stream(argv: Sequence[str], data: bytes, timeout: float) -> CommandResult:
    """Run a command whose output is our own."""
    import subprocess

    with ExitStack() as stack:
        stdin = memory_file(data)
        stack.callback(os.close, stdin)
        sys.stdout.flush()
        process = stack.enter_context(open_process(argv, environment=os.environ, stdin=stdin, stdout=1, stderr=2))
        stack.callback(process.kill)
        try:
            return CommandResult(process.wait(timeout), b"")
        except subprocess.TimeoutExpired:
            raise CommandTimeoutError(argv[0], timeout, "") from None

"""What the program needs of a container engine, and what is the same for all of them."""

from __future__ import annotations

import os
import re
import secrets
import selectors
import shlex
import time
from abc import ABC, abstractmethod
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import Limits, NetworkMode
from amplifier_kit.guard.processes.launch import PIPE, CommandResult, memory_file, open_process, run_program
from amplifier_kit.guard.processes.programs import find_program

#: Every label starts with this; nothing without `LABEL_ID` is ever touched.
LABEL: Final = "amplifier.digital-twin"
LABEL_ID: Final = f"{LABEL}.id"
LABEL_HOME: Final = f"{LABEL}.home"
LABEL_USER: Final = f"{LABEL}.user"
LABEL_OWNER: Final = f"{LABEL}.owner"
LABEL_BOOT: Final = f"{LABEL}.boot"
LABEL_LEASE: Final = f"{LABEL}.lease"

#: Bytes of each stream that are kept of a command.
OUTPUT_LIMIT: Final = 16 * 1024 * 1024
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
class Mount:
    """A file or directory of the host that is seen inside, read-only."""

    source: Path
    target: str


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
    #: The first process; the container lives as long as it does.
    command: Sequence[str]
    mounts: Sequence[Mount] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


class Container(NamedTuple):
    """A container of ours that exists."""

    name: str
    labels: Mapping[str, str]


class Probe(NamedTuple):
    """Whether an engine can be used here, and if not, why and what to do; features it has or lacks, with the reason."""

    is_available: bool
    reason: str = ""
    remedy: str = ""
    #: Feature → "yes" or why not.
    features: Mapping[str, str] = {}


class Finished(NamedTuple):
    """How a command inside ended; a negative exit code is impossible, 128 + N means signal N."""

    exit_code: int
    stdout: bytes
    stderr: bytes
    is_timed_out: bool
    seconds: float


class Command(NamedTuple):
    """A command to run inside."""

    argv: Sequence[str]
    uid: int
    cwd: str
    environment: Mapping[str, str]
    #: By name and value; neither files of the engine nor argv ever hold the values.
    secrets: Mapping[str, str] = {}
    timeout: float = 300.0
    stdin: bytes = b""


def disk_parts(disk: int) -> dict[str, int]:
    """Return the sized file systems that share a disk limit: mount point → bytes."""
    return {"/home": disk - disk // 4, "/tmp": disk // 4}


class Engine(ABC):
    """One container engine; every method that changes something raises TwinError when the engine refuses."""

    name: str
    program: str

    # -- what each engine does in its own way --

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
        """Create a container and start it."""

    @abstractmethod
    def exec_argv(
        self, container: str, uid: int, cwd: str, environment: Mapping[str, str], *, gid: int | None = None
    ) -> list[str]:
        """Return the command that runs, with stdin, what is appended to it in a container."""

    @abstractmethod
    def init_pid(self, container: str) -> int | None:
        """Return the host's number of the container's first process; None when it does not run."""

    @abstractmethod
    def commit(self, container: str, image: str) -> None:
        """Keep a container's root file system as an image."""

    @abstractmethod
    def find(self, labels: Mapping[str, str]) -> list[Container]:
        """Return the containers that have all these labels, running or not."""

    @abstractmethod
    def remove(self, container: str) -> None:
        """End and remove a container; one that is gone is no error."""

    @abstractmethod
    def images(self, prefix: str) -> list[str]:
        """Return the names of images that start with a prefix."""

    @abstractmethod
    def remove_image(self, image: str) -> None:
        """Remove an image; one that is gone is no error."""

    # -- what is the same for all --

    def executable(self) -> str:
        """Return the path of the engine's program; raise TwinError when it is not installed."""
        found = find_program(self.program, os.environ.get("PATH"))
        if found is None:
            raise TwinError(
                "engine_missing", f"{self.program} is not installed", f"install it (Debian: apt install {self.program})"
            )
        return found

    def call(self, *words: str, timeout: float = 120.0, data: bytes | None = None) -> CommandResult:
        """Run the engine's program; any exit code is a result. Raises TwinError when it hangs or cannot start."""
        from amplifier_kit.guard.processes.launch import CommandTimeoutError

        try:
            return run_program(
                [self.executable(), *words],
                timeout=timeout,
                environment=os.environ,
                is_split=True,
                data=data,
                limit=OUTPUT_LIMIT,
            )
        except CommandTimeoutError as error:
            raise TwinError(
                "engine_failed",
                f"{self.program} {words[0]} was not done after {timeout:g} s",
                f"see whether {self.program} works by itself: {self.program} ps",
            ) from error
        except OSError as error:
            raise TwinError(
                "engine_failed", f"{self.program}: {error}", "see `amplifier-digital-twin doctor`"
            ) from error

    def must(self, *words: str, timeout: float = 120.0, data: bytes | None = None) -> str:
        """Run the engine's program and return its output; raise TwinError, with its last words, when it fails."""
        result = self.call(*words, timeout=timeout, data=data)
        if result.returncode != 0:
            raise self.failure(words, result)
        return result.stdout.decode("utf-8", "replace").strip()

    def failure(self, words: Sequence[str], result: CommandResult) -> TwinError:
        """Return the error of a command of the engine."""
        said = result.stderr.decode("utf-8", "replace").strip() or result.output.strip()
        verb = next((word for word in words if not word.startswith("-") and "/" not in word), "")
        return TwinError(
            "engine_failed",
            f"{self.program} {verb}: {said[-1500:]}",
            "`amplifier-digital-twin doctor` shows what this machine can do",
        )

    def run(self, container: str, command: Command, output: Callable[[str, bytes], None] | None = None) -> Finished:
        """Run a command inside to its end; `output` gets chunks as they come. When interrupted, the command is killed.

        Raises TwinError `twin_gone` when the container does not run.
        """
        mark = f"{_MARK}={secrets.token_hex(8)}"
        argv = self._inside(container, command, mark)
        begin = time.monotonic()
        stdin = memory_file(_input(command))
        try:
            process = open_process(argv, environment=os.environ, stdin=stdin, stdout=PIPE, stderr=PIPE)
        finally:
            os.close(stdin)
        kept = {"stdout": bytearray(), "stderr": bytearray()}
        try:
            if not _collect(process, begin + command.timeout + _GRACE, kept, output):
                self._kill(container, command, mark, process)
            code = process.returncode if process.returncode is not None else TIMED_OUT
        except BaseException:
            self._kill(container, command, mark, process)
            raise
        finally:
            with process:
                pass  # closes its streams
        seconds = time.monotonic() - begin
        stderr = bytes(kept["stderr"])
        is_timed_out = code in (TIMED_OUT, _KILLED, -9) and seconds >= command.timeout
        if code in (125, 126, 127, 255) and self.init_pid(container) is None:
            words = stderr.decode("utf-8", "replace").strip()[-500:]
            remedy = "it was ended or reached its lifetime: launch it again"
            raise TwinError("twin_gone", f"the container {container} does not run: {words}", remedy)
        return Finished(code, bytes(kept["stdout"]), stderr, is_timed_out, seconds)

    def _kill(self, container: str, command: Command, mark: str, process: Any) -> None:
        """Kill a command inside with everything it started: the end of the engine's client does not end it."""
        process.kill()
        process.wait()
        argv = [*self.exec_argv(container, command.uid, "/", {}), "/bin/sh", "-c", _KILL, mark]
        run_program(argv, timeout=20, environment=os.environ)

    def _inside(self, container: str, command: Command, mark: str) -> list[str]:
        name, _, value = mark.partition("=")
        prefix = self.exec_argv(container, command.uid, command.cwd, {**command.environment, name: value})
        argv = ["timeout", "-k", "5", f"{command.timeout:g}", *command.argv]
        return [*prefix, *(["/bin/sh", "-c", _WITH_SECRETS, "sh"] if command.secrets else []), *argv]

    def copy_in(self, container: str, archive: IO[bytes], uid: int, gid: int, target: str) -> None:
        """Unpack a tar archive in a directory inside, as a user; raises TwinError."""
        argv = [*self.exec_argv(container, uid, "/", {}, gid=gid), "tar", "-C", target, "-xf", "-"]
        process = open_process(argv, environment=os.environ, stdin=archive, stderr=PIPE)
        with process:
            _, words = process.communicate()
        if process.returncode != 0:
            said = words.decode("utf-8", "replace").strip()[-500:]
            raise TwinError("transfer_failed", f"{target}: {said}", "name a directory that the user may write to")

    def copy_out(self, container: str, script: str, uid: int, archive: IO[bytes], limit: int) -> None:
        """Write the tar archive that a shell script inside prints; raise TwinError for more than `limit` bytes."""
        argv = [*self.exec_argv(container, uid, "/", {}), "/bin/sh", "-c", script]
        process = open_process(argv, environment=os.environ, stdout=PIPE, stderr=PIPE)
        assert process.stdout is not None
        size = 0
        try:
            while data := process.stdout.read(1024 * 1024):
                size += len(data)
                if size > limit:
                    raise TwinError("too_large", f"more than {limit:,} bytes", "name less, or a smaller directory")
                archive.write(data)
            assert process.stderr is not None
            words = process.stderr.read()
            process.wait()
        finally:
            if process.poll() is None:
                process.kill()
            with process:
                pass  # waits for it, and closes its streams
        if process.returncode != 0:
            said = words.decode("utf-8", "replace").strip()[-500:] or f"exit code {process.returncode}"
            raise TwinError("transfer_failed", said, "see whether the path exists and the user may read it")


def tar_script(patterns: Sequence[str], home: str) -> str:
    """Return the shell script that prints a tar archive of everything that glob patterns find.

    `find` lets `*` match `/`, so more may come out than a pattern means: callers compare names with `matches`.
    """
    lines = []
    for pattern in patterns:
        full = absolute(pattern, home)
        fixed = full.split("*", 1)[0]
        if fixed == full:
            lines.append(f"if test -e {shlex.quote(full)} || test -L {shlex.quote(full)}; then")
            lines.append(f"  printf '%s\\0' {shlex.quote(full)}; fi")
        else:
            wanted = " -o ".join(f"-path {shlex.quote(each)}" for each in _find_patterns(full))
            lines.append(f"find {shlex.quote(fixed.rsplit('/', 1)[0] or '/')} \\( {wanted} \\) -print0")
    listing = "\n".join(lines)
    return f"cd / && {{ {listing}\n}} 2>/dev/null | tar --null --verbatim-files-from --ignore-failed-read -cf - -T -"


def absolute(path: str, home: str) -> str:
    """Return a path inside with `~` as the user's home."""
    return home + path[1:] if path == "~" or path.startswith("~/") else path


def matches(pattern: str, path: str) -> bool:
    """Return whether a glob means a path, or a directory above it: `*` stays within a name, `**` does not."""
    parts = []
    for part in pattern.rstrip("/").split("/"):
        inner = re.escape(part).replace(r"\*", "[^/]*").replace(r"\?", "[^/]")
        parts.append("(?:.+/)?" if part == "**" else f"{inner}/")
    return re.fullmatch("".join(parts).removesuffix("/") + "(?:/.*)?", path, re.DOTALL) is not None


def _find_patterns(pattern: str) -> list[str]:
    """Return what `find -path` must match for a glob: `/**/` also means no directory at all."""
    first, separator, rest = pattern.partition("/**/")
    return [pattern] if not separator else [f"{first}/*/{rest}", *_find_patterns(f"{first}/{rest}")]


def _input(command: Command) -> bytes:
    """Return what a command gets on its standard input: its secrets, and then its own input."""
    lines = [f"{name}={b64encode(os.fsencode(value)).decode()}" for name, value in command.secrets.items()]
    return ("\n".join([*lines, "", ""]).encode() if lines else b"") + command.stdin


def _collect(
    process: Any, deadline: float, kept: Mapping[str, bytearray], output: Callable[[str, bytes], None] | None
) -> bool:
    """Read until a process ends, whoever else has its streams open; return whether it ended before the deadline."""

    def read(name: str, number: int) -> bool:
        try:
            data = os.read(number, 65536)
        except BlockingIOError:
            return False
        if data and output is not None:
            output(name, data)
        elif data:
            kept[name].extend(data)
            if len(kept[name]) > 2 * OUTPUT_LIMIT:
                del kept[name][:-OUTPUT_LIMIT]
        return bool(data)

    ended = os.pidfd_open(process.pid)
    streams = {"stdout": process.stdout.fileno(), "stderr": process.stderr.fileno()}
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(ended, selectors.EVENT_READ, "")
            for name, number in streams.items():
                os.set_blocking(number, False)
                selector.register(number, selectors.EVENT_READ, name)
            while (left := deadline - time.monotonic()) > 0:
                for key, _ in selector.select(left):
                    if key.data and not read(key.data, key.fd):
                        selector.unregister(key.fd)
                if process.poll() is not None:
                    for name, number in streams.items():
                        while read(name, number):
                            pass
                    return True
    finally:
        os.close(ended)
    return False

"""Start a process: the only place in the product that creates one. A test fails when a second is added.

Every start names an absolute path (`find_program` finds it), the whole environment and the folder, so that nothing is
inherited by accident.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Required, TypedDict, TypeVar, Unpack

from amplifier_kit.guard.processes.programs import Folders, host_environment

if TYPE_CHECKING:
    import asyncio
    import subprocess

    Process = subprocess.Popen[bytes]
    _Protocol = TypeVar("_Protocol", bound=asyncio.SubprocessProtocol)

#: A descriptor, a file, or one of the constants of `subprocess`; None inherits our own stream.
Stream = int | IO[bytes] | None

#: The constants of `subprocess`, which is slow to import.
PIPE, STDOUT, DEVNULL = -1, -2, -3
#: Bytes of a socket path that every system accepts.
_LONGEST_SOCKET_PATH: Final = 100


class ProcessOptions(TypedDict, total=False):
    """How to start a process."""

    #: All variables. Those that would load code from untrusted folders are dropped (`host_environment`).
    environment: Required[Mapping[str, str]]
    #: Keep these variables too: the environment was made for this command.
    is_environment_final: bool
    #: Programs take settings, plugins and modules from their folder, so any other than `/` needs a reason in `because`.
    cwd: str | os.PathLike[str]
    because: str
    stdin: Stream
    stdout: Stream
    stderr: Stream
    pass_fds: Sequence[int]
    #: Folders that commands can write to; by default the one that this process works in.
    untrusted: Folders | None
    #: Let the program use our terminal; by default it gets a new session, without one.
    has_terminal: bool


def open_process(argv: Sequence[str], **options: Unpack[ProcessOptions]) -> Process:
    """Start a program by its absolute path; the caller waits for it or kills it. Streams are DEVNULL by default.

    Raises OSError when it cannot be started, ValueError for options that break the rules above, and TypeError for
    unknown options.
    """
    import subprocess

    return subprocess.Popen(list(argv), **_popen_arguments(argv, options))


async def open_process_with_protocol(
    make_protocol: Callable[[], _Protocol], argv: Sequence[str], **options: Unpack[ProcessOptions]
) -> tuple[asyncio.SubprocessTransport, _Protocol]:
    """Start a program as `open_process` does, with an asyncio protocol; output streams are pipes by default."""
    import asyncio

    arguments = _popen_arguments(argv, {"stdout": PIPE, "stderr": PIPE, **options})
    return await asyncio.get_running_loop().subprocess_exec(make_protocol, *argv, **arguments)


def _popen_arguments(argv: Sequence[str], options: ProcessOptions) -> dict[str, Any]:
    if unknown := options.keys() - ProcessOptions.__annotations__.keys():
        raise TypeError(f"unknown options to start a process: {', '.join(sorted(unknown))}")
    cwd = os.fspath(options.get("cwd", os.sep))
    if not argv or not os.path.isabs(argv[0]):
        raise ValueError(f"a program is started by its absolute path, not as {argv[0] if argv else ''!r}")
    if cwd != os.sep and not options.get("because"):
        raise ValueError(f"running {argv[0]} in {cwd} needs a reason")
    if not os.path.isabs(cwd):
        raise ValueError(f"a program is started in an absolute folder, not in {cwd!r}")
    environment = options["environment"]
    if not options.get("is_environment_final"):
        environment = host_environment(environment, options.get("untrusted"))
    return {
        **{name: options.get(name, DEVNULL) for name in ("stdin", "stdout", "stderr")},
        "cwd": cwd,
        "env": dict(environment),
        "close_fds": True,
        "pass_fds": tuple(options.get("pass_fds", ())),
        "start_new_session": not options.get("has_terminal"),
    }


def memory_file(content: bytes) -> int:
    """Return the descriptor of an unnamed file with this content, positioned at its beginning; raises OSError."""
    import tempfile

    has_memfd = hasattr(os, "memfd_create")
    with open(os.memfd_create("amplifier"), "w+b") if has_memfd else tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        return os.dup(file.fileno())


def make_socket_folder(prefix: str, name: str) -> Path:
    """Create a private folder for a socket `name` to talk to a process; raises OSError.

    It is in the temporary folder, or in `/tmp` where the path of the socket would be too long otherwise.
    """
    import tempfile

    folder = tempfile.mkdtemp(prefix=prefix)
    if len(os.fsencode(os.path.join(folder, name))) > _LONGEST_SOCKET_PATH:
        os.rmdir(folder)
        folder = tempfile.mkdtemp(prefix=prefix, dir="/tmp")
    return Path(folder)

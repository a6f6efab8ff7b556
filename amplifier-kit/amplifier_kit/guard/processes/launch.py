"""Start a process: the one place where this program, its libraries and its modules create another one.

Every start names a program by its absolute path (`find_program` finds one), the whole environment, and the folder it
runs in; nothing is taken over from us by accident. A test fails when a second way to start a process is added.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any, TypeVar

from amplifier_kit.guard.processes.programs import Folders, host_environment

if TYPE_CHECKING:
    import asyncio
    import subprocess

    Process = subprocess.Popen[bytes]
    _Protocol = TypeVar("_Protocol", bound=asyncio.SubprocessProtocol)

#: A descriptor, a file, or one of the constants of `subprocess`; None is our own stream.
Stream = int | IO[bytes] | None

#: The constants of `subprocess`, which takes long to import.
PIPE, STDOUT, DEVNULL = -1, -2, -3


def open_process(
    argv: Sequence[str],
    *,
    environment: Mapping[str, str],
    cwd: str | os.PathLike[str] = os.sep,
    because: str = "",
    stdin: Stream = DEVNULL,
    stdout: Stream = DEVNULL,
    stderr: Stream = DEVNULL,
    pass_fds: Sequence[int] = (),
    untrusted: Folders | None = None,
    has_terminal: bool = False,
    is_environment_final: bool = False,
) -> Process:
    """Start a program and return it; it is the caller who waits for it, or ends it.

    argv: The absolute path of the program, and its arguments.
    environment: All variables. What would load code from untrusted folders is left out (`host_environment`), unless
        `is_environment_final`: then the caller has decided about it, as for a command that somebody ordered.
    cwd: Where it runs: programs take settings, plugins and modules from there. Other folders than the root need a
        reason, in `because`: what lies there is not followed, or is the caller's own.
    untrusted: Folders that commands can write; the one that this process works in, unless they are given.
    has_terminal: Whether it takes our place at the terminal; otherwise it gets a session of its own, without one.

    Raises OSError when it cannot be started, and ValueError for a call that does not keep the rules above.
    """
    import subprocess

    options = _options(argv, environment, cwd, because, pass_fds, untrusted, has_terminal, is_environment_final)
    return subprocess.Popen(list(argv), stdin=stdin, stdout=stdout, stderr=stderr, **options)


async def open_process_with_protocol(
    make_protocol: Callable[[], _Protocol],
    argv: Sequence[str],
    *,
    environment: Mapping[str, str],
    cwd: str | os.PathLike[str] = os.sep,
    because: str = "",
    stdin: Stream = DEVNULL,
    stdout: Stream = PIPE,
    stderr: Stream = PIPE,
    pass_fds: Sequence[int] = (),
    untrusted: Folders | None = None,
    has_terminal: bool = False,
) -> tuple[asyncio.SubprocessTransport, _Protocol]:
    """Start a program as `open_process` does, for an event loop that reads its output."""
    import asyncio

    options = _options(argv, environment, cwd, because, pass_fds, untrusted, has_terminal, False)
    loop = asyncio.get_running_loop()
    return await loop.subprocess_exec(make_protocol, *argv, stdin=stdin, stdout=stdout, stderr=stderr, **options)


def _options(
    argv: Sequence[str],
    environment: Mapping[str, str],
    cwd: str | os.PathLike[str],
    because: str,
    pass_fds: Sequence[int],
    untrusted: Folders | None,
    has_terminal: bool,
    is_environment_final: bool,
) -> dict[str, Any]:
    if not argv or not os.path.isabs(argv[0]):
        raise ValueError(f"a program is started by its absolute path, not as {argv[0] if argv else ''!r}")
    if os.fspath(cwd) != os.sep and not because:
        raise ValueError(f"running {argv[0]} in {os.fspath(cwd)} needs a reason")
    if not os.path.isabs(cwd):
        raise ValueError(f"a program is started in an absolute folder, not in {os.fspath(cwd)!r}")
    return {
        "cwd": os.fspath(cwd),
        "env": dict(environment) if is_environment_final else host_environment(environment, untrusted),
        "close_fds": True,
        "pass_fds": tuple(pass_fds),
        "start_new_session": not has_terminal,
    }

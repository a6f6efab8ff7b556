"""Find bubblewrap, build its arguments, and try whether it works on this machine."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence
from typing import Final

from amplifier_kit.guard.processes.command import CommandTimeoutError, run_program
from amplifier_kit.guard.processes.programs import find_program
from amplifier_kit.guard.sandbox.system_paths import interpreter

#: Seconds for the trial; a program that hangs must not delay a session for longer.
TRIAL_SECONDS: Final = 5.0
_PROGRAM: Final = "bwrap"
_NAMESPACES: Final = ("user", "mnt", "pid", "net", "ipc", "uts")
#: All privileges are dropped: root could use them to make the system writable again from inside.
_ISOLATION: Final = (
    "--unshare-all",
    "--unshare-user",
    "--disable-userns",
    "--cap-drop",
    "ALL",
    "--die-with-parent",
    "--new-session",
)
#: Prints where it runs, one name a line.
_LOOK: Final = f"import os\nfor name in {_NAMESPACES!r}: print(os.readlink('/proc/self/ns/' + name))"

#: Of `/proc`: full of them, or with more of them as modules of the kernel are loaded.
_ALWAYS: Final = frozenset(("/proc/sys", "/proc/fs", "/proc/driver", "/proc/scsi", "/proc/sysrq-trigger"))

_covered: list[str] | None = None
_tried: dict[tuple[object, ...], str] = {}
_trying: Final = threading.Lock()


def find(path: str, roots: Sequence[str]) -> str | None:
    """Return the program, from a folder of PATH that commands cannot write to: one they had put there would be run.

    `roots` are the folders that they can write.
    """
    program = find_program(_PROGRAM, path, roots)
    return os.path.realpath(program) if program is not None else None


def arguments(program: str, *, network: bool, view: Sequence[str]) -> list[str]:
    """Return the command line up to the command; its environment is that of bubblewrap itself.

    Variables are not passed as arguments, which every user of the machine can read.
    """
    shared = ["--share-net"] if network else []
    return [program, *_ISOLATION, *shared, "--proc", "/proc", *_switches(), "--dev", "/dev", *view, "--"]


def _switches() -> list[str]:
    """Return the arguments that make read-only what of `/proc` belongs to the kernel rather than to a process.

    To root it is writable, also without any privileges and in a user namespace: what is written to
    `/proc/sys/kernel/core_pattern` is run outside, by root. Others can write to little of it.
    """
    global _covered
    if _covered is None:
        with os.scandir("/proc") as entries:
            names = [entry.name for entry in entries if not entry.name.isdigit() and not entry.is_symlink()]
        _covered = [path for name in sorted(names) if _has_switches(path := f"/proc/{name}")]
    return [argument for path in _covered for argument in ("--ro-bind", path, path)]


def _has_switches(path: str) -> bool:
    """Tell whether something at a path or below may be writable for this user; what cannot be seen may be."""
    is_root = os.geteuid() == 0
    if path == "/proc/sys" or (is_root and path in _ALWAYS):
        return os.path.exists(path)
    bits = 0o222 if is_root else 0o022
    try:
        if not os.path.isdir(path):
            return bool(os.stat(path).st_mode & bits)
        return any(
            os.lstat(os.path.join(folder, name)).st_mode & bits for folder, _, files in os.walk(path) for name in files
        )
    except OSError:
        return True


def unusable_reason(program: str, view: Sequence[str]) -> str:
    """Return why commands cannot run in the sandbox, empty when they can; blocks for up to TRIAL_SECONDS.

    Tried once per process and program, with a command that checks its own namespaces: missing isolation is detected.
    """
    try:
        status = os.stat(program)
    except OSError as error:
        return f"{program} cannot be started: {error.strerror}"
    key = (program, status.st_ino, status.st_mtime_ns, os.geteuid())
    with _trying:
        if key not in _tried:
            _tried[key] = _trial(program, view)
        return _tried[key]


def _trial(program: str, view: Sequence[str]) -> str:
    if not sys.platform.startswith("linux"):
        return f"bubblewrap is for Linux, this is {sys.platform}"
    command = [*arguments(program, network=False, view=view), interpreter(), "-I", "-S", "-c", _LOOK]
    environment = {"PATH": "/usr/bin:/bin"}
    try:
        done = run_program(command, timeout=TRIAL_SECONDS, environment=environment, is_split=True)
    except OSError as error:
        return f"{program} cannot be started: {error.strerror}"
    except CommandTimeoutError:
        return f"{program} did not start a command within {TRIAL_SECONDS:g} s"
    if done.returncode:
        return f"{program} cannot start a command: {_first_line(done.stderr) or f'exit code {done.returncode}'}"
    inside = done.stdout.decode("utf-8", "replace").split()
    outside = [os.readlink(f"/proc/self/ns/{name}") for name in _NAMESPACES]
    if len(inside) != len(outside):
        return f"{program} does not run what it is given"
    shared = [name for name, one, other in zip(_NAMESPACES, inside, outside, strict=True) if one == other]
    return f"{program} does not separate: {', '.join(shared)}" if shared else ""


def _first_line(text: bytes) -> str:
    lines = text.decode("utf-8", "replace").strip().splitlines()
    return lines[0][:300] if lines else ""

"""Find bubblewrap, build its arguments, and test whether it works on this machine."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence
from typing import Final

from amplifier_kit.guard.processes.launch import CommandTimeoutError, run_program
from amplifier_kit.guard.processes.programs import find_program
from amplifier_kit.guard.sandbox.system_paths import interpreter

#: Seconds for the trial run; a program that hangs must not delay a session for longer.
TRIAL_SECONDS: Final = 5.0
_NAMESPACES: Final = ("user", "mnt", "pid", "net", "ipc", "uts")
#: All capabilities are dropped: root could use them to remount the system writable from inside.
_ISOLATION: Final = (
    *("--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL", "--die-with-parent", "--new-session"),
)
_PRINT_NAMESPACES: Final = f"import os\nfor name in {_NAMESPACES!r}: print(os.readlink('/proc/self/ns/' + name))"
#: Folders and files of `/proc` that root can use to change the kernel, now or when another kernel module is loaded.
_KERNEL_CONTROLS: Final = frozenset(("/proc/sys", "/proc/fs", "/proc/driver", "/proc/scsi", "/proc/sysrq-trigger"))

_read_only_proc: list[str] | None = None
_trials: dict[tuple[object, ...], str] = {}
_trial_lock: Final = threading.Lock()


def find(path: str, roots: Sequence[str]) -> str | None:
    """Return bubblewrap from a folder of PATH outside of `roots`, where commands can write and plant another."""
    program = find_program("bwrap", path, roots)
    return os.path.realpath(program) if program is not None else None


def arguments(program: str, *, network: bool, mounts: Sequence[str]) -> list[str]:
    """Return the command line up to the command, which inherits the environment of bubblewrap.

    Variables are not passed as arguments, which every user of the machine can read.
    """
    shared = ["--share-net"] if network else []
    return [program, *_ISOLATION, *shared, "--proc", "/proc", *_proc_mounts(), "--dev", "/dev", *mounts, "--"]


def _proc_mounts() -> list[str]:
    """Return the arguments that mount the kernel's own part of `/proc` read-only.

    Root can write to it without capabilities and in a user namespace: a program that is written to
    `/proc/sys/kernel/core_pattern` runs outside, as root. Other users can write to little of it.
    """
    global _read_only_proc
    if _read_only_proc is None:
        with os.scandir("/proc") as entries:
            names = [entry.name for entry in entries if not entry.name.isdigit() and not entry.is_symlink()]
        _read_only_proc = [path for name in sorted(names) if _is_writable(path := f"/proc/{name}")]
    return [argument for path in _read_only_proc for argument in ("--ro-bind", path, path)]


def _is_writable(path: str) -> bool:
    """Return whether this user may be able to write something at or below a path; yes if it cannot be seen."""
    is_root = os.geteuid() == 0
    if path == "/proc/sys" or (is_root and path in _KERNEL_CONTROLS):
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


def unusable_reason(program: str, mounts: Sequence[str]) -> str:
    """Return why commands cannot run in the sandbox, empty when they can; blocks for up to TRIAL_SECONDS.

    Tried once per process and program, with a command that prints its namespaces, so that missing isolation is found.
    """
    try:
        status = os.stat(program)
    except OSError as error:
        return f"{program} cannot be started: {error.strerror}"
    key = (program, status.st_ino, status.st_mtime_ns, os.geteuid())
    with _trial_lock:
        if key not in _trials:
            _trials[key] = _try(program, mounts)
        return _trials[key]


def _try(program: str, mounts: Sequence[str]) -> str:
    if not sys.platform.startswith("linux"):
        return f"bubblewrap is for Linux, this is {sys.platform}"
    command = [*arguments(program, network=False, mounts=mounts), interpreter(), "-I", "-S", "-c", _PRINT_NAMESPACES]
    environment = {"PATH": "/usr/bin:/bin"}
    try:
        done = run_program(command, timeout=TRIAL_SECONDS, environment=environment, is_split=True)
    except OSError as error:
        return f"{program} cannot be started: {error.strerror}"
    except CommandTimeoutError:
        return f"{program} did not start a command within {TRIAL_SECONDS:g} s"
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        return f"{program} cannot start a command: {lines[0][:300] if lines else f'exit code {done.returncode}'}"
    inside = done.stdout.decode("utf-8", "replace").split()
    outside = [os.readlink(f"/proc/self/ns/{name}") for name in _NAMESPACES]
    if len(inside) != len(outside):
        return f"{program} does not run the given command"
    shared = [name for name, one, other in zip(_NAMESPACES, inside, outside, strict=True) if one == other]
    return f"{program} does not isolate: {', '.join(shared)}" if shared else ""

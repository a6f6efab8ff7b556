"""Find and end the processes of a command whose supervisor cannot do it any more."""

from __future__ import annotations

import os
import signal
import time
from typing import Final

from amplifier_kit.guard.processes.supervisor import descendants

#: In the environment of every process of a command: a number of its own. Few programs start others without it.
MARK: Final = "AMPLIFIER_COMMAND_ID"
_PASS: Final = 0.02


def marked(mark: str) -> list[int]:
    """Return the processes that carry a command's number and have not ended."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                is_marked = wanted in file.read().split(b"\0")
        except OSError:
            continue  # ended meanwhile, or somebody else's
        if is_marked:
            found.append(int(name))
    return found


def sweep(mark: str, supervisor: int | None, patience: float) -> list[int]:
    """Kill what carries the number and what is below the supervisor, which is killed last; return what is left.

    `supervisor` is None when it has ended: its number may be somebody else's by now. Blocks for up to `patience`
    seconds.
    """
    until = time.monotonic() + patience
    while True:
        below = descendants(supervisor) if supervisor is not None else []
        found = sorted({*marked(mark), *below} - {supervisor})
        if not found or time.monotonic() >= until:
            break
        for pid in found:
            _kill(pid)
        time.sleep(_PASS)
    if supervisor is not None:
        _kill(supervisor)
    return found


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        pass  # ended meanwhile, or not ours to end: then it is found again

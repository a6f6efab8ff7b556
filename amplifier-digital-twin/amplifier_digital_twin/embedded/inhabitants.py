"""The processes of a pid namespace, seen from outside it."""

from __future__ import annotations

import os
import signal
from typing import Final

#: How often the list is read again while it still has somebody new.
_ROUNDS: Final = 200


def inhabitants(first: int) -> list[int]:
    """Return the processes in the pid namespace of `first`, as the host numbers them, without it and its children."""
    try:
        namespace = os.readlink(f"/proc/{first}/ns/pid")
    except OSError:
        return []
    return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _is_in(pid, namespace)]


def _is_in(pid: int, namespace: str) -> bool:
    try:
        return os.readlink(f"/proc/{pid}/ns/pid") == namespace
    except OSError:
        return False  # it has ended, or is not ours


def end_inhabitants(first: int, spared: frozenset[int]) -> int:
    """Kill all processes in the pid namespace of `first` but it and those spared; return how many there were."""
    killed: set[int] = set()
    for _ in range(_ROUNDS):
        new = [pid for pid in inhabitants(first) if pid != first and pid not in spared and pid not in killed]
        if not new:
            break
        for pid in new:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass  # it has ended meanwhile
            killed.add(pid)
    return len(killed)

"""The processes that came from one, found in the host's process table and ended. Standard library only."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import NamedTuple

#: How long processes are chased before that is given up.
_PATIENCE = 10.0
_DEAD = frozenset("ZX")


class Process(NamedTuple):
    """A line of the process table."""

    pid: int
    parent: int
    state: str
    #: In ticks since the machine started; with the pid, it names a process for good.
    started: int


def read_process(pid: int) -> Process | None:
    """Read one line of the table; None when there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            line = file.read()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    # The name in brackets may hold anything, brackets and spaces included.
    words = line[line.rindex(b")") + 2 :].split()
    return Process(pid, int(words[1]), words[0].decode("ascii"), int(words[19]))


def read_table() -> dict[int, Process]:
    """Read every process that can be seen."""
    found = (read_process(int(name)) for name in os.listdir("/proc") if name.isdecimal())
    return {process.pid: process for process in found if process is not None}


def descendants(table: dict[int, Process], root: int) -> list[Process]:
    """Return the living processes below one, the root itself left out."""
    children: dict[int, list[Process]] = {}
    for process in table.values():
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    waiting = [root]
    while waiting:
        below = children.get(waiting.pop(), [])
        found.extend(below)
        waiting.extend(process.pid for process in below)
    return [process for process in found if process.state not in _DEAD]


def namespace_init(pid: int) -> int | None:
    """Return the first process of the pid namespace that a process lives in, as the host numbers it."""
    seen = pid
    while seen > 0:
        try:
            with open(f"/proc/{seen}/status", encoding="utf-8", errors="replace") as lines:
                words = next(line for line in lines if line.startswith("NSpid:")).split()
        except (OSError, StopIteration):
            return None
        if words[-1] == "1":
            return seen
        process = read_process(seen)
        if process is None:
            return None
        seen = process.parent
    return None


def orphans(table: dict[int, Process], init: int, since: int) -> list[Process]:
    """Return what lives below a namespace's first process and began no earlier than `since`.

    Used when the process that would have adopted a command's orphans was itself killed: what a command left is then
    told from what was there before only by its age. Other commands' processes have a parent outside the namespace.
    """
    return [process for process in descendants(table, init) if process.started >= since]


def end_all(find: Callable[[dict[int, Process]], list[Process]]) -> bool:
    """End every process that `find` names, and those they start meanwhile; tell whether all are gone.

    They are stopped first, all of them: a stopped process starts no other, and keeps its place under a limit, so
    that something which forks faster than it can be killed comes to an end.
    """
    deadline = time.monotonic() + _PATIENCE
    stopped: set[tuple[int, int]] = set()
    while time.monotonic() < deadline:
        fresh = [process for process in find(read_table()) if (process.pid, process.started) not in stopped]
        if not fresh:
            break
        for process in fresh:
            send_signal(process, signal.SIGSTOP)
            stopped.add((process.pid, process.started))
    while True:
        left = find(read_table())
        if not left:
            return True
        if time.monotonic() > deadline + _PATIENCE:
            return False
        for process in left:
            send_signal(process, signal.SIGKILL)
        time.sleep(0.002)


def send_signal(process: Process, number: signal.Signals) -> None:
    """Signal exactly this process, not another that got its number; nothing happens when it is gone."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    try:
        current = read_process(process.pid)
        if current is not None and current.started == process.started:
            signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        return
    finally:
        os.close(descriptor)

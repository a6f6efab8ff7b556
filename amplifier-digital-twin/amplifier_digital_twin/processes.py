"""Processes of the host that serve one universe: started, recognised, and ended with everything they started."""

from __future__ import annotations

import json
import os
import selectors
import signal
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from amplifier_digital_twin.errors import TwinError
from amplifier_kit.guard.processes.launch import PIPE, open_process

START_SECONDS: Final = 120.0
POLL_SECONDS: Final = 0.02
_END_SECONDS: Final = 3.0
#: Keeps what was started: an object that is dropped while its process runs is reported as a leak.
_started: list[Any] = []


class ProcessIdentity(BaseModel):
    """A process that cannot be mistaken for a later one of the same number."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    pid: int
    #: Field 22 of `/proc/PID/stat`.
    start_time: int

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity:
        """Return the identity of a running process; raises ProcessLookupError."""
        found = _start_time(pid)
        if found is None:
            raise ProcessLookupError(pid)
        return cls(pid=pid, start_time=found)

    def is_running(self) -> bool:
        """Return whether the process still runs; a zombie does not."""
        return _start_time(self.pid) == self.start_time


def _start_time(pid: int) -> int | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def start_process(module: str, config: Path, log: Path, started: Callable[[ProcessIdentity], object]) -> dict[str, Any]:
    """Start `python -m MODULE CONFIG`, and return the JSON line it prints when it serves.

    `started` is called with its identity at once, so that it can be ended whatever happens. Raises TwinError when the
    process reports an error, or ends, or takes too long.
    """
    with open(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600), "ab") as stream:
        argv = [sys.executable, "-m", module, str(config)]
        process = open_process(argv, environment=os.environ, stdout=PIPE, stderr=stream)
    _started.append(process)
    started(ProcessIdentity.of(process.pid))
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector, process.stdout as stdout:
        selector.register(stdout, selectors.EVENT_READ)
        line = stdout.readline() if selector.select(START_SECONDS) else b""
    try:
        answer: dict[str, Any] = json.loads(line)
    except ValueError:
        words = log.read_text(encoding="utf-8", errors="replace")[-1500:].strip()
        said = f"{module} did not start: {words or 'it printed nothing'}"
        raise TwinError("services_failed", said, "this is a bug of the program: report it with this text") from None
    if error := answer.get("error"):
        raise TwinError(error["code"], error["message"], error["remedy"])
    return answer


def processes_of(folder: Path) -> list[ProcessIdentity]:
    """Return the processes that serve the universe of a directory, also those that nothing recorded before a kill.

    They are the services of its config, and what those run on files of their own directory.
    """
    found: list[ProcessIdentity] = []
    prefix = os.fsencode(folder) + b"/"
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
            is_module = words[1:2] == [b"-m"] and words[2].startswith(b"amplifier_digital_twin.")
            if (is_module and words[3].startswith(prefix)) or any(prefix + b"services/" in word for word in words):
                found.append(ProcessIdentity.of(int(path.parent.name)))
        except (OSError, IndexError):
            pass  # it has ended, or is another user's
    return found


def end_processes(processes: Iterable[ProcessIdentity]) -> list[ProcessIdentity]:
    """End processes, by force if need be; return those that still run."""
    left = [process for process in processes if process.is_running()]
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in left:
            try:
                os.kill(process.pid, number)
            except ProcessLookupError:
                pass  # it has just ended
        end = time.monotonic() + _END_SECONDS
        while left and time.monotonic() < end:
            for process in left:
                try:
                    os.waitpid(process.pid, os.WNOHANG)
                except ChildProcessError:
                    pass  # another process started it
            left = [process for process in left if process.is_running()]
            time.sleep(POLL_SECONDS if left else 0)
    return left

"""The processes of the host that serve one universe: the services (index, git, proxy), and its port forwards."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.services.config import ProcessIdentity, Served, ServicesConfig
from amplifier_kit.guard.processes.launch import PIPE, open_process

#: Keeps what was started: an object that is dropped while its process runs is reported as a leak.
_started: list[Any] = []
_START_SECONDS: Final = 120.0
_POLL: Final = 0.02
_END_SECONDS: Final = 3.0


def start_process(
    module: str, config: Path, log: Path, started: Callable[[ProcessIdentity], None]
) -> Callable[[], dict[str, Any]]:
    """Start `python -m MODULE CONFIG`; return a function that waits for the JSON line it prints when it serves.

    `started` is called with its identity at once, so that it can be ended whatever happens. Waiting raises TwinError
    when the process reports an error, or ends, or takes too long.
    """
    with open(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600), "ab") as stream:
        process = open_process(
            [sys.executable, "-m", module, str(config)], environment=os.environ, stdout=PIPE, stderr=stream
        )
    _started.append(process)
    started(ProcessIdentity.of(process.pid))

    def wait() -> dict[str, Any]:
        import selectors

        assert process.stdout is not None
        with selectors.DefaultSelector() as selector, process.stdout as stdout:
            selector.register(stdout, selectors.EVENT_READ)
            line = stdout.readline() if selector.select(_START_SECONDS) else b""
        try:
            answer: dict[str, Any] = json.loads(line)
        except ValueError:
            words = log.read_text(encoding="utf-8", errors="replace")[-1500:]
            said = f"{module} did not start: {words.strip() or 'it printed nothing'}"
            raise TwinError("services_failed", said, "this is a bug of the program: report it with this text") from None
        if error := answer.get("error"):
            raise TwinError(error["code"], error["message"], error["remedy"])
        return answer

    return wait


def reload_services(config: ServicesConfig, path: Path, process: ProcessIdentity) -> Served:
    """Let the services read a config with a higher revision, and return what they serve then. Raises TwinError."""
    config.save(path)
    if not process.is_running():
        raise TwinError("services_failed", "the services of the universe have ended", "launch it again; see `logs`")
    os.kill(process.pid, signal.SIGHUP)
    end = time.monotonic() + _START_SECONDS
    while (served := Served.load(config)).revision < config.revision:
        if time.monotonic() > end or not process.is_running():
            raise TwinError("services_failed", "the services did not take their new config", "see `logs`")
        time.sleep(_POLL)
    if served.error is not None:
        raise TwinError(served.error["code"], served.error["message"], served.error["remedy"])
    return served


def processes_of(folder: Path) -> list[ProcessIdentity]:
    """Return the processes that serve the universe of a directory, also those that nothing recorded before a kill.

    They are the services and forwards of its configs, and what the services run on files of their own directory.
    """
    found: list[ProcessIdentity] = []
    prefix = os.fsencode(folder) + b"/"
    own = prefix + b"services/"
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
            is_module = words[1:2] == [b"-m"] and words[2].startswith(b"amplifier_digital_twin.")
            if (is_module and words[3].startswith(prefix)) or any(own in word for word in words):
                found.append(ProcessIdentity.of(int(path.parent.name)))
        except (OSError, IndexError):
            pass  # it has ended, or is another user's
    return found


def end_processes(processes: Iterable[ProcessIdentity]) -> Sequence[ProcessIdentity]:
    """End processes, by force if need be; return those that still run."""
    left = [process for process in processes if process.is_running()]
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in left:
            _send(process, number)
        end = time.monotonic() + _END_SECONDS
        while left and time.monotonic() < end:
            for process in left:
                _reap(process.pid)
            left = [process for process in left if process.is_running()]
            time.sleep(_POLL if left else 0)
    return left


def _send(process: ProcessIdentity, number: signal.Signals) -> None:
    try:
        os.kill(process.pid, number)
    except ProcessLookupError:
        pass  # it has just ended


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass  # another process started it

"""Run one command and end every process that it started: a standalone program, started by `running_command`.

It is a subreaper, so that orphans become its children: a command cannot leave a process behind by changing its process
group, its session or its parent. It imports nothing else of the kit, so that it starts quickly.

Arguments: the descriptor of a file with folder and argv, each part terminated by a null byte; the descriptor of the
report pipe; `keep` or `end`, for processes that outlive the command; three times in seconds: how long those get to exit
on their own, the grace period between SIGTERM and SIGKILL, and how long to wait for SIGKILL to take effect.
Standard input is a pipe from the caller. When it is closed, by `stop` or because the caller has died, everything is
stopped. Standard output and error are the command's.

Reports, one a line: `no-subreaper`, `started PID`, `failed STEP ERRNO`, `ended CODE` (negative: the signal),
`leftovers COUNT` (processes that outlived the command and are stopped now), `alive PID...` (after SIGKILL), `done`.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import sys
import time

# Type checkers treat this as typing.TYPE_CHECKING; importing typing would take longer than all the rest.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Final

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
#: `ps`, for systems without `/proc`.
_PS: Final = ("/bin/ps", "/usr/bin/ps")
#: Seconds between two searches for processes that were started while the others are being stopped.
_SEARCH_INTERVAL: Final = 0.02

_RUN, _LINGER, _TERMINATE, _KILL = range(4)


def prctl(option: int, value: int) -> bool:
    """Set an attribute of this process; return False where the system does not support it."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        import ctypes

        return bool(ctypes.CDLL(None).prctl(option, value, 0, 0, 0) == 0)
    except (ImportError, OSError, AttributeError):
        return False


def descendants(root: int) -> list[int]:
    """Return the running processes below a process, parents first."""
    return [pid for pid in running([root]) if pid != root]


def running(roots: Iterable[int]) -> list[int]:
    """Return those of some processes that run, and the running processes below them, parents first."""
    children: dict[int, list[int]] = {}
    alive: set[int] = set()
    for pid, parent, is_zombie in _read_proc() if os.path.isdir("/proc/self") else _read_ps():
        children.setdefault(parent, []).append(pid)
        if not is_zombie:
            alive.add(pid)
    found: list[int] = []
    pending = list(roots)
    while pending:
        pid = pending.pop()
        pending += children.pop(pid, ())
        if pid in alive:
            alive.remove(pid)
            found.append(pid)
    return found


def _read_proc() -> list[tuple[int, int, bool]]:
    rows = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                state, parent = file.read().rpartition(b")")[2].split()[:2]
        except (OSError, ValueError):
            continue  # it has exited meanwhile
        rows.append((int(name), int(parent), state in (b"Z", b"X")))
    return rows


def _read_ps() -> list[tuple[int, int, bool]]:
    import subprocess

    # By absolute path and with a fixed folder and environment, so that a command cannot plant another `ps`.
    program = next((path for path in _PS if os.path.exists(path)), _PS[0])
    command = [program, "-A", "-o", "pid=,ppid=,stat="]
    try:
        text = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, cwd="/", env={"LC_ALL": "C"}, timeout=5
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    rows = [line.split() for line in text.splitlines()]
    return [(int(row[0]), int(row[1]), row[2].startswith(b"Z")) for row in rows if len(row) >= 3]


class Supervisor:
    """Runs one command and stops its descendants in stages: run, linger, terminate, kill."""

    def __init__(self, report: int, keeps_background: bool, linger: float, grace: float, kill_wait: float) -> None:
        self._report_pipe = report
        self._keeps_background = keeps_background
        self._durations = {_LINGER: linger, _TERMINATE: grace, _KILL: kill_wait}
        self._stage = _RUN
        self._deadline: float | None = None
        self._must_stop = False
        self._terminated: set[int] = set()
        self._command = 0
        self._has_started = False
        self._has_ended = False
        self._errors, self._error_writer = os.pipe()
        self._wakeup, writer = os.pipe()
        os.set_blocking(self._wakeup, False)
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, self._on_stop_signal)
        self._is_subreaper = prctl(_PR_SET_CHILD_SUBREAPER, 1)
        if not self._is_subreaper:
            self.report("no-subreaper")

    def _on_stop_signal(self, *_: object) -> None:
        self._must_stop = True

    def report(self, text: str) -> None:
        """Send one line to the caller, who may have died."""
        try:
            os.write(self._report_pipe, f"{text}\n".encode())
        except OSError:
            self._must_stop = True

    def start(self, folder: bytes, argv: list[bytes]) -> None:
        """Start the command with empty input in a new session, which has no terminal."""
        parent = os.getpid()
        self._command = os.fork()
        if not self._command:
            _exec(folder, argv, self._error_writer, parent)
        os.close(self._error_writer)
        # Only the command holds its output streams, so that they end with it.
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 1)
        os.dup2(null, 2)

    def wait(self) -> None:
        """Return when no descendant is left, or when those that are left survive SIGKILL."""
        poll = select.poll()
        # The start is waited for here too: entering a folder of a dead network share takes forever.
        for source in (0, self._wakeup, self._errors):
            poll.register(source, select.POLLIN)
        while self._reap():
            self._advance()
            if self._stage == _KILL and self._is_stage_over():
                self.report(f"alive {' '.join(map(str, descendants(os.getpid())))}")
                return
            for source, _ in poll.poll(self._poll_timeout()):
                if source == self._wakeup:
                    os.read(source, 4096)
                    continue
                poll.unregister(source)
                if source == self._errors:
                    self._report_start()
                else:
                    self._must_stop = True
        if not self._is_subreaper and not self._keeps_background:
            self._signal(signal.SIGKILL, ())

    def _report_start(self) -> None:
        """Report once how the start went; the pipe of its errors has one, or is closed."""
        if not self._has_started:
            self._has_started = True
            error = os.read(self._errors, 100).decode()  # empty when the pipe was closed by a successful exec
            self.report(f"failed {error}" if error else f"started {self._command}")

    def _reap(self) -> bool:
        """Wait for children that have exited; return False when none is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if not pid:
                return True
            if pid == self._command:
                self._report_start()
                self._has_ended = True
                self.report(f"ended {os.waitstatus_to_exitcode(status)}")

    def _advance(self) -> None:
        """Enter the next stage when it is time, and signal the processes of the current one."""
        if self._must_stop and self._stage < _TERMINATE:
            self._enter(_TERMINATE)
        elif self._stage == _RUN and self._has_ended and not self._keeps_background:
            self._enter(_LINGER)
        elif self._stage == _LINGER and self._is_stage_over():
            self.report(f"leftovers {len(descendants(os.getpid()))}")
            self._enter(_TERMINATE)
        elif self._stage == _TERMINATE and self._is_stage_over():
            self._enter(_KILL)
        if self._stage == _TERMINATE:
            # Parents first: a shell whose command ends before it gets the signal itself would run the next one.
            new = [pid for pid in descendants(os.getpid()) if pid not in self._terminated]
            if new:
                self._terminated.update(new)
                self._signal(signal.SIGTERM, new)
                self._signal(signal.SIGCONT, new)  # a stopped process gets SIGTERM only when it continues
        elif self._stage == _KILL:
            self._signal(signal.SIGKILL, descendants(os.getpid()))

    def _enter(self, stage: int) -> None:
        self._stage = stage
        self._deadline = time.monotonic() + self._durations[stage]

    def _is_stage_over(self) -> bool:
        return self._deadline is not None and time.monotonic() >= self._deadline

    def _poll_timeout(self) -> int | None:
        """Return the milliseconds until the next step; None to wait for an event."""
        if self._deadline is None:
            return None
        left = max(0.0, self._deadline - time.monotonic())
        return int(min(left, _SEARCH_INTERVAL if self._stage >= _TERMINATE else left) * 1000) + 1

    def _signal(self, number: int, pids: Iterable[int]) -> None:
        if not self._is_subreaper:  # orphans are out of sight: the process group is the best there is
            try:
                os.killpg(self._command, number)
            except OSError:
                pass  # it is empty
        for pid in pids:
            try:
                os.kill(pid, number)
            except OSError:
                pass  # it has exited, or belongs to another user: then it is reported as alive


def _exec(folder: bytes, argv: list[bytes], errors: int, parent: int) -> None:
    """Turn this forked process into the command; never returns."""
    step = "prepare"
    try:
        os.setsid()
        # If the supervisor is killed, the command dies with it.
        if prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) and os.getppid() != parent:
            os._exit(127)
        signal.set_wakeup_fd(-1)
        for number in ("SIGPIPE", "SIGXFSZ", "SIGCHLD", "SIGTERM", "SIGHUP", "SIGINT"):
            signal.signal(getattr(signal, number), signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        step = "folder"
        os.chdir(folder)
        os.environb[b"PWD"] = folder
        step = "program"
        os.execv(argv[0], argv)
    except OSError as error:
        os.write(errors, f"{step} {error.errno}".encode())
    except BaseException:
        os.write(errors, f"{step} {errno.EIO}".encode())
    finally:
        os._exit(127)


def main(arguments: list[str]) -> None:
    """Run the command; the arguments are described above."""
    command, report = int(arguments[0]), int(arguments[1])
    os.set_inheritable(report, False)
    with open(command, "rb") as file:
        folder, *argv = file.read().split(b"\0")[:-1]
    supervisor = Supervisor(report, arguments[2] == "keep", *map(float, arguments[3:6]))
    supervisor.start(folder, argv)
    supervisor.wait()
    supervisor.report("done")
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])

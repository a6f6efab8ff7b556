"""Run one command and leave nothing of it behind: a program of its own, started by `amplifier_kit.guard.processes`.

A process may leave its group, its session and its parent, but not a subreaper above it: whatever the command starts,
and however it detaches it, stays below this program, which ends only when nothing is left there. It imports nothing of
ours, so that it starts quickly.

Arguments: number of the file with the order (folder and command, each part ended by a null byte), number of the pipe
for reports, `keep` or `end` (what to do with processes that outlive the command), and three times in seconds: for what
outlives the command to end by itself, between SIGTERM and SIGKILL, and until giving up on what SIGKILL cannot end.
Standard input is the line to whoever asked: when it closes, because everything is to end or because they are gone, all
is stopped. Standard output and error are the command's.

Reports, one a line: `weak` (not a subreaper here), `started PID`, `failed STEP ERRNO`, `ended CODE` (negative: by that
signal), `left COUNT` (stopped after the command had ended), `alive PID...` (could not be stopped), `done`.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import sys
import time

# Type checkers take this for typing's; typing itself would take longer to import than all the rest.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Final

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
#: Where `ps` is, on the systems that have no `/proc`.
_PS: Final = ("/bin/ps", "/usr/bin/ps")
#: How often signals are sent to what was started meanwhile.
_PASS: Final = 0.02

_RUNNING, _LINGERING, _TERMINATING, _KILLING = range(4)


def prctl(option: int, value: int) -> bool:
    """Set something about this process; return False where the system cannot."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        import ctypes

        return bool(ctypes.CDLL(None).prctl(option, value, 0, 0, 0) == 0)
    except (ImportError, OSError, AttributeError):
        return False


def descendants(root: int) -> list[int]:
    """Return the processes below one that have not ended, as far as the system shows them."""
    children: dict[int, list[tuple[int, bool]]] = {}
    for pid, parent, is_ended in _proc_table() if os.path.isdir("/proc/self") else _ps_table():
        children.setdefault(parent, []).append((pid, is_ended))
    found: list[int] = []
    below = [root]
    while below:
        for pid, is_ended in children.pop(below.pop(), ()):
            below.append(pid)
            if not is_ended:
                found.append(pid)
    return found


def _proc_table() -> list[tuple[int, int, bool]]:
    table = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                state, parent = file.read().rpartition(b")")[2].split()[:2]
        except (OSError, ValueError):
            continue  # ended meanwhile
        table.append((int(name), int(parent), state in (b"Z", b"X")))
    return table


def _ps_table() -> list[tuple[int, int, bool]]:
    import subprocess

    # By its path, in a folder and an environment that no command has a say in: what is called `ps` may be anybody's.
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
    """Hold one command and everything below it."""

    def __init__(self, report: int, is_kept: bool, linger: float, grace: float, patience: float) -> None:
        self._report = report
        self._is_kept = is_kept
        self._times = {_LINGERING: linger, _TERMINATING: grace, _KILLING: patience}
        self._stage = _RUNNING
        self._until: float | None = None
        self._is_told = False
        #: Who has got SIGTERM.
        self._terminated: set[int] = set()
        self._command = 0
        self._has_begun = False
        self._has_ended = False
        #: Whether what leaves the command's tree is lost from sight: then its group is all that can be held.
        self.is_weak = False
        self._complaints, self._complaint = os.pipe()
        self._wake, waker = os.pipe()
        os.set_blocking(waker, False)
        os.set_blocking(self._wake, False)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, self._tell)

    def _tell(self, *_: object) -> None:
        self._is_told = True

    def say(self, text: str) -> None:
        """Report; whoever asked may be gone."""
        try:
            os.write(self._report, f"{text}\n".encode())
        except OSError:
            self._is_told = True

    def start(self, folder: bytes, argv: list[bytes]) -> None:
        """Start the command, without input, in a session of its own that has no terminal."""
        own = os.getpid()
        self._command = os.fork()
        if not self._command:
            _become(folder, argv, self._complaint, own)
        os.close(self._complaint)
        # The command alone holds its output, so that the output ends with it.
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        os.close(nowhere)

    def stay(self) -> None:
        """Return when nothing is left below, or nothing can be done about it."""
        poll = select.poll()
        for source in (0, self._wake, self._complaints):
            poll.register(source, select.POLLIN)
        while self._reap():
            self._step()
            if self._stage == _KILLING and self._is_over():
                alive = descendants(os.getpid())
                self.say(f"alive {' '.join(map(str, alive))}")
                return
            for source, _ in poll.poll(self._wait()):
                if source == self._wake:
                    os.read(source, 4096)
                elif source == 0:
                    self._is_told = True
                    poll.unregister(0)
                else:
                    poll.unregister(source)
                    self._on_begun()
        if self.is_weak and not self._is_kept:
            self._signal(signal.SIGKILL, ())

    def _on_begun(self) -> None:
        if self._has_begun:
            return
        self._has_begun = True
        complaint = os.read(self._complaints, 100).decode()
        self.say(f"failed {complaint}" if complaint else f"started {self._command}")

    def _reap(self) -> bool:
        """Collect what has ended; return False when there is nothing below any more."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if not pid:
                return True
            if pid == self._command:
                self._on_begun()
                self._has_ended = True
                self.say(f"ended {os.waitstatus_to_exitcode(status)}")

    def _step(self) -> None:
        """Go from one stage to the next when it is time."""
        if self._is_told and self._stage < _TERMINATING:
            self._enter(_TERMINATING)
        elif self._stage == _RUNNING and self._has_ended and not self._is_kept:
            self._enter(_LINGERING)
        elif self._stage == _LINGERING and self._is_over():
            self.say(f"left {len(descendants(os.getpid()))}")
            self._enter(_TERMINATING)
        elif self._stage == _TERMINATING and self._is_over():
            self._enter(_KILLING)
        if self._stage == _TERMINATING:
            self._terminate_new()
        elif self._stage == _KILLING:
            self._signal(signal.SIGKILL, descendants(os.getpid()))

    def _terminate_new(self) -> None:
        """Send SIGTERM once to everybody, and wake those that were made to stand still."""
        # Parents first: a shell whose command ends before it hears of the end would go on with the next one.
        fresh = [pid for pid in descendants(os.getpid()) if pid not in self._terminated]
        if fresh:
            self._terminated.update(fresh)
            self._signal(signal.SIGTERM, fresh)
            self._signal(signal.SIGCONT, fresh)

    def _enter(self, stage: int) -> None:
        self._stage = stage
        self._until = time.monotonic() + self._times[stage]

    def _is_over(self) -> bool:
        return self._until is not None and time.monotonic() >= self._until

    def _wait(self) -> int | None:
        """Return the milliseconds after which to look again; None to wait for news."""
        if self._until is None:
            return None
        left = max(0.0, self._until - time.monotonic())
        return int(min(left, _PASS if self._stage >= _TERMINATING else left) * 1000) + 1

    def _signal(self, number: int, pids: Iterable[int]) -> None:
        if self.is_weak:
            try:
                os.killpg(self._command, number)
            except OSError:
                pass  # nobody is left in it
        for pid in pids:
            try:
                os.kill(pid, number)
            except OSError:
                pass  # ended meanwhile, or not ours to end: then it is reported as alive


def _become(folder: bytes, argv: list[bytes], complaint: int, parent: int) -> None:
    """Turn this fresh process into the command; never returns."""
    step = "prepare"
    try:
        os.setsid()
        # Were the supervisor killed, nobody would be left to stop the command.
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
        os.write(complaint, f"{step} {error.errno}".encode())
    except BaseException:
        os.write(complaint, f"{step} {errno.EIO}".encode())
    finally:
        os._exit(127)


def main(arguments: list[str]) -> None:
    """Do what the order says; the arguments are described above."""
    order, report = int(arguments[0]), int(arguments[1])
    os.set_inheritable(report, False)
    with open(order, "rb") as file:
        folder, *argv = file.read().split(b"\0")[:-1]
    supervisor = Supervisor(report, arguments[2] == "keep", *map(float, arguments[3:6]))
    if not prctl(_PR_SET_CHILD_SUBREAPER, 1):
        supervisor.is_weak = True
        supervisor.say("weak")
    supervisor.start(folder, argv)
    supervisor.stay()
    supervisor.say("done")
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])

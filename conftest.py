"""What all tests share: settings, processes of the program, another user, sleeping processes, folders without room."""

from __future__ import annotations

import gc
import importlib
import inspect
import json
import locale
import os
import pty
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pexpect
import ptyprocess
import pytest
from hypothesis import settings

# 25 examples of every property in the lane that every change runs, hundreds in the system lane. No deadline: it is a
# timed assertion, and machines are noisy. CI repeats the same examples every time, so that a change fails for its own
# faults; a developer's machine and the system lane explore new ones.
settings.register_profile(
    "amplifier", max_examples=25, deadline=None, derandomize=bool(os.environ.get("CI")), print_blob=True
)
settings.register_profile("deep", max_examples=300, deadline=None, print_blob=True)
settings.load_profile("amplifier")

# What the shell that starts the tests has set is not what they are about: new files get the usual modes, and terminals
# are as wide as a test makes them. Tests of other modes and widths say so.
os.umask(0o022)
for name in ("COLUMNS", "LINES"):
    os.environ.pop(name, None)
# A shell ignores signals for what it starts in the background, and processes of tests would inherit that.
for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)

ROOT = Path(__file__).parent
#: A disk of 256 KiB that only one process sees, or files of at most 100,000 bytes, for a program and its folder.
SMALL_DISK = """
import os, pathlib, subprocess, sys
folder = pathlib.Path(sys.argv[2])
files = {path.name: path.read_bytes() for path in folder.iterdir()}
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", folder], check=True)
for name, content in files.items():
    (folder / name).write_bytes(content)
os.execv(sys.executable, [sys.executable, "-c", *sys.argv[1:]])
"""
SIZE_LIMIT = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
os.execv(sys.executable, [sys.executable, "-c", *sys.argv[1:]])
"""
APART = ["unshare", "--map-root-user", "--mount"]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector out of the collection of tests, and off what lives as long as the run.

    With thousands of tests in memory every full pass takes a second, and there are many while they are collected.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.fixture(autouse=True)
def _no_secrets_of_other_tests() -> None:
    """Let what one test made known as a secret be masked in no other one."""
    process = sys.modules.get("amplifier_kit.guard.redaction.redactor")
    if process is not None:
        process.secret_sources.clear()
        process._known.clear()
        process._key_names.clear()
        process._redactor = None  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def _no_modules_of_other_tests() -> Iterator[None]:
    """Forget the modules that a test imported from temporary folders: another test may have one of the same name.

    Our own modules stay, wherever the clone is: a second copy of one would not see what a test patched in the first.
    """
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        origin = getattr(sys.modules[name], "__file__", None)
        if not name.startswith("amplifier_module_") or not origin or Path(origin).is_relative_to(ROOT):
            continue
        if Path(origin).is_relative_to(tempfile.gettempdir()):
            del sys.modules[name]


class WarmPython:
    """A process that has imported the program, to fork others from; see tests/warm_python.py."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, str(ROOT / "tests" / "warm_python.py")], stdin=theirs.fileno(), start_new_session=True
            )

    def close(self) -> None:
        """End it; what was forked from it goes on."""
        self._socket.close()
        self._process.wait(60)

    def can_start(self, command: Sequence[Any], options: Mapping[str, Any]) -> bool:
        """Tell whether a fork is the same as a process: an interpreter with options and limits of its own is not."""
        known = {"cwd", "env", "stdin", "stdout", "stderr", "text", "start_new_session", "has_terminal"}
        environment = options.get("env") or os.environ
        read_at_start = {name for name in environment if name.startswith(("PYTHON", "LC_", "LANG"))}
        read_at_start -= {"PYTHONPATH", "PYTHONDONTWRITEBYTECODE"}  # these are set in a fork as well
        return (
            command[0] == sys.executable
            and command[1] in ("-m", "-c")
            and all(isinstance(word, str) for word in command)
            and not options.keys() - known
            and all(environment[name] == os.environ.get(name) for name in read_at_start)
            and locale.getpreferredencoding(False).lower() == "utf-8"
        )

    def fork(
        self,
        command: Sequence[str],
        streams: Sequence[int],
        *,
        cwd: Any,
        env: Mapping[str, str] | None,
        is_new_session: bool = False,
        has_terminal: bool = False,
    ) -> tuple[int, int]:
        """Start a process; return its id, and a descriptor that has its status when it has ended."""
        request = {
            "arguments": command[1:],
            "folder": os.path.abspath(cwd or "."),
            "environment": dict(os.environ if env is None else env),
            "is_new_session": is_new_session,
            "has_terminal": has_terminal,
        }
        report, theirs = os.pipe()
        with tempfile.TemporaryFile("w", encoding="utf-8") as order:
            json.dump(request, order)
            order.seek(0)
            socket.send_fds(self._socket, [b"!"], [order.fileno(), *streams, theirs])
        os.close(theirs)
        return int(_line(report)), report


def _line(descriptor: int) -> str:
    """Read a line and nothing of the next one."""
    line = b""
    while not line.endswith(b"\n"):
        line += (byte := os.read(descriptor, 1))
        assert byte, "the process to fork from has ended"
    return line.decode()


class ForkedProcess(subprocess.Popen[Any]):
    """A process that is forked instead of executed, and otherwise used as any other."""

    def __init__(
        self, python: WarmPython, command: Sequence[str], *, has_terminal: bool = False, **options: Any
    ) -> None:
        self._python, self._has_terminal, self._report = python, has_terminal, -1
        super().__init__(command, **options)

    def _execute_child(self, *arguments: Any) -> None:
        given = inspect.signature(super()._execute_child).bind(*arguments).arguments  # type: ignore[misc]
        streams = (given["p2cread"], given["c2pwrite"], given["errwrite"])
        self.pid, self._report = self._python.fork(
            given["args"],
            [number if own == -1 else own for number, own in enumerate(streams)],
            cwd=given["cwd"],
            env=given["env"],
            is_new_session=given["start_new_session"],
            has_terminal=self._has_terminal,
        )
        self._child_created = True
        pipes = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(given[name] for name in pipes))  # type: ignore[attr-defined]

    def _internal_poll(self, _deadstate: int | None = None) -> int | None:
        return self._ended_within(0)

    def _wait(self, timeout: float | None) -> int:
        code = self._ended_within(timeout)
        if code is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return code

    def _ended_within(self, timeout: float | None) -> int | None:
        if self.returncode is None and self._report != -1 and select.select([self._report], [], [], timeout)[0]:
            self.returncode = os.waitstatus_to_exitcode(int(_line(self._report)))
            os.close(self._report)
        return self.returncode


class ForkedTerminal(pexpect.spawn):  # type: ignore[misc]
    """A program at a terminal that is forked instead of executed."""

    def __init__(self, python: WarmPython, command: Sequence[str], **options: Any) -> None:
        self._python = python
        super().__init__(command[0], list(command[1:]), **options)

    def _spawnpty(self, args: list[str | bytes], **options: Any) -> ptyprocess.PtyProcess:
        words = [os.fsdecode(word) for word in args]
        given = {"cwd": options.get("cwd"), "env": options.get("env")}
        if not self._python.can_start(words, given):
            return super()._spawnpty(args, **options)
        leader, follower = pty.openpty()
        terminal = _Terminal(leader)
        terminal.setwinsize(*options.get("dimensions", (24, 80)))
        terminal.start(self._python, words, follower, given)
        return terminal


class _Terminal(ptyprocess.PtyProcess):  # type: ignore[misc]
    """The leading end of a terminal, and the process at its other end."""

    def __init__(self, leader: int) -> None:
        super().__init__(-1, leader)
        self.delayafterclose = 0.0

    def start(self, python: WarmPython, command: Sequence[str], follower: int, options: dict[str, Any]) -> None:
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), follower)
        given: dict[str, Any] = {**streams, **options, "start_new_session": True}
        self._process = ForkedProcess(python, command, has_terminal=True, **given)
        os.close(follower)
        self.pid = self._process.pid

    def isalive(self) -> bool:
        code = self._process.wait(60) if self.flag_eof else self._process.poll()
        if code is None:
            return True
        self.exitstatus: int | None = code if code >= 0 else None
        self.signalstatus: int | None = -code if code < 0 else None
        self.terminated = True
        return False

    def wait(self) -> int | None:
        self._process.wait()
        self.isalive()
        return self.exitstatus


@pytest.fixture(scope="session")
def warm_python() -> Iterator[WarmPython]:
    """Return a process that has imported the program, to fork others from."""
    python = WarmPython()
    yield python
    python.close()


@pytest.fixture
def popen(warm_python: WarmPython) -> Callable[..., subprocess.Popen[Any]]:
    """Return what starts Python as `subprocess.Popen` does, but soon: forked from one that has imported the program.

    What a fork cannot stand for, such as variables that the interpreter reads when it starts, is executed. Tests whose
    subject is how the interpreter starts use `subprocess`.
    """

    def start(command: Sequence[Any], **options: Any) -> subprocess.Popen[Any]:
        if warm_python.can_start(command, options):
            return ForkedProcess(warm_python, command, **options)
        assert not options.pop("has_terminal", False), "only a fork can be given a terminal"
        return subprocess.Popen(command, **options)

    return start


@pytest.fixture
def spawn(warm_python: WarmPython) -> Iterator[Callable[..., Any]]:
    """Return what starts Python at a terminal as `pexpect.spawn` does, but as `popen` does; ended with the test."""
    started: list[ForkedTerminal] = []

    def start(command: Sequence[str], **options: Any) -> Any:
        given = {"encoding": "utf-8", "timeout": 60, **options}
        started.append(ForkedTerminal(warm_python, command, **given))
        return started[-1]

    yield start
    for terminal in started:
        if not terminal.closed and terminal.isalive():
            terminal.kill(signal.SIGKILL)
            terminal.wait()
        terminal.close(force=True)


@pytest.fixture(params=["disk_full", "too_large"])
def without_room(request: pytest.FixtureRequest) -> Callable[[str, Path, Any], tuple[str, Any]]:
    """Give `without_room(program, folder, given)`: run a Python program whose folder has no room for 300,000 bytes.

    The program gets the folder, which has the files of `folder`, as its argument, and `given` as JSON on standard
    input. Returned are the code of the error that a tool has for this want of room, and the JSON that was printed.
    Skips, with the reason, where no disk can be mounted.
    """
    code: str = request.param

    def run(program: str, folder: Path, given: Any) -> tuple[str, Any]:
        command = [sys.executable, "-c", SIZE_LIMIT, program, str(folder)]
        if code == "disk_full":
            can_mount = [*APART, "mount", "-t", "tmpfs", "none", str(folder)]
            if shutil.which("unshare") is None or subprocess.run(can_mount, capture_output=True).returncode:
                pytest.skip("no disk can be mounted here")
            command = [*APART, sys.executable, "-c", SMALL_DISK, program, str(folder)]
        done = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stderr
        return code, json.loads(done.stdout)

    return run


@pytest.fixture
def as_another_user() -> Callable[..., str]:
    """Give `as_another_user(program)`: run a Python program as a user without rights and return what it prints.

    Skips, with the reason, where one cannot become another user.
    """

    def run(program: str) -> str:
        command = [sys.executable, str(ROOT / ".ci" / "as-another-user"), "-c", program]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 77:
            pytest.skip(done.stderr.strip())
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture
def make_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], Path]]:
    """Give `make_module(id, source)`: it writes an importable package `amplifier_module_<id>`, gone after the test.

    The source is dedented. Further files may be written into the folder that is returned.
    """
    root = tmp_path / "modules"
    root.mkdir()
    monkeypatch.syspath_prepend(str(root))
    names: set[str] = set()

    def make(module_id: str, source: str) -> Path:
        name = f"amplifier_module_{module_id.replace('-', '_')}"
        names.add(name)
        package = root / name
        package.mkdir()
        (package / "__init__.py").write_text(textwrap.dedent(source), encoding="utf-8")
        importlib.invalidate_caches()
        return package

    yield make
    for loaded in list(sys.modules):
        if loaded.partition(".")[0] in names:
            del sys.modules[loaded]


@pytest.fixture
def nap() -> Iterator[str]:
    """Return a command that hangs and has a unique text; what is left of it is killed after the test."""
    token = f"100000.{int.from_bytes(os.urandom(6), 'big')}"
    yield f"sleep {token}"
    for pid in _processes_with(token):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def naps(nap: str) -> Callable[[], list[int]]:
    """Give `naps()`: the processes that sleep this test's sleep, or have its seconds in their command line."""
    return lambda: _processes_with(nap.split()[1])


def _processes_with(token: str) -> list[int]:
    """Return the processes that have a text in their command line and have not ended."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = Path("/proc", name, "cmdline").read_bytes()
            state = Path("/proc", name, "stat").read_bytes().rpartition(b")")[2].split()[0]
        except OSError:
            continue
        if token.encode() in line and state != b"Z" and int(name) != os.getpid():
            found.append(int(name))
    return found


def _is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state in "ZX"  # ended, and not reaped yet


@pytest.fixture
def is_gone() -> Callable[[int], bool]:
    """Return `is_gone(pid)`: whether a process has ended, or does so within a minute."""
    return lambda pid: _until(lambda: _is_gone(pid), 60)


@pytest.fixture
def until() -> Callable[[Callable[[], bool]], bool]:
    """Return `until(condition)`: wait for a condition; False when a minute has passed."""
    return lambda is_true: _until(is_true, 60)


def _until(is_true: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not is_true():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True

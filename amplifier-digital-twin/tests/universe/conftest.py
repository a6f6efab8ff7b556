"""Real universes on the embedded backend: in this process, and through the program, as this user and as another one."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import amplifier_core
import amplifier_digital_twin
import amplifier_foundation
import amplifier_kit
from amplifier_digital_twin.making import make_universe
from amplifier_digital_twin.profile.load import load_profile
from amplifier_digital_twin.reaping import clear
from amplifier_digital_twin.recorder import Recorder
from amplifier_digital_twin.registry import Registry, Wish
from amplifier_digital_twin.universe import Universe

OTHER = 1001
_SIGNALS = (signal.SIGINT, signal.SIGHUP)
_PACKAGES = (amplifier_digital_twin, amplifier_foundation, amplifier_core, amplifier_kit)

#: A service that answers with what it was asked, and counts.
ECHO = """
import http.server, json, sys
class Echo(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    count = 0
    def do_GET(self):
        Echo.count += 1
        told = {"mark": sys.argv[2], "path": self.path, "host": self.headers["Host"], "count": Echo.count}
        body = json.dumps(told).encode() + b"\\n"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Echo).serve_forever()
"""


class Here:
    """Universes of one home, kept by this process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.registry = Registry(folder / "home" / "digital-twin")
        (folder / "echo.py").write_text(ECHO, encoding="utf-8")

    @property
    def cache(self) -> Path:
        """Return what all universes share."""
        return self.registry.cache

    @property
    def evidence(self) -> Path:
        """Return where evidence goes."""
        return self.folder / "evidence"

    def profile(self, text: str, name: str = "profile.yaml") -> Path:
        """Write a profile; `name`, `backend` and `dtu` are added."""
        path = self.folder / name
        head = f"dtu: 1\nname: {path.stem}\nbackend: embedded\n"
        path.write_text(head + textwrap.dedent(text), encoding="utf-8")
        return path

    @asynccontextmanager
    async def made(self, text: str = "", environ: dict[str, str] | None = None) -> AsyncIterator[Universe]:
        """Give a universe that is not launched; afterwards nothing of it is left."""
        path = self.profile(text)
        found = self.registry.create(Wish(None, path.stem, path, 600))
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.folder), **(environ or {})}
        recorder = Recorder(found.place.log, [value for value in (environ or {}).values() if len(value) > 20])
        try:
            request = {"profile": load_profile(str(path), {}, environ), "evidence": str(self.evidence)}
            universe = await make_universe(found.place, request, recorder, environ)
            try:
                yield universe
            finally:
                await universe.destroy()
        finally:
            await clear(found.place)
        assert not found.place.folder.exists()

    @asynccontextmanager
    async def launched(self, text: str = "", environ: dict[str, str] | None = None) -> AsyncIterator[Universe]:
        """Give a universe that is ready."""
        async with self.made(text, environ) as universe:
            await universe.launch()
            yield universe


async def said(universe: Universe, command: str, user: str | None = None) -> str:
    """Return what a command inside writes, whatever it ends with."""
    finished = await universe.exec(command, user, 60, None)
    return (finished.stdout + finished.stderr).decode()


@pytest.fixture
def here(tmp_path: Path) -> Here:
    """Return a home whose universes live in this process."""
    return Here(tmp_path)


@pytest.fixture
def say() -> Callable[..., Any]:
    """Return `said`."""
    return said


class Ended(NamedTuple):
    """How a run of the program ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def record(self) -> dict[str, Any]:
        """Return the one JSON object on standard output."""
        value = json.loads(self.stdout)
        assert isinstance(value, dict), self
        return value


class Program:
    """`amplifier-digital-twin` for one user with one home."""

    def __init__(self, folder: Path, uid: int) -> None:
        self.folder = folder
        self.uid = uid
        self.home = folder / "home"
        self.universes = self.home / "digital-twin" / "universes"
        self.environ = {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(folder),
            "AMPLIFIER_HOME": str(self.home),
            "PYTHONPATH": _import_path(),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        (folder / "echo.py").write_text(ECHO, encoding="utf-8")

    def profile(self, text: str, name: str = "profile.yaml") -> str:
        """Write a profile; `name`, `backend` and `dtu` are added."""
        path = self.folder / name
        head = f"dtu: 1\nname: {path.stem}\nbackend: embedded\n"
        path.write_text(head + textwrap.dedent(text), encoding="utf-8")
        return str(path)

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        """Start the program."""
        own = self.uid == os.geteuid()
        # The interpreter of the tests may lie where others have no way to.
        argv = [sys.executable if own else "/usr/bin/python3", "-P", "-m", "amplifier_digital_twin", *arguments]
        user = {} if own else {"user": self.uid, "group": self.uid, "extra_groups": []}
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        # Tests that a shell runs in the background ignore SIGINT, under nohup SIGHUP, and so would the program.
        heeding = {"preexec_fn": lambda: [signal.signal(one, signal.SIG_DFL) for one in _SIGNALS] and None}
        return subprocess.Popen(argv, text=True, cwd="/", env=self.environ, **{**pipes, **user, **heeding, **options})

    def run(self, *arguments: str) -> Ended:
        """Run the program to its end."""
        process = self.start(*arguments)
        stdout, stderr = process.communicate(timeout=90)
        return Ended(process.returncode, stdout, stderr)

    def launch(self, profile: str, *more: str) -> dict[str, Any]:
        """Launch a universe and return what the program says of it."""
        ended = self.run("launch", profile, *more)
        assert ended.code == 0, ended
        return ended.record

    def shell(self, universe: str, command: str) -> str:
        """Return what a command inside writes, whatever it ends with."""
        record = self.run("exec", universe, "--", command).record
        return str(record["stdout"] + record["stderr"])

    def state(self, universe: str) -> dict[str, Any]:
        """Return the state on disk."""
        value: dict[str, Any] = json.loads((self.universes / universe / "state.json").read_bytes())
        return value

    def names(self) -> list[str]:
        """Return everything in the folder of universes but the lock."""
        folder = self.universes
        return sorted(path.name for path in folder.iterdir() if path.name != ".lock") if folder.exists() else []

    def close(self) -> None:
        """End keepers that a test left."""
        for name in self.names():
            try:
                os.kill(self.state(name)["holder"]["pid"], signal.SIGKILL)
            except (OSError, ValueError, KeyError):
                pass  # it has ended
        self.run("prune", "--mine")


def _import_path() -> str:
    paths = [str(Path(str(package.__file__)).parents[1]) for package in _PACKAGES]
    return os.pathsep.join([*paths, *(path for path in sys.path if path.endswith("site-packages"))])


@functools.cache
def _why_not_another(place: str) -> str:
    """Return why another user cannot run the program with a home in a place, as in a clone below /root; or nothing."""
    program = "import os, sys; os.chdir(sys.argv[1]); import amplifier_digital_twin.program"
    tried = subprocess.run(
        ["/usr/bin/python3", "-P", "-c", program, place],
        env={"PYTHONPATH": _import_path(), "PYTHONDONTWRITEBYTECODE": "1"},
        user=OTHER,
        group=OTHER,
        extra_groups=[],
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    return tried.stderr.strip().rpartition("\n")[2] if tried.returncode else ""


def _program(who: str) -> Iterator[Program]:
    uid = os.geteuid()
    if who == "other":
        if uid != 0:
            pytest.skip("only root can run the tests as another user too; as this user they run")
        if reason := _why_not_another(tempfile.gettempdir()):
            pytest.skip(f"another user has no way to what is tested; as this user the tests run: {reason}")
        uid = OTHER
    # Not tmp_path: others have no way into pytest's own folder.
    folder = Path(tempfile.mkdtemp(prefix="universe-"))
    os.chown(folder, uid, uid)
    program = Program(folder, uid)
    try:
        yield program
        program.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["own", "other"])
def program(request: pytest.FixtureRequest) -> Iterator[Program]:
    """Return the program, for each user."""
    yield from _program(request.param)


@pytest.fixture
def own_program() -> Iterator[Program]:
    """Return the program for the user who runs the tests."""
    yield from _program("own")


@pytest.fixture
def two_programs() -> Iterator[list[Program]]:
    """Return the program for this user and for another one."""
    if os.geteuid() != 0:
        pytest.skip("only root can be two users")
    makers = [_program("own"), _program("other")]
    programs = [next(maker) for maker in makers]
    yield programs
    for maker in makers:
        next(maker, None)


@pytest.fixture
def wait_until() -> Callable[..., None]:
    """Return a way to wait for what others do in their own time; it fails when it will never be."""

    def until(condition: Callable[[], object]) -> None:
        end = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < end, "it never came to hold"
            time.sleep(0.02)

    return until


@pytest.fixture
def leftovers() -> Callable[[Path], list[str]]:
    """Return a way to name what is left of universes below a folder: processes, mounts and control groups."""

    def left(folder: Path) -> list[str]:
        text = os.fsencode(folder)
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            if entry.name == str(os.getpid()):
                continue
            try:
                seen = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
                mounts = (entry / "mountinfo").read_bytes()
            except OSError:
                continue  # it has ended
            found += [f"process {entry.name}"] * (text in seen) + [f"mount of {entry.name}"] * (text in mounts)
        return found

    return left


@pytest.fixture
async def on_loopback() -> AsyncIterator[Callable[[], Any]]:
    """Return a way to start a server on the host's loopback; it gives its port and what it was sent."""
    servers: list[asyncio.Server] = []

    async def start() -> tuple[int, list[bytes]]:
        heard: list[bytes] = []

        async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            heard.append(await reader.read(100))
            writer.write(b"HTTP/1.0 200 OK\r\n\r\nthe host answers\n")
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(hear, "127.0.0.1", 0)
        servers.append(server)
        return int(server.sockets[0].getsockname()[1]), heard

    yield start
    for server in servers:
        server.close()

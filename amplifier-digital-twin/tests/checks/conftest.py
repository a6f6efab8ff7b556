"""A stand-in for a twin: commands are processes of the host, files lie in a temporary folder."""

from __future__ import annotations

import asyncio
import glob
import os
import signal
import socket
import subprocess
import tarfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from amplifier_digital_twin.backends.twin import Finished, Run
from amplifier_digital_twin.checks.context import CheckContext
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.evidence import Evidence
from amplifier_digital_twin.profile.model import User

USER = User()


class LocalSockets:
    """The host's own loopback; what is closed says so."""

    def __init__(self) -> None:
        self.is_closed = False
        #: Where connections to other addresses than the twin's loopback go.
        self.asked: list[tuple[str, int]] = []

    async def listen(self, host: str, port: int) -> socket.socket:
        raise NotImplementedError

    async def connect(self, host: str, port: int, timeout: float) -> socket.socket:
        self.asked.append((host, port))
        return await asyncio.to_thread(socket.create_connection, (host, port), timeout)

    async def close(self) -> None:
        self.is_closed = True


class LocalTwin:
    """Paths inside start at `root`; /tmp inside is a folder there, too."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.is_running = True
        self.notes: Sequence[str] = ()
        self.made_sockets: list[LocalSockets] = []
        (self.home).mkdir(parents=True)
        (root / "tmp").mkdir()

    @property
    def home(self) -> Path:
        return self.root / "home" / "user"

    async def run(self, run: Run, sink: Any = None) -> Finished:
        if not self.is_running:
            raise TwinError("not_running", "the twin does not run", "launch it")
        begin = time.monotonic()
        process = self._started(run)
        is_timed_out = False
        work = asyncio.ensure_future(asyncio.to_thread(process.communicate))
        try:
            done, _ = await asyncio.wait({work}, timeout=run.timeout)
            is_timed_out = not done
        finally:
            if not work.done():
                os.killpg(process.pid, signal.SIGKILL)
            out, err = await work
        code = 124 if is_timed_out else process.returncode
        return Finished(code, out, err, is_timed_out, False, time.monotonic() - begin)

    def _started(self, run: Run) -> subprocess.Popen[bytes]:
        """Start a command; not in a thread, which would go on when its caller is cancelled, and leave it to nobody."""
        return subprocess.Popen(
            [word.replace("/tmp/", f"{self.root}/tmp/") for word in run.argv],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            cwd=str(self.root) + run.cwd,
            env={**run.environment, "HOME": str(self.root) + run.user.home},
            start_new_session=True,
        )

    async def get(self, paths: Sequence[str], user: User, archive: BinaryIO, max_bytes: int) -> None:
        if not self.is_running:
            raise TwinError("not_running", "the twin does not run", "launch it")
        with tarfile.open(fileobj=archive, mode="w") as members:
            for pattern in paths:
                inside = user.home + pattern[1:] if pattern.startswith("~") else pattern
                place = str(self.root) + inside
                found = glob.glob(place, recursive=True, include_hidden=True)
                if not found and os.path.lexists(place):
                    found = [place]
                if not found and not any(letter in inside for letter in "*?["):
                    raise TwinError("file_missing", f"there is no {inside!r} in the twin", "make it")
                for path in found:
                    if os.path.isfile(path) and os.path.getsize(path) > max_bytes:
                        raise TwinError("too_large", "too much", "ask for less")
                    members.add(path, arcname=os.path.relpath(path, self.root))

    async def put(self, archive: BinaryIO, user: User, folder: str) -> None:
        raise NotImplementedError

    async def sockets(self) -> LocalSockets:
        if not self.is_running:
            raise TwinError("not_running", "the twin does not run", "launch it")
        self.made_sockets.append(LocalSockets())
        return self.made_sockets[-1]

    async def snapshot(self, name: str, cache: bool = False) -> None:
        raise NotImplementedError

    async def reset(self, name: str | None = None) -> None:
        raise NotImplementedError

    async def destroy(self) -> None:
        raise NotImplementedError


def _environment(user: User) -> Mapping[str, str]:
    return {"PATH": os.environ["PATH"], "WHO": user.name}


@pytest.fixture
def environment() -> Callable[[User], Mapping[str, str]]:
    """Return what commands find in their environment."""
    return _environment


@pytest.fixture
def twin(tmp_path: Path) -> LocalTwin:
    """Make a stand-in with an empty home."""
    return LocalTwin(tmp_path / "root")


@pytest.fixture
def secret() -> str:
    """Return the value of a secret that nothing may show."""
    return 'sk-"geheim"-ü-0123456789'


@pytest.fixture
def evidence(tmp_path: Path, secret: str) -> Evidence:
    """Make an empty folder of evidence."""
    return Evidence(tmp_path / "evidence", [secret, "", "abc"])


@pytest.fixture
def context(twin: LocalTwin, evidence: Evidence) -> CheckContext:
    """Make what checks get."""
    return CheckContext(twin, USER, _environment, evidence, LocalSockets(), lambda: frozenset({"unlisted.example"}))


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        pages: dict[str, tuple[int, bytes]] = {
            "/": (200, b"<html><body><h1>Hello &amp; welcome</h1><script>var hidden = 1</script></body></html>"),
            "/json": (200, b'{"status": "ok", "parts": [1, 2, 3], "more": {"a": 1, "b": 2}}'),
            "/moved": (302, b""),
            "/big": (200, b"x" * (5 * 1024 * 1024)),
        }
        status, body = pages.get(self.path, (404, b"not here"))
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body)
        except (BrokenPipeError, ConnectionResetError):
            pass  # who asked has seen enough

    def log_message(self, format: str, *args: Any) -> None:
        pass


class _Server(ThreadingHTTPServer):
    #: Connections are closed before the test ends.
    daemon_threads = False


@pytest.fixture
def server() -> Iterator[str]:
    """Serve a few pages on loopback and return where."""
    with _Server(("127.0.0.1", 0), _Handler) as httpd:
        thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://localhost:{httpd.server_address[1]}"
        httpd.shutdown()
        thread.join()

"""Sessions with real servers, in processes of their own."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from amplifier_core import ToolResult
from amplifier_core.testing import EventRecorder, MockCoordinator, wait_for
from amplifier_module_tool_mcp import mount, on_session_ready, servers
from amplifier_module_tool_mcp.events import EVENTS

SERVERS = Path(__file__).parent / "servers"
SAMPLE: dict[str, Any] = {"command": sys.executable, "args": ["servers/sample.py", "stdio"]}
#: Nobody waits that long: a test that does has failed.
LONG = 60.0


class Session:
    """The coordinator of a session, its servers, and what was told of them."""

    def __init__(self, project: Path, home: Path) -> None:
        self.coordinator: Any = MockCoordinator()
        self.project, self.home = project, home
        self.coordinator.register_capability("session.working_dir", str(project))
        self.coordinator.register_capability("amplifier.home", home)
        self._recorder = EventRecorder()
        for event in EVENTS:
            self.coordinator.hooks.register(event, self._recorder.record)
        self._close: Any = None

    async def open(self, servers: dict[str, Any] | None = None, **config: Any) -> Session:
        """Mount the module and begin to connect."""
        self._close = await mount(self.coordinator, {"servers": servers or {}, **config})
        await on_session_ready(self.coordinator)
        return self

    async def close(self) -> None:
        """End everything; once."""
        close, self._close = self._close, None
        if close is not None:
            await close()

    @property
    def tools(self) -> dict[str, Any]:
        """Return what is mounted now."""
        return dict(self.coordinator.get("tools"))

    def connection(self, server: str = "odd") -> Any:
        """Return the connection to a server."""
        return self.coordinator.get_capability("mcp.servers").connections[server]

    def events(self, kind: str) -> list[dict[str, Any]]:
        """Return what was told under one name."""
        return [data for _, data in self._recorder.get_events(f"mcp:{kind}")]

    def everything_said(self) -> str:
        """Return all events as text."""
        return repr(self._recorder.events)

    async def told(self, kind: str, count: int = 1) -> dict[str, Any]:
        """Wait for so many events of a kind and return the last of them."""
        assert await wait_for(lambda: len(self.events(kind)) >= count, timeout=LONG), self.everything_said()
        return self.events(kind)[count - 1]

    async def call(self, name: str, **arguments: Any) -> ToolResult:
        """Call a tool of a server, waiting for it to be mounted."""
        assert await wait_for(lambda: f"mcp_{name}" in self.tools, timeout=LONG), self.everything_said()
        result: ToolResult = await self.tools[f"mcp_{name}"].execute(arguments)
        return result


MakeSession = Callable[[], Session]
MakeServer = Callable[..., dict[str, Any]]


@pytest.fixture(autouse=True)
def _no_head_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start servers at once, without giving a turn the first use of the processor."""
    monkeypatch.setattr(servers, "_HEAD_START", 0.0)
    monkeypatch.setattr(servers, "_LISTENER_WAIT", 0.0)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return the user's folder, which is not there yet."""
    return tmp_path / "home"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project that holds the programs of the servers."""
    folder = tmp_path / "my project"
    shutil.copytree(SERVERS, folder / "servers")
    return folder


@pytest.fixture
async def make_session(project: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[MakeSession]:
    """Give `make_session()`: a session in the project; its servers end with the test."""
    monkeypatch.delenv("AMPLIFIER_MCP_CONFIG", raising=False)
    made: list[Session] = []

    def make() -> Session:
        made.append(Session(project, home))
        return made[-1]

    yield make
    for session in made:
        await session.close()


@pytest.fixture
def session(make_session: MakeSession) -> Session:
    """Return a session whose servers are not named yet."""
    return make_session()


@pytest.fixture
def odd() -> MakeServer:
    """Give `odd(behaviour, *arguments, **entry)`: the entry of a server of plain Python."""

    def entry(behaviour: str = "plain", *arguments: str, **more: Any) -> dict[str, Any]:
        return {"command": sys.executable, "args": ["servers/odd.py", behaviour, *arguments], **more}

    return entry


@pytest.fixture
def sample() -> dict[str, Any]:
    """Return the entry of a server made with the official SDK."""
    return dict(SAMPLE)


@pytest.fixture
def token(nap: str) -> str:
    """Return a number of seconds that tells this test's processes from all others; `naps()` gives them."""
    return nap.split()[1]


class WebServer:
    """The sample server on a port of its own, to be started, stopped and started again."""

    def __init__(self) -> None:
        # Held without listening: nobody else is given the port before the server is there, or between two of them.
        self._held = socket.socket()
        self._held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._held.bind(("127.0.0.1", 0))
        self.port = int(self._held.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and return when it listens."""
        argv = [sys.executable, str(SERVERS / "sample.py"), str(self.port)]
        self._process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + LONG
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                assert time.monotonic() < until
                assert self._process.poll() is None
                time.sleep(0.02)

    def stop(self) -> None:
        """End it at once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def close(self) -> None:
        """End it for good."""
        self.stop()
        self._held.close()


@pytest.fixture
def web() -> Iterator[WebServer]:
    """Return a server for streamable HTTP that is not started yet."""
    made = WebServer()
    yield made
    made.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["stdio", "http"])
async def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Session]:
    """Return a session with the sample server, reached in each of both ways, for tests that change nothing in it.

    Answers are cut at 1,000 characters.
    """
    folder = tmp_path_factory.mktemp("shared")
    shutil.copytree(SERVERS, folder / "project" / "servers")
    made, web = Session(folder / "project", folder / "home"), WebServer()
    try:
        entry = SAMPLE
        if request.param == "http":
            web.start()
            entry = {"type": "http", "url": web.url}
        with pytest.MonkeyPatch.context() as patch:
            patch.delenv("AMPLIFIER_MCP_CONFIG", raising=False)
            await made.open({"s": entry}, max_content_size=1000)
        yield made
    finally:
        await made.close()
        web.close()

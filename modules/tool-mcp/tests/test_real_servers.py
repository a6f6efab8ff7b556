"""Six servers that people use, installed outside of the project as people install them, work in the sandbox."""

from __future__ import annotations

import contextlib
import functools
import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from amplifier_core.testing import wait_for
from amplifier_kit.guard.sandbox.sandbox import sandbox_of

Session = Any
MakeSession = Callable[[], Any]

pytestmark = pytest.mark.system

NPM = "@modelcontextprotocol"
#: Seconds for an installation, and for a server that has a busy machine to start on.
INSTALL, START = 600, 120


class Installed(NamedTuple):
    """A home folder with a virtual environment, a `node_modules`, tools of uv, and the caches of uvx and npx."""

    home: Path
    environment: Path
    modules: Path
    uv: str


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Install the servers as people do: pip, `uv tool`, uvx, npm and npx."""
    npm, npx = shutil.which("npm"), shutil.which("npx")
    if npm is None or npx is None:
        pytest.skip("npm is not installed")
    home = tmp_path_factory.mktemp("person")
    environment, servers = home / "tools" / "venv", home / "servers"
    servers.mkdir()
    uv = str(Path(sys.executable).with_name("uv"))

    def run(*argv: str | Path, folder: Path = home, text: str = "") -> None:
        variables = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
        done = subprocess.run(
            list(map(str, argv)),
            cwd=folder,
            env={**variables, "HOME": str(home)},
            input=text,
            capture_output=True,
            text=True,
            timeout=INSTALL,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    run(sys.executable, "-m", "venv", environment)
    run(environment / "bin" / "pip", "install", "--quiet", "mcp-server-time", "mcp-server-git")
    run(uv, "tool", "install", "mcp-server-fetch")
    run(uv, "tool", "run", "mcp-server-time", "--help")
    run(npm, "install", f"{NPM}/server-filesystem", f"{NPM}/server-everything", folder=servers)
    run(npx, "-y", f"{NPM}/server-memory")  # it ends with its input
    return Installed(home, environment, servers / "node_modules", uv)


@pytest.fixture
def open_session(
    installed: Installed, make_session: MakeSession, project: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Any]:
    """Give `await open_session(name=entry)`: a session in a repository, with one server that has connected."""
    path = f"{installed.home}/.local/bin:{Path(installed.uv).parent}:{os.environ['PATH']}"
    for name, value in {"HOME": str(installed.home), "PATH": path}.items():
        monkeypatch.setenv(name, value)
    for variable in ("XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(variable, raising=False)
    (project / "notes.txt").write_text("Repair the failing test.\n", encoding="utf-8")
    for command in (["init", "-q"], ["add", "notes.txt"], ["commit", "-qm", "Write notes"]):
        author = ["-c", "user.name=A", "-c", "user.email=a@example.com"]
        subprocess.run(["git", *author, *command], cwd=project, check=True)

    async def opened(**servers: dict[str, Any]) -> Session:
        session = make_session()
        status = sandbox_of(session.coordinator, {}).status
        if not status.is_active:
            pytest.skip(f"there is no sandbox on this machine: {status.reason}")
        await session.open(servers, connect_timeout=START, call_timeout=START)
        told = await session.told("connected")
        assert told["sandbox"] == "active"
        return session

    return opened


async def _text(session: Session, name: str, **arguments: Any) -> str:
    result = await session.call(name, **arguments)
    assert result.success, result.output
    return str(result.output["content"])


@pytest.mark.parametrize("way", ["absolute", "uvx"])
async def test_time(open_session: Callable[..., Any], installed: Installed, way: str) -> None:
    """mcp-server-time: a console script by its path, and `uvx NAME` from the cache of uv."""
    script = {"command": str(installed.environment / "bin" / "mcp-server-time")}
    session = await open_session(time={"command": "uvx", "args": ["mcp-server-time"]} if way == "uvx" else script)
    assert json.loads(await _text(session, "time_get_current_time", timezone="Asia/Tokyo"))["timezone"] == "Asia/Tokyo"
    times = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    assert "T21:00:00+09:00" in await _text(session, "time_convert_time", **times)
    refused = await session.call("time_get_current_time", timezone="Nowhere/Nothing")
    assert not refused.success


async def test_git(open_session: Callable[..., Any], installed: Installed, project: Path) -> None:
    """mcp-server-git, as `python -m NAME` of an environment: it reads the repository and commits to it."""
    session = await open_session(
        git={
            "command": str(installed.environment / "bin" / "python"),
            "args": ["-m", "mcp_server_git", "--repository", "."],
            "env": {"GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.com"}
            | {"GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@example.com"},
        }
    )
    repository = {"repo_path": str(project)}
    assert "Write notes" in await _text(session, "git_git_log", **repository)
    (project / "notes.txt").write_text("Done.\n", encoding="utf-8")
    assert "notes.txt" in await _text(session, "git_git_status", **repository)
    await _text(session, "git_git_add", **repository, files=["notes.txt"])
    await _text(session, "git_git_commit", **repository, message="Repair the test")
    assert "Repair the test" in await _text(session, "git_git_log", **repository)


@contextlib.contextmanager
def _website(folder: Path) -> Iterator[str]:
    """Serve a folder on loopback."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


async def test_fetch(open_session: Callable[..., Any], tmp_path: Path) -> None:
    """mcp-server-fetch, a tool of uv by its name: it has a network only where its entry says so."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "page.txt").write_text("The build is green.\n", encoding="utf-8")
    with _website(tmp_path / "site") as address:
        page = {"url": f"{address}/page.txt", "raw": True}
        entry = {"command": "mcp-server-fetch", "args": ["--allow-private-ips"]}
        free = await open_session(fetch={**entry, "sandbox": {"network": True}})
        assert "The build is green." in await _text(free, "fetch_fetch", **page)
        assert "green" in await _text(free, "fetch_fetch", **page, start_index=4, max_length=20)
        confined = await open_session(fetch=entry)
        assert not (await confined.call("fetch_fetch", **page)).success


async def test_memory(open_session: Callable[..., Any], project: Path) -> None:
    """server-memory, as `npx -y NAME` from the cache of npx: it keeps its file in the project."""
    session = await open_session(
        memory={
            "command": "npx",
            "args": ["-y", f"{NPM}/server-memory"],
            "env": {"MEMORY_FILE_PATH": str(project / "memory.jsonl")},
        }
    )
    entity = {"name": "build", "entityType": "job", "observations": ["it is red"]}
    await _text(session, "memory_create_entities", entities=[entity])
    assert "it is red" in await _text(session, "memory_read_graph")
    assert "build" in await _text(session, "memory_search_nodes", query="red")
    assert "it is red" in (project / "memory.jsonl").read_text(encoding="utf-8")


async def test_filesystem(
    open_session: Callable[..., Any], installed: Installed, project: Path, tmp_path: Path
) -> None:
    """server-filesystem, by its link in `.bin`: it reads and writes the project, and nothing else."""
    command = str(installed.modules / ".bin" / "mcp-server-filesystem")
    session = await open_session(files={"command": command, "args": [".", str(tmp_path)]})
    path = str(project / "notes.txt")
    assert "Repair the failing test." in await _text(session, "files_read_text_file", path=path)
    assert "notes.txt" in await _text(session, "files_list_directory", path=str(project))
    await _text(session, "files_write_file", path=str(project / "made.txt"), content="Made.")
    assert (project / "made.txt").read_text() == "Made."
    (tmp_path / "diary").write_text("secret words")
    assert not (await session.call("files_read_text_file", path=str(tmp_path / "diary"))).success


@pytest.mark.parametrize("way", ["node", "relative"])
async def test_everything(open_session: Callable[..., Any], installed: Installed, project: Path, way: str) -> None:
    """server-everything: a file for node by its absolute path, and a relative command; tools, resources, prompts."""
    script = installed.modules / NPM / "server-everything" / "dist" / "index.js"
    entry = {"command": "node", "args": [str(script), "stdio"]}
    if way == "relative":
        entry = {"command": os.path.relpath(installed.modules / ".bin" / "mcp-server-everything", project)}
    session = await open_session(all=entry)
    assert "hello" in await _text(session, "all_echo", message="hello")
    sums = next(name for name in session.tools if name.endswith(("get-sum", "_add")))
    assert "5" in await _text(session, sums.removeprefix("mcp_"), a=2, b=3)
    image = next(name for name in session.tools if "image" in name)
    assert (await session.call(image.removeprefix("mcp_"))).content[0].type == "image"
    kinds = {offer["kind"] for offer in session.coordinator.get_capability("mcp.servers").statuses()[0].offers}
    assert {"tool", "resource", "prompt"} <= kinds


async def test_all_at_once(open_session: Callable[..., Any], installed: Installed) -> None:
    """Servers of all kinds connect in one session; one that is not installed says how to install it."""
    session = await open_session(
        time={"command": "uvx", "args": ["mcp-server-time"]},
        git={"command": str(installed.environment / "bin" / "mcp-server-git")},
        fetch={"command": "uvx", "args": ["mcp-server-fetch"]},
        memory={"command": "npx", "args": ["-y", f"{NPM}/server-memory"]},
        files={"command": str(installed.modules / ".bin" / "mcp-server-filesystem"), "args": ["."]},
        all={"command": str(installed.modules / ".bin" / "mcp-server-everything")},
        sqlite={"command": "uvx", "args": ["mcp-server-sqlite"]},
    )
    assert await wait_for(lambda: len(session.events("connected")) == 6, timeout=START), session.everything_said()
    [failed] = session.events("failed")
    assert (failed["server"], failed["code"]) == ("sqlite", "not_installed")
    assert "`uv tool install mcp-server-sqlite`" in failed["advice"]

"""Repositories, wheels and an index of the world made for a test, and services that real clients talk to."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from amplifier_digital_twin.services.config import ServicesConfig

UV = Path(sys.executable).parent / "uv"
JSON = "application/vnd.pypi.simple.v1+json"
Git = Callable[..., str]
MakeWheel = Callable[..., Path]
CLEAN = {"PATH": os.environ["PATH"], "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_NOSYSTEM": "1"}
WHO = {
    f"GIT_{role}_{key}": value
    for role in ("AUTHOR", "COMMITTER")
    for key, value in (("NAME", "A"), ("EMAIL", "a@example.com"), ("DATE", "1700000000 +0000"))
}


@pytest.fixture
def git(tmp_path: Path) -> Git:
    """Run git in a folder, with no settings but those given; return what it says."""
    home = tmp_path / "maker"
    home.mkdir()

    def run(folder: Path, *arguments: str, accepted: tuple[int, ...] = (0,)) -> str:
        environment = CLEAN | WHO | {"HOME": str(home)}
        done = subprocess.run(["git", *arguments], cwd=folder, env=environment, capture_output=True, check=False)
        assert done.returncode in accepted, done.stderr.decode()
        return done.stdout.decode("utf-8", "surrogateescape").strip()

    return run


@pytest.fixture
def repository(tmp_path: Path, git: Git) -> Path:
    """Make a repository with two commits on `main`, a branch `other` and an annotated tag `v1`."""
    folder = tmp_path / "source tree"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "a.txt").write_text("one\n", encoding="utf-8")
    (folder / "deep").mkdir()
    (folder / "deep" / "b.txt").write_text("deep\n", encoding="utf-8")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    git(folder, "tag", "-a", "v1", "-m", "version one")
    git(folder, "branch", "other")
    (folder / "a.txt").write_text("two\n", encoding="utf-8")
    git(folder, "commit", "-q", "-a", "-m", "second")
    return folder


@pytest.fixture
def make_wheel(tmp_path: Path) -> MakeWheel:
    """Make a wheel with one module."""

    def make(
        name: str, version: str, text: str = "", *, folder: str = "published", headers: Sequence[str] = ()
    ) -> Path:
        module = name.replace("-", "_")
        info = f"{module}-{version}.dist-info"
        files = {
            f"{module}/__init__.py": f"WHAT = {text or version!r}\n",
            f"{info}/METADATA": "\n".join(
                ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", *headers, ""]
            ),
            f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        }
        record = [f"{path},sha256={_short(content)},{len(content)}" for path, content in files.items()]
        files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""])
        place = tmp_path / folder / f"{module}-{version}-py3-none-any.whl"
        place.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(place, "w") as archive:
            for path, content in files.items():
                archive.writestr(path, content)
        return place

    return make


def _short(content: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content.encode()).digest()).decode().rstrip("=")


@dataclass
class World:
    """A published index: wheels by name, what it was asked, and how it misbehaves."""

    files: dict[str, list[Path]] = field(default_factory=dict)
    #: What its page says of a file beside its hash.
    extra: dict[str, dict[str, Any]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    credentials: list[str | None] = field(default_factory=list)
    status: int | None = None
    redirect: str | None = None
    is_html: bool = False
    is_lying: bool = False
    address: str = ""

    async def answer(self, request: Request) -> Response:
        """Answer as an index does."""
        self.asked.append(request.url.path)
        self.credentials.append(request.headers.get("authorization"))
        if self.status is not None:
            return PlainTextResponse("misbehaving", self.status)
        if self.redirect is not None:
            return RedirectResponse(self.redirect)
        kind, _, rest = request.url.path.strip("/").partition("/")
        if kind == "simple" and rest in self.files:
            return self._page(rest)
        found = [path for paths in self.files.values() for path in paths if path.name == rest]
        if kind == "files" and found:
            return Response(found[0].read_bytes() + (b"!" if self.is_lying else b""))
        if kind == "files" and rest.endswith(".metadata"):
            return Response(self.extra[rest.removesuffix(".metadata")]["text"].encode())
        return PlainTextResponse("unknown", 404)

    def _page(self, name: str) -> Response:
        sums = {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in self.files[name]}
        if self.is_html:
            links = [f'<a href="../../files/{path.name}#sha256={value}">x</a>' for path, value in sums.items()]
            return HTMLResponse("\n".join(["<html><body>", *links]))
        items = [
            {"filename": path.name, "url": f"/files/{path.name}", "hashes": {"sha256": value}}
            | self.extra.get(path.name, {})
            for path, value in sums.items()
        ]
        return JSONResponse({"meta": {"api-version": "1.1"}, "name": name, "files": items}, media_type=JSON)


@pytest.fixture
def serve_app() -> Any:
    """Return what serves an application on loopback."""
    return running


@contextlib.asynccontextmanager
async def running(app: Any) -> AsyncIterator[str]:
    """Serve an application on loopback; give its address."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, lifespan="off"))
    server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign, assignment]
    task = asyncio.create_task(server.serve())
    while not server.started:
        assert not task.done()
        await asyncio.sleep(0.005)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = server.force_exit = True
    await task


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """Serve a published index on loopback."""
    found = World()
    async with running(Starlette(routes=[Route("/{path:path}", found.answer)])) as found.address:
        yield found


@pytest.fixture
def bridge_to() -> Any:
    """Return what makes a unix socket a port on loopback."""
    return bridge


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while piece := await reader.read(65536):
            writer.write(piece)
            await writer.drain()
        writer.write_eof()


@contextlib.asynccontextmanager
async def bridge(path: Path) -> AsyncIterator[int]:
    """Make a unix socket a port on loopback, as a container does; give the port."""

    tasks: set[asyncio.Task[None]] = set()

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_unix_connection(path)
        try:
            await asyncio.gather(_pump(reader, inner_writer), _pump(inner_reader, writer))
        finally:
            inner_writer.close()
            writer.close()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(connect(reader, writer))
        tasks.add(task)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class Universe:
    """A running service process, and a home whose clients know nothing but its sockets."""

    def __init__(self, config: ServicesConfig, process: asyncio.subprocess.Process, folder: Path) -> None:
        self.config = config
        self.process = process
        self.path = folder / "config.json"
        self.home = folder / "home"
        self.home.mkdir(exist_ok=True)
        self.index = ""
        self.git_port = 0
        self.ports: list[dict[str, Any]] = []
        self.environment: dict[str, str] = {}

    def connected(self, index: int, git: int) -> None:
        """Lead clients to these ports."""
        from amplifier_digital_twin.services.guest import PORTS, guest_environment, guest_files, index_url

        self.git_port = git
        self.index = index_url(self.config).replace(str(PORTS["index.sock"]), str(index))
        gitconfig = self.home / "gitconfig"
        text = guest_files(self.config)["/etc/gitconfig"].replace(str(PORTS["git.sock"]), str(git))
        gitconfig.write_text(text, encoding="utf-8")
        self.environment = {
            "PATH": os.environ["PATH"],
            "LC_ALL": "C",
            "HOME": str(self.home),
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_SSH_COMMAND": "false",
            "GIT_CONFIG_SYSTEM": str(gitconfig),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_INDEX_URL": self.index,
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_CACHE_DIR": str(self.home / "pip-cache"),
            "PIP_RETRIES": "0",
            "UV_DEFAULT_INDEX": self.index,
            "UV_NO_CONFIG": "1",
            "UV_CACHE_DIR": str(self.home / "uv-cache"),
            "UV_HTTP_RETRIES": "0",
            # Where nothing answers: whatever does not go to our sockets fails, and no test asks the world.
            **dict.fromkeys(("HTTPS_PROXY", "https_proxy", "http_proxy"), "http://127.0.0.1:9"),
            **dict.fromkeys(("no_proxy", "NO_PROXY"), "127.0.0.1"),
            **guest_environment(self.config),
        }

    async def run(self, *argv: str) -> tuple[int, str]:
        """Run a program; return its exit code and output."""
        process = await asyncio.create_subprocess_exec(
            *argv,
            cwd=self.home,
            env=self.environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await process.communicate()
        assert process.returncode is not None
        return process.returncode, said.decode("utf-8", "replace")

    async def install(self, client: str, *what: str) -> tuple[int, str]:
        """Install into the folder `target` with `uv` or `pip`."""
        target = ("--target", str(self.home / "target"), "--upgrade", *what)
        if client == "pip":
            return await self.run(sys.executable, "-m", "pip", "install", *target)
        return await self.run(str(UV), "pip", "install", "-p", sys.executable, *target)

    def text(self, module: str) -> str:
        """Return what an installed module says."""
        return (self.home / "target" / module / "__init__.py").read_text(encoding="utf-8")

    async def get(self, path: str, method: str = "GET", **headers: str) -> tuple[int, Mapping[str, str], bytes]:
        """Ask the index for a path."""
        import httpx2

        transport = httpx2.AsyncHTTPTransport(uds=str(self.config.sockets / "index.sock"))
        async with httpx2.AsyncClient(transport=transport) as client:
            answer = await client.request(method, f"http://index{path}", headers=headers)
            return answer.status_code, dict(answer.headers), answer.content

    async def page(self, name: str) -> list[dict[str, Any]]:
        """Return the files of a page."""
        status, _, content = await self.get(f"/simple/{name}/", accept=JSON)
        assert status == 200, content
        files: list[dict[str, Any]] = json.loads(content)["files"]
        return files

    def log(self) -> list[dict[str, Any]]:
        """Return the requests that were logged."""
        if not self.config.log.is_file():
            return []
        return [json.loads(line) for line in self.config.log.read_text(encoding="utf-8").splitlines()]


Start = Callable[..., Awaitable[Universe]]


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    """Start services for a config whose directories are made here; `indexes` are those of the host."""
    async with contextlib.AsyncExitStack() as stack:
        started: list[Universe] = []

        async def begin(*indexes: str, links: str = "", name: str = "", **values: Any) -> Universe:
            folder = tmp_path / (name or f"u{len(started)}")
            folder.mkdir()
            variables = dict(values.pop("environ", {}))
            values = {"cache": tmp_path / "cache", "allow": ("@package-index",) if indexes or links else ()} | values
            config = ServicesConfig(
                sockets=folder / "s", state=folder / "state", log=folder / "requests.jsonl", **values
            )
            config.save(folder / "config.json")
            if not config.needs_proxy:  # which takes mitmproxy from the index of this machine
                variables |= {"UV_CONFIG_FILE": os.devnull, "PIP_CONFIG_FILE": os.devnull}
                variables |= {"UV_DEFAULT_INDEX": indexes[0]} if indexes else {"PIP_NO_INDEX": "1"}
                variables |= {"UV_EXTRA_INDEX_URL": " ".join(indexes[1:]), "PIP_FIND_LINKS": links}
                variables |= {"HOME": str(folder)}
            environment = {name: os.environ[name] for name in os.environ if not name.startswith("AMPLIFIER")}
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "amplifier_digital_twin.services.process", str(folder / "config.json")),
                env=environment | variables,
                stdout=asyncio.subprocess.PIPE,
            )
            universe = Universe(config, process, folder)
            started.append(universe)
            assert process.stdout is not None
            said = json.loads(await process.stdout.readline())
            assert said.get("ready"), said
            universe.ports = said["ports"]
            ports = [await stack.enter_async_context(bridge(config.sockets / f"{n}.sock")) for n in ("index", "git")]
            universe.connected(*ports)
            return universe

        yield begin
        for universe in started:
            if universe.process.returncode is None:
                universe.process.terminate()
                await universe.process.wait()

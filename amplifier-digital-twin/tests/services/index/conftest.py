"""Wheels made for a test, an index of the world to fetch others from, and clients that install."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import socket
import sys
import zipfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from amplifier_digital_twin.services.decisions import Decisions
from amplifier_digital_twin.services.host_index import HostIndex, Location
from amplifier_digital_twin.services.http_site import Answer, HttpSite, Question, plain
from amplifier_digital_twin.services.package_index import PackageIndex

UV = Path(sys.executable).parent / "uv"
MakeWheel = Callable[..., Path]


@pytest.fixture
def make_wheel(tmp_path: Path) -> MakeWheel:
    """Make a wheel with one module."""

    def make(
        name: str,
        version: str,
        text: str = "",
        *,
        folder: str = "wheels",
        headers: Sequence[str] = (),
        called: str = "",
    ) -> Path:
        module = name.replace("-", "_")
        info = f"{module}-{version}.dist-info"
        lines = ["Metadata-Version: 2.1", f"Name: {called or name}", f"Version: {version}", *headers, ""]
        files = {
            f"{module}/__init__.py": f"WHAT = {text or version!r}\n",
            f"{info}/METADATA": "\n".join(lines),
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
    """An index of the world: wheels by name, what it was asked, and how it misbehaves."""

    files: dict[str, list[Path]] = field(default_factory=dict)
    extra: dict[str, dict[str, Any]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    credentials: list[str | None] = field(default_factory=list)
    password: str | None = None
    status: int | None = None
    is_html: bool = False
    is_lying: bool = False
    redirect: str | None = None
    address: str = ""

    async def answer(self, question: Question) -> Answer:
        """Answer as an index does."""
        self.asked.append(question.path)
        self.credentials.append(question.headers.get("authorization"))
        if self.status is not None:
            return plain(self.status, "misbehaving")
        if self.redirect is not None:
            return Answer(302, b"", headers={"Location": self.redirect + question.path})
        if self.password is not None and self.credentials[-1] != self.password:
            return plain(401, "who are you?")
        kind, _, rest = question.path.removeprefix("/").partition("/")
        if kind == "simple" and rest.strip("/") in self.files:
            return self._page(rest.strip("/"))
        found = [path for paths in self.files.values() for path in paths if path.name == rest]
        if kind == "files" and found:
            return Answer(200, found[0].read_bytes() + (b"!" if self.is_lying else b""))
        return plain(404, "unknown")

    def _page(self, name: str) -> Answer:
        sums = {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in self.files[name]}
        if self.is_html:
            links = [f'<a href="../../files/{path.name}#sha256={value}">x</a>' for path, value in sums.items()]
            return Answer(200, "\n".join(["<html><body>", *links]).encode(), "text/html")
        items = [
            {"filename": path.name, "url": f"/files/{path.name}", "hashes": {"sha256": value}}
            | self.extra.get(path.name, {})
            for path, value in sums.items()
        ]
        page = {"meta": {"api-version": "1.1"}, "name": name, "versions": [], "files": items}
        return Answer(200, json.dumps(page).encode(), "application/vnd.pypi.simple.v1+json")


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """Serve an index of the world on loopback."""
    found = World()
    site = HttpSite(found.answer)
    listening = socket.create_server(("127.0.0.1", 0))
    found.address = f"http://127.0.0.1:{listening.getsockname()[1]}"
    await site.serve(listening)
    yield found
    await site.close()


class Served:
    """An index that answers, and clients that know no other."""

    def __init__(self, index: PackageIndex, port: int, home: Path, log: Path) -> None:
        self.index = index
        self.base = f"http://127.0.0.1:{port}"
        self.home = home
        self._log = log
        home.mkdir(parents=True, exist_ok=True)
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_INDEX_URL": f"{self.base}/simple/",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_CACHE_DIR": str(home / "pip-cache"),
            "PIP_RETRIES": "0",
            "UV_DEFAULT_INDEX": f"{self.base}/simple/",
            "UV_NO_CONFIG": "1",
            "UV_CACHE_DIR": str(home / "uv-cache"),
            "UV_HTTP_RETRIES": "0",
        }

    async def run(self, *argv: str) -> tuple[int, str]:
        """Run a program; return its code and what it says."""
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

    async def get(self, path: str, accept: str = "") -> tuple[int, Mapping[str, str], bytes]:
        """Ask for a path."""
        import httpx2

        async with httpx2.AsyncClient(trust_env=False) as client:
            answer = await client.get(self.base + path, headers={"Accept": accept} if accept else {})
            return answer.status_code, dict(answer.headers), answer.content

    def decisions(self) -> list[dict[str, Any]]:
        """Return what was logged."""
        if not self._log.is_file():
            return []
        return [json.loads(line) for line in self._log.read_text(encoding="utf-8").splitlines()]


Serve = Callable[..., Awaitable[Served]]


@pytest.fixture
async def serve(tmp_path: Path) -> AsyncIterator[Serve]:
    """Serve overrides, and the rest from places of the host."""
    running: list[PackageIndex] = []

    async def start(overrides: Mapping[str, Sequence[Path]], *places: str | Location, is_open: bool = True) -> Served:
        number = len(running)
        log = tmp_path / f"decisions{number}.jsonl"
        known = [Location.parse("index", place) if isinstance(place, str) else place for place in places]
        upstream = HostIndex(known, {}) if is_open else None
        index = PackageIndex(overrides, upstream, tmp_path / "cache", Decisions(log))
        running.append(index)
        listening = socket.create_server(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        await index.serve(listening)
        return Served(index, port, tmp_path / f"home{number}", log)

    yield start
    for index in running:
        await index.close()


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("amplifier_digital_twin.services.host_index.RETRY_PAUSES", (0.01,))

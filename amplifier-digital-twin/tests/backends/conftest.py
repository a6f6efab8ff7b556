"""Twins of every backend that this machine has; one that is absent skips with its own reason."""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from amplifier_digital_twin.backends.engine import EngineBackend
from amplifier_digital_twin.backends.select import all_backends
from amplifier_digital_twin.backends.twin import Backend, Finished, Run, Twin, TwinSpec
from amplifier_digital_twin.profile.model import Base, Limits, Tar, User

USER = User()
ROOT = User("root", 0)
PATH = {"PATH": "/usr/bin:/bin"}
#: What the small system has.
PROGRAMS = (
    *("sh", "bash", "cat", "chmod", "chown", "env", "grep", "head", "id", "ln", "ls", "mkdir", "rm", "setsid", "sleep"),
    *("touch", "tr", "uname", "wc"),
)
FOLDERS = (
    "bin",
    "dev",
    "etc",
    "home",
    "lib",
    "lib64",
    "opt",
    "proc",
    "root",
    "run",
    "sys",
    "tmp",
    "usr",
    "usr/bin",
    "var",
)


class Place:
    """Makes twins for one test and removes them after it."""

    def __init__(self, backend: Backend, folder: Path, base: Base) -> None:
        self.backend = backend
        self.folder = folder
        self.base = base
        self.cache = folder / "cache"
        self.made: list[tuple[Twin, TwinSpec]] = []
        self.layers: list[str] = []

    def spec(self, **changes: Any) -> TwinSpec:
        """Return a spec of a new universe."""
        universe = f"dtu-{uuid.uuid4().hex[:8]}"
        folder = self.folder / universe
        folder.mkdir(parents=True)
        spec = TwinSpec(universe, folder, self.cache, self.base, USER, Limits(), "none", "testhost")
        return replace(spec, **changes)

    async def create(self, spec: TwinSpec | None = None, **changes: Any) -> Twin:
        """Make a twin."""
        spec = spec or self.spec(**changes)
        async with asyncio.timeout(100):
            twin = await self.backend.create(spec, lambda text: None)
        self.made.append((twin, spec))
        return twin

    async def clear(self) -> None:
        """Remove what the test made."""
        for twin, spec in self.made:
            await twin.destroy()
            await self.backend.remove(spec.folder, spec.id)
        if isinstance(self.backend, EngineBackend):
            engine: Any = self.backend.engine
            for layer in self.layers:
                await engine.call("image", "delete" if engine.name == "incus" else "rm", engine.layer_image(layer))


async def shell(
    twin: Twin, script: str, user: User = USER, env: Mapping[str, str] = PATH, timeout: float = 60.0, stdin: bytes = b""
) -> Finished:
    """Run a line of shell inside."""
    return await twin.run(Run(["/bin/sh", "-c", script], env, user, stdin=stdin, timeout=timeout))


async def text(twin: Twin, script: str, user: User = USER) -> str:
    """Return what a line of shell prints; it must succeed."""
    finished = await shell(twin, script, user)
    assert finished.exit_code == 0, finished
    return finished.stdout.decode().strip()


@pytest.fixture(name="shell")
def _shell() -> Callable[..., Any]:
    return shell


@pytest.fixture(name="text")
def _text() -> Callable[..., Any]:
    return text


@pytest.fixture(params=["embedded", "podman", "docker", "incus"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    """A place for twins of each backend."""
    backend = all_backends()[request.param]
    probe = await backend.probe()
    if not probe.is_available:
        # The one that needs nothing installed must work wherever tests run.
        give_up = pytest.fail if backend.name == "embedded" and sys.platform == "linux" else pytest.skip
        give_up(f"{backend.name}: {probe.reason}")
    base = Base("host")
    if backend.name == "incus":
        archive = small_system(tmp_path / "small.tar")
        base = Base("tar", Tar(archive, hashlib.sha256(archive.read_bytes()).hexdigest()))
    made = Place(backend, tmp_path, base)
    try:
        yield made
    finally:
        await made.clear()
        await drop_base(backend, base)


@pytest.fixture
def engine_place(place: Place) -> Place:
    """A place for twins that are containers."""
    if not isinstance(place.backend, EngineBackend):
        pytest.skip("the embedded backend has no containers")
    return place


@pytest.fixture
def small(tmp_path: Path) -> Base:
    """A root file system of few programs, in an archive."""
    archive = small_system(tmp_path / "small.tar")
    return Base("tar", Tar(archive, hashlib.sha256(archive.read_bytes()).hexdigest()))


@pytest.fixture
def forget() -> Callable[..., Any]:
    """Return the function that removes a base's image."""
    return drop_base


async def drop_base(backend: Backend, base: Base) -> None:
    """Remove the image of an archive that only this test knows."""
    if not isinstance(backend, EngineBackend) or base.tar is None:
        return
    engine: Any = backend.engine
    if engine.name == "incus":
        await engine.call("image", "delete", f"amplifier-twin-base/{base.tar.sha256}")
    else:
        await engine.call("image", "rm", f"localhost/amplifier-twin-base:{base.tar.sha256}")


def small_system(target: Path) -> Path:
    """Write a root file system made of a few of the host's programs and the libraries they load."""
    found = [path for name in PROGRAMS if (path := shutil.which(name, path="/usr/bin:/bin"))]
    files = {os.path.realpath(path): path for path in found}
    listed = subprocess.run(["ldd", *files], capture_output=True, text=True, check=True).stdout
    with tarfile.open(target, "w") as archive:
        for folder in FOLDERS:
            _folder(archive, folder)
        accounts = {"etc/passwd": b"root:x:0:0::/root:/bin/sh\n", "etc/group": b"root:x:0:\n"}
        for name, content in {**accounts, "etc/serial": uuid.uuid4().bytes}.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
        for path in found:
            _copy(archive, path, f"bin/{os.path.basename(path)}")
        for library in sorted(set(re.findall(r"(/\S+)\s+\(0x", listed))):
            _copy(archive, library, library.lstrip("/"))
    return target


def _folder(archive: tarfile.TarFile, name: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
    archive.addfile(entry)


def _copy(archive: tarfile.TarFile, source: str, name: str) -> None:
    entry = tarfile.TarInfo(name)
    content = Path(source).read_bytes()
    entry.size, entry.mode = len(content), 0o755
    archive.addfile(entry, io.BytesIO(content))

"""A stand-in for a twin: a folder of the host in which real programs install real packages."""

from __future__ import annotations

import asyncio
import base64
import glob
import hashlib
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from amplifier_digital_twin.backends.twin import Finished, Run, Sink
from amplifier_digital_twin.profile.model import User
from amplifier_digital_twin.services.decisions import Decisions
from amplifier_digital_twin.services.package_index import PackageIndex

UV = Path(sys.executable).parent / "uv"
USER = User()


class FolderTwin:
    """Shows a folder of the host as `/`: `find` runs in it, files are read from it."""

    def __init__(self, root: Path) -> None:
        self.root = root

    async def run(self, run: Run, sink: Sink | None = None) -> Finished:
        """Run `find` in the folder."""
        argv = [
            f"{self.root}{word}" if word.startswith("/") and number else word for number, word in enumerate(run.argv)
        ]
        process = await asyncio.create_subprocess_exec(
            *argv, env=dict(run.environment), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        out, err = await process.communicate()
        out = out.replace(os.fsencode(self.root) + b"//", b"/").replace(os.fsencode(self.root), b"")
        return Finished(process.returncode or 0, out, err, False, False, 0.0)

    async def get(self, paths: Sequence[str], user: User, archive: BinaryIO, max_bytes: int) -> None:
        """Write what patterns find."""
        with tarfile.open(fileobj=archive, mode="w|") as made:
            for path in paths:
                for found in sorted(glob.glob(path.lstrip("/"), root_dir=self.root, recursive=True)):
                    made.add(self.root / found, found, recursive=False)


class BoxTwin:
    """Runs commands for real, in a box that has a home of its own and shares the host's network and programs."""

    def __init__(self, home: Path) -> None:
        self.home = home

    async def run(self, run: Run, sink: Sink | None = None) -> Finished:
        """Run a command."""
        box = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--tmpfs", "/home", "--bind", str(self.home), USER.home]
        box += ["--chdir", run.cwd, "--die-with-parent", "--"]
        process = await asyncio.create_subprocess_exec(
            *box,
            *run.argv,
            env=dict(run.environment),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        return Finished(process.returncode or 0, out, err, False, False, 0.0)

    async def get(self, paths: Sequence[str], user: User, archive: BinaryIO, max_bytes: int) -> None:
        """Write what patterns find in the home."""
        with tarfile.open(fileobj=archive, mode="w|") as made:
            for path in paths:
                inner = path.removeprefix(f"{USER.home}/")
                for found in sorted(glob.glob(inner, root_dir=self.home, recursive=True)):
                    made.add(self.home / found, f"{USER.home}/{found}"[1:], recursive=False)


@pytest.fixture
def box(tmp_path: Path) -> BoxTwin:
    """Make a box, or say why there can be none."""
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    probe = subprocess.run(["bwrap", "--ro-bind", "/", "/", "true"], capture_output=True, text=True, check=False)
    if probe.returncode:
        pytest.skip(f"bubblewrap cannot be used here: {probe.stderr.strip()}")
    home = tmp_path / "box"
    home.mkdir()
    return BoxTwin(home)


def make_wheel_file(place: Path, files: dict[str, str], name: str = "own", version: str = "1.0") -> Path:
    """Make a wheel with these files."""
    info = f"{name}-{version}.dist-info"
    files = files | {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{name}-tool = {name}:main\n",
    }
    lines = []
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
        lines.append(f"{path},sha256={digest},{len(text.encode())}")
    files[f"{info}/RECORD"] = "\n".join([*lines, f"{info}/RECORD,,", ""])
    place.mkdir(parents=True, exist_ok=True)
    wheel = place / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return wheel


@pytest.fixture
def make_wheel(tmp_path: Path) -> Callable[..., Path]:
    """Make a wheel of a small package."""

    def make(
        text: str = "def main(): ...\n", *, folder: str = "wheels", name: str = "own", version: str = "1.0"
    ) -> Path:
        files = {
            f"{name}/__init__.py": text,
            f"{name}/data [x].txt": "data\n",
            f"{name}-{version}.data/purelib/{name}_extra.py": "EXTRA = 1\n",
            f"{name}-{version}.data/scripts/{name}-script": "#!python\n",
        }
        return make_wheel_file(tmp_path / folder, files, name, version)

    return make


class Site:
    """A virtual environment at `/home/user/venv` of a stand-in, and an index that serves it."""

    def __init__(self, root: Path, index: PackageIndex, base: str) -> None:
        self.twin: Any = FolderTwin(root)
        self.index = index
        self.base = base
        self.venv = root / "home" / "user" / "venv"
        subprocess.run(
            [str(UV), "venv", "-q", "-p", sys.executable, str(self.venv)], check=True, env=self.environment()
        )

    def environment(self) -> dict[str, str]:
        """Return what a client needs to know."""
        cache = str(self.venv.parent / ".cache" / "uv")
        home = str(self.venv.parent)
        return {
            "PATH": os.environ["PATH"],
            "HOME": home,
            "UV_CACHE_DIR": cache,
            "UV_NO_CONFIG": "1",
            "UV_DEFAULT_INDEX": f"{self.base}/simple/",
            "GIT_CONFIG_NOSYSTEM": "1",
            "UV_NO_GITHUB_FAST_PATH": "true",
        }

    async def install(self, *what: str, has_fast_path: bool = False, **variables: str) -> None:
        """Install with uv, which must succeed."""
        environment = self.environment() | variables
        if has_fast_path:
            # Any value of it, even `false`, is a yes to uv.
            del environment["UV_NO_GITHUB_FAST_PATH"]
        process = await asyncio.create_subprocess_exec(
            *(str(UV), "pip", "install", "-q", "-p", str(self.venv / "bin" / "python"), *what),
            env=environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await process.communicate()
        assert process.returncode == 0, said.decode()

    @property
    def packages(self) -> Path:
        """Return the site folder."""
        return next(self.venv.glob("lib/python*/site-packages"))


@pytest.fixture
async def make_site(tmp_path: Path) -> AsyncIterator[Callable[..., Any]]:
    """Make an environment and an index with these overrides."""
    running: list[PackageIndex] = []

    async def make(overrides: dict[str, list[Path]]) -> Site:
        index = PackageIndex(overrides, None, tmp_path / "cache", Decisions(tmp_path / "index.jsonl"))
        running.append(index)
        listening = socket.create_server(("127.0.0.1", 0))
        base = f"http://127.0.0.1:{listening.getsockname()[1]}"
        await index.serve(listening)
        return Site(tmp_path / "root", index, base)

    yield make
    for index in running:
        await index.close()

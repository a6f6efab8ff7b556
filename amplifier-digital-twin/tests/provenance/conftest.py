"""A folder of the host as a container's root, in which real programs install real packages."""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_digital_twin.provenance import Finding, survey_command, survey_script, verify
from amplifier_digital_twin.services.config import Served

UV = Path(sys.executable).parent / "uv"


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
    """A virtual environment at `/home/user/venv` of a folder, and what is served to it."""

    def __init__(self, root: Path, served: Served) -> None:
        self.root = root
        self.served = served
        self.venv = root / "home" / "user" / "venv"
        command = [str(UV), "venv", "-q", "-p", sys.executable, str(self.venv)]
        subprocess.run(command, check=True, env=self.environment())

    def environment(self) -> dict[str, str]:
        """Return what a client needs to know."""
        found = {"PATH": os.environ["PATH"], "HOME": str(self.venv.parent), "UV_NO_CONFIG": "1"}
        found |= {"UV_CACHE_DIR": str(self.venv.parent / ".cache" / "uv"), "UV_NO_GITHUB_FAST_PATH": "true"}
        return found | {"GIT_CONFIG_NOSYSTEM": "1"}

    def install(self, *what: str, links: Path | None = None, **variables: str) -> None:
        """Install with uv, by default from the wheels that are served; it must succeed."""
        command = [str(UV), "pip", "install", "-q", "-p", str(self.venv / "bin" / "python")]
        place = links or self.served.wheels
        command += ["--no-index", *(["--find-links", str(place)] if place else []), *what]
        done = subprocess.run(command, env=self.environment() | variables, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def look(self, names: Any = "all") -> list[Finding]:
        """Check what is installed."""
        command = survey_command(self.served, python=sys.executable, root=str(self.root))
        done = subprocess.run(command, input=survey_script(), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return verify(self.served, done.stdout, names)

    @property
    def packages(self) -> Path:
        """Return the site folder."""
        return next(self.venv.glob("lib/python*/site-packages"))


@pytest.fixture
def make_site(tmp_path: Path) -> Callable[..., Site]:
    """Make an environment that is served the wheels that were made."""

    def make(**values: Any) -> Site:
        (tmp_path / "wheels").mkdir(exist_ok=True)
        return Site(tmp_path / "root", Served(**{"wheels": tmp_path / "wheels"} | values))

    return make

"""Tiny wheels in a folder that stands for the package index, and tiny modules that need them."""

from __future__ import annotations

import json
import stat
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from amplifier_foundation.paths import Home
from amplifier_foundation.sources.activation import Activator, ModuleFolder

AddWheel = Callable[..., None]
MakeModule = Callable[..., ModuleFolder]
Command = tuple[str, ...]


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """Return the folder that the installers look for wheels in."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    return folder


@pytest.fixture
def add_wheel(wheels: Path) -> AddWheel:
    """Return a function that puts a wheel with one package of the same name there."""

    def add(name: str, version: str, requires: Sequence[str] = (), extras: Sequence[str] = ()) -> None:
        package = name.replace("-", "_")
        info = f"{package}-{version}.dist-info"
        metadata = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
        metadata += [f"Provides-Extra: {extra}" for extra in extras]
        metadata += [f"Requires-Dist: {wish}" for wish in requires]
        files = {
            f"{package}/__init__.py": f"VERSION = {version!r}\n",
            f"{info}/METADATA": "\n".join(metadata) + "\n",
            f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        }
        record = "".join(f"{file},,\n" for file in (*files, f"{info}/RECORD"))
        with zipfile.ZipFile(wheels / f"{package}-{version}-py3-none-any.whl", "w") as wheel:
            for file, content in {**files, f"{info}/RECORD": record}.items():
                wheel.writestr(file, content)

    return add


@pytest.fixture
def environ(environ: dict[str, str], wheels: Path) -> dict[str, str]:
    """Return an environment in which uv knows the folder of wheels and no index at all."""
    no_index = wheels.with_name("uv.toml")  # there is no variable for this
    no_index.write_text("no-index = true\n", encoding="utf-8")
    kept = {name: value for name, value in environ.items() if not name.startswith(("UV_", "PIP_", "AMPLIFIER_"))}
    return kept | {
        "UV_FIND_LINKS": str(wheels),
        "UV_CONFIG_FILE": str(no_index),
    }


@pytest.fixture
def make_module(tmp_path: Path) -> MakeModule:
    """Return a function that writes a module's folder."""

    def make(
        module_id: str, dependencies: Sequence[str] = (), *, layout: str = "", more: str = "", project: str = ""
    ) -> ModuleFolder:
        folder = tmp_path / "modules" / module_id
        package = folder / layout / f"amplifier_module_{module_id.replace('-', '_')}"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("async def mount(coordinator, config):\n    pass\n", encoding="utf-8")
        (folder / "pyproject.toml").write_text(
            f'[project]\nname = "amplifier-module-{module_id}"\nversion = "1.2.3"\n'
            f"dependencies = {json.dumps(list(dependencies))}\n{project}\n"
            f'[project.entry-points."amplifier.modules"]\n{module_id} = "{package.name}:mount"\n{more}',
            encoding="utf-8",
        )
        return ModuleFolder(module_id, folder)

    return make


@pytest.fixture
def activator(home: Home, environ: dict[str, str]) -> Activator:
    """Return an activator that uses the real uv."""
    return Activator(home, environ=environ)


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], Command]:
    """Return a function that makes a stand-in for uv from a Python script; `target` and `wishes` are set in it."""

    def make(body: str) -> Command:
        path = tmp_path / "fake-uv"
        path.write_text(
            f"#!{sys.executable} -S\n"
            "import os, pathlib, sys, time\n"
            "target = pathlib.Path(sys.argv[sys.argv.index('--target') + 1])\n"
            "wishes = pathlib.Path(sys.argv[sys.argv.index('-r') + 1]).read_text(encoding='utf-8').split()\n"
            "def install(name, version='1.0'):\n"
            "    info = target / f'{name.replace(chr(45), chr(95))}-{version}.dist-info'\n"
            "    info.mkdir(parents=True)\n"
            "    (info / 'METADATA').write_text(f'Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n')\n"
            f"{body}\n",
            encoding="utf-8",
        )
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return (str(path),)

    return make


@pytest.fixture(autouse=True)
def _same_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take back what a test put on the path."""
    monkeypatch.setattr(sys, "path", list(sys.path))

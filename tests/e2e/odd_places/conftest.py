"""Repositories and wheels to fetch from, without a network, and stand-ins for git and uv that can be held up."""

from __future__ import annotations

import json
import os
import subprocess
import textwrap
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

#: A tool whose name says what it was made of.
TOOL = """
    __amplifier_module_type__ = "tool"
    {imports}
    from amplifier_core import ToolResult

    class Greet:
        name = "greet_" + {says}
        description = "Greet somebody"
        input_schema = {{"type": "object", "properties": {{}}}}

        async def execute(self, input):
            return ToolResult(output="hello")

    async def mount(coordinator, config=None):
        await coordinator.mount("tools", Greet())
"""


def tool_files(module: str = "tool-greet", says: str = '"hello"', needs: str | None = None) -> dict[str, str]:
    """Return the files of a module with the tool `greet_<says>`, an expression; it may need a distribution."""
    imports = f"import {needs.replace('-', '_')}" if needs else ""
    package = f"amplifier_module_{module.replace('-', '_')}"
    dependencies = json.dumps([needs] if needs else [])
    return {
        f"{package}/__init__.py": textwrap.dedent(TOOL).format(imports=imports, says=says),
        "pyproject.toml": f'[project]\nname = "amplifier-module-{module}"\nversion = "1.0"\n'
        f"dependencies = {dependencies}\n",
    }


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Write files with their folders."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode())


@dataclass(frozen=True)
class Repository:
    """A git repository to fetch from."""

    folder: Path
    environment: Mapping[str, str]

    @property
    def uri(self) -> str:
        """Its address."""
        return f"git+file://{self.folder}@main"

    def git(self, *arguments: str) -> str:
        """Run git in it."""
        who = {f"GIT_{who}_{what}": "t@e" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        command = ["git", *arguments]
        environment = {**self.environment, **who}
        done = subprocess.run(command, cwd=self.folder, env=environment, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def commit(self, files: Mapping[str, str]) -> str:
        """Put files there and return the commit."""
        write(self.folder, files)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message=change")
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def tool() -> Callable[..., dict[str, str]]:
    """Return what makes the files of a module."""
    return tool_files


@pytest.fixture
def write_files() -> Callable[[Path, Mapping[str, str]], None]:
    """Return what writes files."""
    return write


@pytest.fixture
def repository(project: Any, tmp_path: Path) -> Repository:
    """Return a repository with the module `tool-greet`; git has no settings of this machine."""
    project.environment.update(GIT_CONFIG_GLOBAL=os.devnull, GIT_CONFIG_SYSTEM=os.devnull, GIT_CONFIG_NOSYSTEM="1")
    folder = tmp_path / "upstream" / "greet"
    folder.mkdir(parents=True)
    made = Repository(folder, dict(project.environment))
    made.git("init", "--quiet", "--initial-branch=main")
    made.commit(tool_files())
    return made


@pytest.fixture
def wheel(project: Any, tmp_path: Path) -> str:
    """Return the name of a distribution that lies as a wheel in the only folder that uv and pip know."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    no_index = tmp_path / "uv.toml"  # there is no variable for this
    no_index.write_text("no-index = true\n", encoding="utf-8")
    info = "leaf_of_tests-1.5.dist-info"
    files = {
        "leaf_of_tests.py": "VERSION = 'whole'\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: leaf-of-tests\nVersion: 1.5\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{file},,\n" for file in (*files, f"{info}/RECORD"))
    with zipfile.ZipFile(wheels / "leaf_of_tests-1.5-py3-none-any.whl", "w") as archive:
        for name, content in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(name, content)
    for name in [name for name in project.environment if name.startswith(("UV_", "PIP_"))]:
        del project.environment[name]
    project.environment.update(
        UV_FIND_LINKS=str(wheels),
        UV_NO_INDEX="1",
        UV_CONFIG_FILE=str(no_index),
        UV_CACHE_DIR=str(tmp_path / "uv-cache"),
        PIP_FIND_LINKS=str(wheels),
        PIP_NO_INDEX="1",
        PIP_CONFIG_FILE=os.devnull,
    )
    return "leaf-of-tests"


@dataclass(frozen=True)
class HeldUp:
    """A program that waits, every time it is called, until it is let go."""

    folder: Path

    @property
    def calls(self) -> list[int]:
        """The process of each call so far."""
        file = self.folder / "calls"
        return [int(line) for line in file.read_text(encoding="utf-8").split()] if file.exists() else []

    def wait_for_call(self, *callers: subprocess.Popen[str]) -> None:
        """Return when one of the callers has called it; all of them must still be running then."""
        while not self.calls:
            assert all(caller.poll() is None for caller in callers), [caller.communicate() for caller in callers]
            time.sleep(0.01)

    def let_go(self) -> None:
        """Let those that wait and all later ones go on."""
        (self.folder / "go").touch()


#: Notes the call, leaves something half-made where the arguments say, and then waits.
HOLD = """\
#!/bin/sh
case " $* " in
*" {word} "*)
    {place}
    {spoil}
    echo $$ >> "{folder}/calls"
    while [ ! -e "{folder}/go" ]; do sleep 0.05; done
    [ ! -d "$place" ] || find "$place" -mindepth 1 -delete
esac
exec "{program}" "$@"
"""


@pytest.fixture
def hold_up(project: Any, tmp_path: Path) -> Iterator[Callable[[str], HeldUp]]:
    """Return what puts a program that waits in the place of git or uv, for the program under test."""
    made: list[HeldUp] = []

    def hold(name: str) -> HeldUp:
        folder = tmp_path / f"held-{name}"
        folder.mkdir()
        script = folder / name
        if name == "git":
            place = "for place; do :; done"  # the last argument
            spoil = 'echo > "$place/pyproject.toml"; mkdir "$place/.git" "$place/amplifier_module_tool_greet"'
            program, word = _which("git"), "clone"
            project.environment["PATH"] = f"{folder}{os.pathsep}{project.environment['PATH']}"
        else:
            from uv import find_uv_bin

            place = 'place="${*#*--target }"; place="${place%% *}"'
            spoil = 'echo \'VERSION = "half"\' > "$place/leaf_of_tests.py"'
            program, word = find_uv_bin(), "install"
            # The package that says where uv is; the folder of modules is the first on the path.
            where = f"def find_uv_bin():\n    return {str(script)!r}\n"
            write(project.folder / "modules", {"uv/__init__.py": where})
        script.write_text(
            HOLD.format(word=word, place=place, spoil=spoil, folder=folder, program=program), encoding="utf-8"
        )
        script.chmod(0o755)
        made.append(HeldUp(folder))
        return made[-1]

    yield hold
    for held in made:
        held.let_go()
        while any(Path(f"/proc/{pid}").exists() for pid in held.calls):
            time.sleep(0.01)


def _which(name: str) -> str:
    import shutil

    found = shutil.which(name)
    assert found is not None
    return found

"""Bundles of an app, a home of its own and repositories on this machine."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.bundle import Bundle

MODULE = '''"""A tool that answers."""

__amplifier_module_type__ = "tool"


class Echo:
    name = "echo"
    description = "Return a text."
    input_schema = {"type": "object", "properties": {"text": {"type": "string"}}}

    async def execute(self, input):
        from amplifier_core import ToolResult

        return ToolResult(success=True, output="VERSION " + str(input.get("text")))


async def mount(coordinator, config=None):
    await coordinator.mount("tools", Echo(), name="echo")
'''


@pytest.fixture
def app_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make an empty home the user's, and an empty project the current folder; return the home."""
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    monkeypatch.setenv("AMPLIFIER_HOME", str(home))
    monkeypatch.chdir(project)
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    return home


def session_parts(*responses: str, **config: Any) -> dict[str, Any]:
    """Return the loop, the context and the model of a session whose model says this."""
    return {
        "session": {"orchestrator": {"module": "loop-basic"}, "context": {"module": "context-simple"}},
        "providers": [{"module": "provider-mock", "config": {"responses": list(responses), **config}}],
    }


@pytest.fixture
def answering() -> Callable[..., Bundle]:
    """Return what makes a bundle whose model says these answers."""

    def make(*responses: str, name: str = "app", **parts: Any) -> Bundle:
        return Bundle(name=name, **{**session_parts(*responses), **parts})

    return make


@pytest.fixture
def write_module() -> Callable[..., Path]:
    """Return what writes a module `tool-echo` into a folder."""
    return _write_module


def _write_module(folder: Path, version: str = "1") -> Path:
    """Write a module `tool-echo` into a folder and return it."""
    package = folder / "amplifier_module_tool_echo"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text(MODULE.replace("VERSION", version), encoding="utf-8")
    project = '[project]\nname = "amplifier-module-tool-echo"\nversion = "1"\n'
    (folder / "pyproject.toml").write_text(project, encoding="utf-8")
    return folder


class Upstream:
    """A repository that bundles and modules are fetched from."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self._git("init", "--quiet", "--initial-branch=main")

    def commit(self, files: Mapping[str, str]) -> str:
        """Write files, commit everything and return the commit."""
        for name, content in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        self._git("add", "--all")
        self._git("commit", "--quiet", "--message=change")
        return self._git("rev-parse", "HEAD")

    @property
    def uri(self) -> str:
        """Return its address."""
        return f"git+file://{self.folder}@main"

    def _git(self, *arguments: str) -> str:
        author = [f"{who}.{what}=t@e" for who in ("user",) for what in ("name", "email")]
        options = [option for one in author for option in ("-c", one)]
        return subprocess.run(
            ["git", *options, *arguments], cwd=self.folder, check=True, capture_output=True, text=True
        ).stdout.strip()


@pytest.fixture
def upstream(tmp_path: Path, app_home: Path) -> Upstream:
    """Return an empty repository."""
    return Upstream(tmp_path / "upstream" / "sample")

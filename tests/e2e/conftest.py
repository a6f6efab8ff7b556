"""The program as its users have it: real processes, an empty home, a project of their own."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]

_BUNDLE = """\
bundle: {name: scripted}
session:
  orchestrator: {module: loop-basic}
  context: {module: context-simple}
providers:
  - {module: provider-mock, config: {scenario: scenario.yaml}}
hooks:
  - {module: hooks-redaction}
  - {module: hooks-logging}
"""

_GATE = """
    import asyncio
    from pathlib import Path

    async def wait(event, data):
        while not Path({go!r}).exists():
            await asyncio.sleep(0.01)

    async def mount(coordinator, config=None):
        # Not at `llm:request`: an event is logged when its handlers are done.
        coordinator.hooks.register("llm:stream_block_start", wait, priority=10_000)
"""


@dataclass(frozen=True)
class Project:
    """A folder to run the program in."""

    folder: Path
    environment: dict[str, str]
    #: Starts processes as `subprocess.Popen` does.
    popen: Callable[..., subprocess.Popen[str]]

    @property
    def home(self) -> Path:
        """Where the sessions lie."""
        return self.folder.parent / "home"

    def script(self, turns: list[dict[str, Any]], *, bundle: str = _BUNDLE, modules: tuple[str, ...] = ()) -> None:
        """Write a bundle whose model says `turns`, with further tool modules."""
        # JSON is YAML too.
        (self.folder / "scenario.yaml").write_text(json.dumps({"turns": turns}))
        tools = "".join(f"  - {{module: {module}}}\n" for module in modules)
        (self.folder / "bundle.yaml").write_text(bundle + (f"tools:\n{tools}" if tools else ""))

    def module(self, name: str, source: str) -> None:
        """Write a module that the program finds."""
        package = self.folder / "modules" / f"amplifier_module_{name.replace('-', '_')}"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(textwrap.dedent(source))

    def gate(self) -> Path:
        """Let the model of the scripted bundle wait, once it is asked, for a file to be made; return its path."""
        go = self.folder.parent / "go"
        self.module("hooks-gate", _GATE.format(go=str(go)))
        with (self.folder / "bundle.yaml").open("a") as bundle:
            bundle.write("  - {module: hooks-gate}\n")
        return go

    def command(self, *arguments: str) -> list[str]:
        """Return the command line of the program."""
        return [sys.executable, "-m", "amplifier_app_cli", *arguments]

    def start(self, *arguments: str, **more: Any) -> subprocess.Popen[str]:
        """Start the program and do not wait for it."""
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return self.popen(
            self.command(*arguments), cwd=self.folder, env=self.environment, text=True, **{**streams, **more}
        )

    def run(self, *arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
        """Run the program to its end."""
        process = self.start(*arguments, **more)
        out, error = process.communicate(timeout=60)
        return subprocess.CompletedProcess(arguments, process.returncode, out, error)

    def go(self, **more: Any) -> subprocess.CompletedProcess[str]:
        """Run the scripted bundle."""
        return self.run("run", "--bundle", "bundle.yaml", "go", **more)

    def logs(self) -> list[Path]:
        """Return the logs of all sessions."""
        return sorted(self.home.glob("projects/*/sessions/*/events.jsonl"))

    def events(self) -> list[str]:
        """Return the names of the events of the one session there is, in order."""
        [log] = self.logs()
        return [json.loads(line)["event"] for line in log.read_bytes().splitlines()]

    def wait_for_event(self, name: str) -> Path:
        """Wait until the one session has logged an event, in a whole line, and return its folder."""

        def found() -> Path | None:
            for log in self.logs():
                whole = [line for line in log.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
                if any(json.loads(line)["event"] == name for line in whole):
                    return log.parent
            return None

        return wait_for(found)


def wait_for(found: Callable[[], Path | None]) -> Path:
    """Wait until something is there."""
    for _ in range(6000):
        if (what := found()) is not None:
            return what
        time.sleep(0.01)
    raise AssertionError("it never happened")


@pytest.fixture
def project(tmp_path: Path, popen: Callable[..., subprocess.Popen[str]]) -> Project:
    """Return an empty project with an empty home."""
    folder = tmp_path / "project"
    (folder / "modules").mkdir(parents=True)
    dropped = ("AMPLIFIER", "PYTHONUNBUFFERED")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    paths = [str(folder / "modules"), *filter(None, [os.environ.get("PYTHONPATH")])]
    own = {"AMPLIFIER_HOME": str(tmp_path / "home"), "PYTHONPATH": os.pathsep.join(paths)}
    # A process that runs out of disk would leave bytecode cut short, for everyone to trip over.
    return Project(folder, {**kept, **own, "PYTHONDONTWRITEBYTECODE": "1"}, popen)


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Import modules of the benchmarks and of the search for secrets, which belong to no package."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "planted"))
    return importlib.import_module

"""What the tests of the program share: an empty project, an empty home, and the program in it."""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from amplifier_app_cli.main import main

_WITH_CONSTANTS = """\
from importlib import import_module
for name, value in {}.items():
    module, _, constant = name.rpartition(".")
    assert hasattr(import_module(module), constant), name
    setattr(import_module(module), constant, value)
import_module("amplifier_app_cli.main").main(prog_name="amplifier")
"""


_GATE = """\
import asyncio
from pathlib import Path

async def wait(event, data):
    Path("asked").touch()
    while not Path("go").exists():
        await asyncio.sleep(0.01)

async def mount(coordinator, config=None):
    coordinator.hooks.register("llm:request", wait, priority=10_000)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return an empty project folder."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Return an environment with an empty home."""
    home = tmp_path / "home"
    home.mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AMPLIFIER")}
    return {**kept, "HOME": str(home)}


@pytest.fixture
def free_tools(environment: dict[str, str]) -> None:
    """Let the tools of a test run unasked: those whose action is `test.free`."""
    folder = Path(environment["HOME"]) / ".amplifier"
    folder.mkdir(mode=0o700)
    (folder / "policy.yaml").write_text("rules: [{action: test.free, verdict: allow}]\n", encoding="utf-8")


@pytest.fixture
def add_module(project: Path, environment: dict[str, str]) -> Callable[[str, str], None]:
    """Return a function that writes a module of that id, and makes it importable for the program."""

    def add(name: str, code: str) -> None:
        package = project / name / f"amplifier_module_{name.replace('-', '_')}"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(code, encoding="utf-8")
        given = [str(project / name), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment["PYTHONPATH"] = os.pathsep.join(given)

    return add


@pytest.fixture
def gate(add_module: Callable[[str, str], None]) -> str:
    """Return the line of a bundle's hooks that makes every model wait, from `asked` in the project to `go`."""
    add_module("hooks-gate", _GATE)
    return "  - {module: hooks-gate}\n"


@pytest.fixture
def amplifier(project: Path, environment: dict[str, str]) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that runs the program in the project, in this process; see `amplifier_process`."""

    def run(*arguments: str, stdin: str | None = None, **more: str) -> subprocess.CompletedProcess[str]:
        with _program_state(project, {**environment, **more}):
            result = CliRunner().invoke(main, arguments, input=stdin, prog_name="amplifier")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return subprocess.CompletedProcess(arguments, result.exit_code, result.stdout, result.stderr)

    return run


@contextmanager
def _program_state(folder: Path, environment: dict[str, str]) -> Iterator[None]:
    """Give the program the state that a process of its own would have, and restore this process afterwards."""
    root = logging.getLogger()
    handlers, variables, paths, modules = list(root.handlers), dict(os.environ), list(sys.path), set(sys.modules)
    # The program reports warnings of libraries unless the process has a handler for them, which pytest's would be.
    root.handlers.clear()
    _set_environment(environment)
    sys.path[:0] = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    importlib.invalidate_caches()
    try:
        with chdir(folder):
            yield
    finally:
        root.handlers[:] = handlers
        _set_environment(variables)
        sys.path[:] = paths
        # A run freezes what is there when it has started, and again when the interpreter ends.
        gc.unfreeze()
        atexit.unregister(gc.freeze)
        for name in set(sys.modules) - modules:
            origin = getattr(sys.modules[name], "__file__", None)
            if origin is not None and Path(origin).is_relative_to(folder.parent):
                del sys.modules[name]


def _set_environment(variables: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(variables)


@pytest.fixture
def start(
    popen: Callable[..., subprocess.Popen[str]], project: Path, environment: dict[str, str]
) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Return a function that starts the program in the project as a process, which is ended with the test.

    `constants` are other values for constants of modules, such as time limits, by their full names.
    """
    started: list[subprocess.Popen[str]] = []

    def begin(*arguments: str, constants: Mapping[str, float] | None = None, **options: Any) -> subprocess.Popen[str]:
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        command = [sys.executable, "-m", "amplifier_app_cli", *arguments]
        if constants:
            command[1:3] = ["-c", _WITH_CONSTANTS.format(constants)]
        process = popen(command, **{"cwd": project, "env": environment, "text": True, **pipes, **options})
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.wait()
        for stream in filter(None, (process.stdin, process.stdout, process.stderr)):
            stream.close()


@pytest.fixture
def amplifier_process(
    start: Callable[..., subprocess.Popen[str]], environment: dict[str, str]
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that runs the program in the project as a process, for tests whose subject that is."""

    def run(*arguments: str, stdin: str | None = None, **more: str) -> subprocess.CompletedProcess[str]:
        given = subprocess.DEVNULL if stdin is None else subprocess.PIPE
        process = start(*arguments, env={**environment, **more}, stdin=given)
        out, error = process.communicate(stdin, timeout=60)
        return subprocess.CompletedProcess(arguments, process.returncode, out, error)

    return run


@pytest.fixture
def wait_until() -> Callable[[Callable[[], bool], subprocess.Popen[str]], None]:
    """Return a function that waits for a condition that a process brings about."""

    def wait(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
        while not condition():
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)

    return wait


@pytest.fixture
def wait_for_line() -> Callable[[str, subprocess.Popen[str]], None]:
    """Return a function that reads what a process says until a line has a text in it."""

    def wait(text: str, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        while text not in (line := process.stderr.readline()):
            assert line, f"it never said {text!r}"

    return wait


@pytest.fixture
def logged(environment: dict[str, str]) -> Callable[..., list[dict[str, Any]]]:
    """Return a function that reads the logs of all sessions by now: every record, or those of the named events."""

    def read(*names: str) -> list[dict[str, Any]]:
        logs = Path(environment["HOME"]).glob(".amplifier/projects/*/sessions/*/events.jsonl")
        lines = [line for log in logs for line in log.read_text(encoding="utf-8").splitlines(keepends=True)]
        records = [json.loads(line) for line in lines if line.endswith("\n")]
        return [record for record in records if not names or record["event"] in names]

    return read


@pytest.fixture
def at_terminal(spawn: Callable[..., Any], project: Path, environment: dict[str, str]) -> Callable[..., Any]:
    """Return a function that starts the program in the project, at a terminal; it is ended with the test."""

    def begin(*arguments: str, dimensions: tuple[int, int] = (24, 80), **more: str) -> Any:
        command = [sys.executable, "-m", "amplifier_app_cli", *arguments]
        return spawn(command, cwd=str(project), env={**environment, **more}, dimensions=dimensions)

    return begin


@pytest.fixture
def on_full_disk(start: Callable[..., subprocess.Popen[str]]) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that runs the program where nothing can be written to its output."""
    if not Path("/dev/full").exists():
        pytest.skip("there is no full device")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        with open("/dev/full", "w") as full:
            process = start(*arguments, stdout=full)
        _, error = process.communicate(timeout=60)
        return subprocess.CompletedProcess(arguments, process.returncode, "", error)

    return run

"""Universes for tests of modules: `universe(profile)` launches one, and the end of the test destroys it.

    pytest_plugins = ["amplifier_testing.universe"]

    def test_it_greets(universe):
        twin = universe("twin.yaml", AMPLIFIER="../amplifier")
        assert twin.exec("amplifier run hello --bundle greet").exit_code == 0

It drives the program `amplifier-digital-twin`. Where no container engine works, tests that use it are skipped with the
reason that `amplifier-digital-twin doctor` gives.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from amplifier_kit.guard.processes.launch import run_program

_SECONDS: Final = 30 * 60.0
#: The program prints everything as one JSON object.
_OUTPUT: Final = 64 * 1024 * 1024


class UniverseError(Exception):
    """The program reported an error; `code` is stable, and the message ends with what to do."""

    def __init__(self, code: str, message: str, remedy: str) -> None:
        super().__init__(f"{code}: {message}\n{remedy}")
        self.code = code


class Finished(NamedTuple):
    """How a command inside ended."""

    exit_code: int
    stdout: str
    stderr: str


class Universe:
    """A universe that is running."""

    def __init__(self, launched: dict[str, Any]) -> None:
        #: The program's answer to `launch`.
        self.launched = launched
        self.id = str(launched["id"])

    def exec(self, command: str | Sequence[str], *, user: str | None = None, timeout: float | None = None) -> Finished:
        """Run a line of the shell, or the words of a command, in the user's home. Raises UniverseError."""
        options = [] if user is None else [f"--user={user}"]
        options += [] if timeout is None else [f"--timeout={timeout:g}"]
        words = [command] if isinstance(command, str) else list(command)
        answer = twin_program("exec", self.id, *options, "--", *words)
        return Finished(answer["exit_code"], answer["stdout"], answer["stderr"])

    def push(self, source: Path | str, destination: str) -> str:
        """Copy a file or directory into the universe; return where it is there. Raises UniverseError."""
        return str(twin_program("file-push", self.id, "--recursive", str(source), destination)["path"])

    def pull(self, source: str, destination: Path | str) -> list[Path]:
        """Copy a file, a directory or what a glob finds to this machine; return the files. Raises UniverseError."""
        answer = twin_program("file-pull", self.id, source, str(destination))
        return [Path(path) for path in answer["files"]]


def twin_program(*arguments: str) -> dict[str, Any]:
    """Run `amplifier-digital-twin` and return its answer; raise UniverseError for an error."""
    argv = [sys.executable, "-m", "amplifier_digital_twin", *arguments]
    done = run_program(
        argv,
        timeout=_SECONDS,
        environment=os.environ,
        cwd=Path.cwd(),
        because="profiles and variables name paths relative to the test's folder",
        is_split=True,
        limit=_OUTPUT,
    )
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        raise UniverseError("internal", done.stderr.decode("utf-8", "replace"), "see the output above") from None
    if error := answer.get("error"):
        raise UniverseError(error["code"], error["message"], error["remedy"])
    return answer


@pytest.fixture(scope="session")
def universes_work() -> None:
    """Skip unless a container engine works here."""
    answer = twin_program("doctor")
    if not answer["usable"]:
        pytest.skip("; ".join(answer["remedies"]))


@pytest.fixture
def universe(universes_work: None) -> Iterator[Callable[..., Universe]]:
    """Return a function that launches a universe from a profile, with its variables as keywords."""
    launched: list[Universe] = []

    def launch(profile: Path | str, **variables: str) -> Universe:
        given = [f"--var={name}={value}" for name, value in variables.items()]
        made = Universe(twin_program("launch", str(profile), *given))
        launched.append(made)
        return made

    try:
        yield launch
    finally:
        for each in launched:
            twin_program("destroy", each.id)

"""Modules that are fetched and installed: by two at once, by one that is killed, without a network, and as locked."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

#: The model calls the tool once and then says that it is done.
CALLS = [{"tool_calls": [{"name": "greet", "arguments": {}}]}, {"text": "Done."}]


def _use(project: Any, source: str, turns: list[dict[str, Any]] = CALLS) -> None:
    """Write a bundle outside of the project that has the module `tool-greet` from a source."""
    project.script(turns)
    bundle = project.folder / "bundle.yaml"
    with bundle.open("a", encoding="utf-8") as file:
        file.write(f"tools:\n  - {{module: tool-greet, source: {json.dumps(source)}}}\n")


def _said(project: Any, answer: str) -> bool:
    """Tell whether a session's tool gave this answer."""
    transcripts = project.home.glob("projects/*/sessions/*/transcript.jsonl")
    return any(
        message.get("role") == "tool" and answer in str(message["content"])
        for transcript in transcripts
        for message in map(json.loads, transcript.read_bytes().splitlines())
    )


def _finished(folder: Path) -> list[Path]:
    """Return the finished entries of a cache."""
    return [path for path in folder.iterdir() if not path.name.startswith(".") and path.is_dir()]


def _unfinished(home: Path) -> list[Path]:
    """Return what was begun and not finished."""
    return [*home.glob("cache/.*.tmp"), *home.glob("cache/installed/.staging*")]


GO = ("run", "--bundle", "bundle.yaml", "go")


def test_two_processes_fetch_and_install_the_same_module_once(
    project: Any, repository: Any, wheel: str, tool: Callable[..., dict[str, str]], hold_up: Callable[[str], Any]
) -> None:
    """Of two runs that need the same module at once, one fetches and installs, and both have it."""
    repository.commit(tool("tool-greet", output="leaf_of_tests.VERSION", needs=wheel))
    _use(project, repository.uri)
    git, uv = hold_up("git"), hold_up("uv")
    both = [project.start(*GO) for _ in range(2)]
    for program in (git, uv):
        program.wait_for_call()
        program.let_go()
    done = [(*process.communicate(timeout=60), process.returncode) for process in both]
    assert [(out, code) for out, _, code in done] == [("Done.\n", 0)] * 2, done
    told = "".join(error for _, error, _ in done)
    assert told.count("installing for tool-greet") == 1, told
    assert (len(git.calls), len(uv.calls)) == (1, 1)
    assert len(_finished(project.home / "cache" / "installed")) == 1
    assert _unfinished(project.home) == []
    assert _said(project, "1.5")


@pytest.mark.parametrize("program", ["git", "uv"])
def test_a_run_killed_while_it_makes_the_cache(
    project: Any,
    repository: Any,
    wheel: str,
    tool: Callable[..., dict[str, str]],
    hold_up: Callable[[str], Any],
    program: str,
) -> None:
    """What a killed run left half-made is never used: the next one makes it anew, while the orphan still writes."""
    repository.commit(tool("tool-greet", output="leaf_of_tests.VERSION", needs=wheel))
    _use(project, repository.uri)
    path = project.environment["PATH"]
    held = hold_up(program)
    process = project.start(*GO)
    held.wait_for_call()
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    [half] = _unfinished(project.home)
    assert list(half.iterdir()), "something was begun"
    project.environment["PATH"] = path
    if program == "uv":
        os.rename(project.folder / "modules" / "uv", project.folder / "not-uv")
    done = project.run(*GO)
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    assert _said(project, "1.5")
    held.let_go()
    again = project.run(*GO)
    assert (again.returncode, again.stdout) == (0, "Done.\n"), again.stderr
    assert "fetching" not in again.stderr + again.stdout
    assert "installing" not in again.stderr


def test_what_was_prepared_once_runs_without_a_network(
    project: Any, repository: Any, wheel: str, tool: Callable[..., dict[str, str]]
) -> None:
    """A bundle whose modules were fetched and installed before runs with everything it came from gone."""
    repository.commit(tool("tool-greet", output="leaf_of_tests.VERSION", needs=wheel))
    _use(project, repository.uri)
    never = project.run("run", "--offline", "--bundle", "bundle.yaml", "go")
    assert project.run(*GO).returncode == 0
    os.rename(repository.folder, repository.folder.with_name("gone"))
    project.environment.update(UV_FIND_LINKS="/nonexistent", PATH="/nonexistent")
    for more in ([], ["--offline"], ["--offline", "--locked"]):
        done = project.run("run", *more, "--bundle", "bundle.yaml", "go")
        assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    assert never is not None

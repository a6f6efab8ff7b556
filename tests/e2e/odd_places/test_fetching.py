"""Modules that are fetched and installed: by two at once, by one that is killed, without a network, and as locked."""

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

GO = ("run", "--bundle", "bundle.yaml", "go")


def _use(project: Any, source: str, says: str = "hello") -> None:
    """Write a bundle that has `tool-greet` from a source; its model answers when the tool is `greet_<says>`."""
    project.script([{"text": "Done.", "expect": {"tools": [f"greet_{says}"]}}])
    with (project.folder / "bundle.yaml").open("a", encoding="utf-8") as file:
        file.write(f"tools:\n  - {{module: tool-greet, source: {json.dumps(source)}}}\n")


def _check_done(done: subprocess.CompletedProcess[str]) -> None:
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr


def _finished(folder: Path) -> list[Path]:
    """Return the finished entries of a cache."""
    return [path for path in folder.iterdir() if not path.name.startswith(".") and path.is_dir()]


def _unfinished(home: Path) -> list[Path]:
    """Return what was begun and not finished."""
    return [*home.glob("cache/.*.tmp"), *home.glob("cache/installed/.staging*")]


def test_two_processes_fetch_and_install_the_same_module_once(
    project: Any, repository: Any, wheel: str, tool: Callable[..., dict[str, str]], hold_up: Callable[[str], Any]
) -> None:
    """Of two runs that need the same module at once, one fetches and installs, and both have it."""
    repository.commit(tool(says="leaf_of_tests.VERSION", needs=wheel))
    _use(project, repository.uri, "whole")
    git, uv = hold_up("git"), hold_up("uv")
    both = [project.start(*GO) for _ in range(2)]
    git.wait_for_call(*both)
    first = sorted(process.stderr.readline().partition(" ")[0] for process in both)
    assert first == ["fetching", "waiting"]
    git.let_go()
    uv.wait_for_call(*both)
    uv.let_go()
    done = [(*process.communicate(timeout=60), process.returncode) for process in both]
    assert [(out, code) for out, _, code in done] == [("Done.\n", 0)] * 2, done
    told = "".join(error for _, error, _ in done)
    assert told.count("installing for tool-greet") == 1, told
    assert (len(git.calls), len(uv.calls)) == (1, 1)
    assert len(_finished(project.home / "cache" / "installed")) == 1
    assert _unfinished(project.home) == []


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
    repository.commit(tool(says="leaf_of_tests.VERSION", needs=wheel))
    _use(project, repository.uri, "whole")
    path = project.environment["PATH"]
    held = hold_up(program)
    process = project.start(*GO)
    held.wait_for_call(process)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    [half] = _unfinished(project.home)
    assert list(half.iterdir()), "something was begun"
    project.environment["PATH"] = path
    if program == "uv":
        os.rename(project.folder / "modules" / "uv", project.folder / "not-uv")
    _check_done(project.run(*GO))
    held.let_go()
    again = project.run(*GO)
    _check_done(again)
    assert "ing for" not in again.stderr
    assert "fetching" not in again.stderr


def test_what_was_prepared_once_runs_without_a_network(
    project: Any, repository: Any, wheel: str, tool: Callable[..., dict[str, str]]
) -> None:
    """A bundle whose modules were fetched and installed before runs with everything it came from gone."""
    repository.commit(tool(says="leaf_of_tests.VERSION", needs=wheel))
    _use(project, repository.uri, "whole")
    assert project.run(*GO).returncode == 0
    os.rename(repository.folder, repository.folder.with_name("gone"))
    project.environment.update(UV_FIND_LINKS="/nonexistent", PATH="/nonexistent")
    for more in ([], ["--offline"], ["--offline", "--locked"]):
        _check_done(project.run("run", *more, "--bundle", "bundle.yaml", "go"))

"""Modules that are fetched and installed: by two at once, by one that is killed, without a network, and as locked."""

import json
import os
import shutil
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
    """Return the finished entries of a cache without the metadata of modules, which needs no installer."""
    return [path for path in folder.iterdir() if not path.name.startswith((".", "metadata-")) and path.is_dir()]


def _unfinished(home: Path) -> list[Path]:
    """Return what was begun and not finished."""
    return [*home.glob("cache/.*.tmp"), *home.glob("cache/installed/.*.tmp")]


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


def test_offline_and_never_fetched(project: Any) -> None:
    """What was never fetched cannot be had without a network, and the message says what to run."""
    _use(project, "git+https://git.invalid/greet@main")
    done = project.run("run", "--offline", "--bundle", "bundle.yaml", "go")
    assert (done.returncode, done.stdout) == (6, ""), done.stderr
    assert "tool-greet" in done.stderr
    assert f"{project.folder / 'bundle.yaml'}:11" in done.stderr
    assert "run once without --offline" in done.stderr
    assert project.logs() == []


def test_a_module_that_cannot_be_installed(
    project: Any, repository: Any, wheel: str, tool: Callable[..., dict[str, str]]
) -> None:
    """An installation that fails ends the run with the installer's words, leaves nothing half-made, and is repeated."""
    repository.commit(tool(says="leaf_of_tests.VERSION", needs=f"{wheel}==9"))
    _use(project, repository.uri, "whole")
    for _ in range(2):
        done = project.run(*GO)
        assert (done.returncode, done.stdout) == (6, ""), done.stderr
        assert "tool-greet" in done.stderr
        assert f"{wheel}==9" in done.stderr
        assert _unfinished(project.home) == []
        assert _finished(project.home / "cache" / "installed") == []


# -- the lock --


def test_a_lock_holds_when_its_sources_move_on(
    project: Any, repository: Any, tool: Callable[..., dict[str, str]], write_files: Callable[..., None]
) -> None:
    """With a lock the same commit is used, from the cache or fetched anew, whatever the branch has meanwhile."""
    _use(project, repository.uri)
    _check_done(project.run(*GO))
    lock = project.folder / "bundle.lock"
    pinned = json.loads(lock.read_bytes())["sources"][repository.uri]
    assert pinned["commit"] == repository.git("rev-parse", "HEAD")
    repository.commit(tool(says='"newer"'))
    for removed in (False, True):
        if removed:
            shutil.rmtree(project.home / "cache")
        for more in ([], ["--locked"]):
            _check_done(project.run("run", *more, "--bundle", "bundle.yaml", "go"))
    assert json.loads(lock.read_bytes())["sources"] == {repository.uri: pinned}


def _tamper(project: Any) -> Path:
    """Change every copy in the cache; return the file that shows that changed code has run."""
    ran: Path = project.folder / "ran"
    for entry in _finished(project.home / "cache"):
        for code in entry.glob("*/__init__.py"):
            code.write_text(f"open({str(ran)!r}, 'w')\n" + code.read_text(encoding="utf-8"), encoding="utf-8")
    return ran


@pytest.mark.parametrize("more", [(), ("--locked",), ("--locked", "--offline")])
def test_a_cache_that_was_changed(project: Any, repository: Any, more: tuple[str, ...]) -> None:
    """Changed code never runs under a lock: it is fetched anew, and a changed copy of the locked commit is an error."""
    _use(project, repository.uri)
    _check_done(project.run(*GO))
    locked = ("run", *more, "--bundle", "bundle.yaml", "go")
    ran = _tamper(project)
    _check_done(project.run(*locked))
    _tamper(project)
    done = project.run(*locked)
    assert (done.returncode, done.stdout) == (6, ""), done.stderr
    pinned = json.loads((project.folder / "bundle.lock").read_bytes())["sources"][repository.uri]["sha256"]
    assert f"the lock file has content {pinned}, but this is " in done.stderr
    assert f"{project.home / 'cache'}" in done.stderr
    assert "delete that folder" in done.stderr
    assert not ran.exists()
    shutil.rmtree(project.home / "cache")
    _check_done(project.run(*locked))


def test_a_changed_cache_and_nothing_to_fetch_from(project: Any, repository: Any) -> None:
    """When the locked content is neither in the cache nor to be had, the run fails; changed code does not run."""
    _use(project, repository.uri)
    _check_done(project.run(*GO))
    ran = _tamper(project)
    os.rename(repository.folder, repository.folder.with_name("gone"))
    done = project.run("run", "--locked", "--bundle", "bundle.yaml", "go")
    assert (done.returncode, done.stdout) == (6, ""), done.stderr
    assert "tool-greet" in done.stderr
    assert not ran.exists()


def test_a_source_that_the_lock_does_not_have(project: Any, repository: Any) -> None:
    """With --locked nothing is used that is not in the lock, and the message says so."""
    _use(project, repository.uri)
    done = project.run("run", "--locked", "--bundle", "bundle.yaml", "go")
    assert (done.returncode, done.stdout) == (6, ""), done.stderr
    assert "is not in the lock file" in done.stderr
    assert repository.uri in done.stderr
    assert not list(project.home.glob("cache/*greet*"))


def test_a_lock_that_is_malformed(project: Any, repository: Any) -> None:
    """A lock that cannot be understood is an error with file and line, never taken for no lock."""
    _use(project, repository.uri)
    (project.folder / "bundle.lock").write_bytes(
        b'\xef\xbb\xbf{"version": 1,\r\n"bundle": "scripted",\r\n"sources": [}'
    )
    for more in ([], ["--locked"]):
        done = project.run("run", *more, "--bundle", "bundle.yaml", "go")
        assert (done.returncode, done.stdout) == (1, ""), done.stderr
        assert f"{project.folder / 'bundle.lock'}:3: malformed" in done.stderr

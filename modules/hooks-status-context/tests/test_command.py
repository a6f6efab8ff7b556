"""git may hang, flood, fork, be misled or not be there: the session goes on and nothing is left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.testing import MockCoordinator, wait_for
from amplifier_kit.guard.processes.launch import open_process_with_protocol
from amplifier_module_hooks_status_context import command as command_module
from amplifier_module_hooks_status_context import mount
from amplifier_module_hooks_status_context.command import OUTPUT_LIMIT, Git
from amplifier_module_hooks_status_context.config import StatusConfig
from amplifier_module_hooks_status_context.repository import repository_lines

#: git hangs, and has started somebody else who hangs too.
HANGING = "echo $$ > pid.new; sleep 1000 & echo $! >> pid.new; mv pid.new pids; wait\n"


def is_running(pid: int) -> bool:
    """Tell whether a process runs; one that only waits to be collected does not."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return False
    return state != "Z"


def pids_of(folder: Path) -> list[int]:
    """Return the processes that a fake git reported, none when it has not started yet."""
    report = folder / "pids"
    return [int(pid) for pid in report.read_text(encoding="utf-8").split()] if report.exists() else []


SkipTime = Callable[[float], None]


@pytest.fixture
def skip_time(monkeypatch: pytest.MonkeyPatch) -> SkipTime:
    """Give `skip_time(seconds)`: let the clock of the event loop jump, so that deadlines are over by it."""

    def skip(seconds: float) -> None:
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: time.monotonic() + seconds)

    return skip


async def test_git_that_hangs_is_killed_with_all_it_started(
    fake_git: Callable[[str], Path], repository: Any, skip_time: SkipTime
) -> None:
    """At the deadline the whole process group ends, and the line says why there is nothing about git."""
    folder = fake_git(HANGING)
    asking = asyncio.create_task(repository_lines(str(repository.path), StatusConfig(git_timeout=600)))
    assert await wait_for(lambda: bool(pids_of(folder)), timeout=60)
    skip_time(600)
    assert await asking == ["Git: not available (git took longer than 600 s)"]
    pids = pids_of(folder)
    assert len(pids) == 2
    assert await wait_for(lambda: not any(map(is_running, pids)), timeout=30)


async def test_a_cancelled_handler_leaves_no_process(fake_git: Callable[[str], Path], repository: Any) -> None:
    """When the session does not wait any longer, git and what it started end too."""
    folder = fake_git(HANGING)
    coordinator = MockCoordinator()
    coordinator.register_capability("session.working_dir", str(repository.path))
    coordinator.config["session"]["sandbox"] = "off"  # in which a fake git could report nothing
    await mount(coordinator, {"git_timeout": 1000})
    emitting = asyncio.create_task(coordinator.hooks.emit("provider:request", {}))
    assert await wait_for(lambda: bool(pids_of(folder)), timeout=60)
    emitting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await emitting
    assert await wait_for(lambda: not any(map(is_running, pids_of(folder))), timeout=30)


@pytest.mark.parametrize("steps", range(6))
async def test_a_handler_may_be_cancelled_while_git_starts(
    fake_git: Callable[[str], Path], repository: Any, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However little asyncio knows yet of a process that already runs, nothing of it is left."""
    folder, begun = fake_git(HANGING), asyncio.Event()

    async def start(*arguments: Any, **options: Any) -> Any:
        begun.set()
        return await open_process_with_protocol(*arguments, **options)

    monkeypatch.setattr(command_module, "open_process_with_protocol", start)
    asking = asyncio.create_task(repository_lines(str(repository.path), StatusConfig(git_timeout=1000)))
    await begun.wait()
    for _ in range(steps):
        await asyncio.sleep(0)
    _stand_still_until(lambda: bool(pids_of(folder)))
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert await wait_for(lambda: not any(map(is_running, pids_of(folder))), timeout=30)


def _stand_still_until(condition: Callable[[], bool]) -> None:
    """Keep the event loop from learning anything until git runs."""
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


async def test_what_is_known_by_the_deadline_is_told(
    fake_git: Callable[[str], Path], repository: Any, skip_time: SkipTime
) -> None:
    """A status that takes too long does not cost the branch and the commits."""
    folder = fake_git(
        'case "$*" in *symbolic-ref*) echo main;; *for-each-ref*) echo refs/heads/main;;\n'
        "*--max-count*) echo abc Begin;; *) touch hanging; exec sleep 1000;; esac\n"
    )
    asking = asyncio.create_task(repository_lines(str(repository.path), StatusConfig(git_timeout=600)))
    assert await wait_for((folder / "hanging").exists, timeout=60)
    skip_time(600)
    assert await asking == [
        "Git branch: main",
        "Main branch: main",
        "Git status: not known (git took longer than 600 s)",
        "Recent commits:",
        "abc Begin",
    ]


async def test_output_without_end_is_cut(fake_git: Callable[[str], Path], repository: Any) -> None:
    """A status that never ends is read up to the limit and listed as far as it goes; git is stopped."""
    folder = fake_git(
        'case "$*" in *symbolic-ref*) echo main; exit;; *--porcelain*) ;; *) exit 1;; esac\n'
        "echo $$ > pids; exec " + f"{sys.executable} -c 'while True: print(\"? file\", end=chr(0))'\n"
    )
    lines = await repository_lines(str(repository.path), StatusConfig(git_timeout=60, git_status_max_untracked=2))
    read = OUTPUT_LIMIT // len("? file\0")
    assert lines[1:5] == [
        f"Git status (at least {read} untracked):",
        "?? file",
        "?? file",
        f"({read - 2} more not listed)",
    ]
    [pid] = pids_of(folder)
    assert await wait_for(lambda: not is_running(pid), timeout=30)


async def test_somebody_who_keeps_the_pipe_open_is_not_waited_for(
    fake_git: Callable[[str], Path], repository: Any, skip_time: SkipTime
) -> None:
    """A daemon that git started, out of its group and holding its output, costs the deadline and no more."""
    daemon = "import os,sys,time; os.setsid(); open('pids','w').write(str(os.getpid())); time.sleep(1000)"
    folder = fake_git(
        'case "$*" in *symbolic-ref*) ;; *) touch next; exit 1;; esac\n'
        f'{sys.executable} -c "{daemon}" &\nwhile ! test -s pids; do sleep 0.05; done\necho main\n'
    )
    try:
        asking = asyncio.create_task(repository_lines(str(repository.path), StatusConfig(git_timeout=600)))
        assert await wait_for((folder / "next").exists, timeout=60)  # the first question is answered
        skip_time(600)
        assert (await asking)[0] == "Git branch: main"
    finally:
        for pid in pids_of(folder):
            os.kill(pid, signal.SIGKILL)


async def test_no_git_at_all(repository: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where git is not installed, the line says so and the rest is told."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert await repository_lines(str(repository.path), StatusConfig(git_timeout=60)) == [
        "Git: not available (git is not installed)"
    ]


async def test_a_git_that_cannot_be_started(repository: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A git that is no program is reported as such."""
    (repository.path / ".git" / "config").unlink()
    broken = tmp_path / "git"
    broken.write_bytes(b"\x7fELF nonsense")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    [line] = await repository_lines(str(repository.path), StatusConfig(git_timeout=60))
    assert line.startswith("Git: not available (git cannot be started: ")


async def test_a_git_of_the_folder_itself_is_not_run(repository: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies in the folder asked about may be anybody's: a program there does not stand for git, by no path."""
    marker = repository.path / "ran"
    planted = repository.write(".venv/bin/git", f"#!/bin/sh\ntouch {marker}\n")
    planted.chmod(0o755)
    link = repository.path.with_name("link")
    link.symlink_to(planted.parent)
    monkeypatch.setenv("PATH", f"{planted.parent}{os.pathsep}{link}{os.pathsep}.venv/bin")
    for folder in (repository.path, repository.write("below/file").parent):
        lines = await repository_lines(str(folder), StatusConfig(git_timeout=60))
        assert lines == ["Git: not available (git is not installed)"]
    assert not marker.exists()


async def test_a_git_that_fails_without_a_word(fake_git: Callable[[str], Path], repository: Any) -> None:
    """An exit status alone is no reason, and that is said."""
    fake_git("exit 77\n")
    assert await repository_lines(str(repository.path), StatusConfig(git_timeout=60)) == [
        "Git: not available (no reason given)"
    ]


async def test_the_questions_of_git_find_nobody(fake_git: Callable[[str], Path], repository: Any) -> None:
    """git has no input, no terminal to ask on, takes no locks, speaks a language we can read, and starts at the top."""
    folder = fake_git(
        '{ cat; echo "$GIT_TERMINAL_PROMPT $GIT_OPTIONAL_LOCKS $LC_ALL $OLDPWD"; echo "$GIT_WORK_TREE"; } > seen\n'
        "exit 77\n"
    )
    await repository_lines(str(repository.path), StatusConfig(git_timeout=60))
    prompt, work_tree = (folder / "seen").read_text(encoding="utf-8").splitlines()
    assert prompt == "0 0 C /"
    assert work_tree == str(repository.path)


async def test_after_the_deadline_nothing_is_started(fake_git: Callable[[str], Path], repository: Any) -> None:
    """A question that comes too late is answered without git."""
    folder = fake_git("touch started\n")
    opened = await Git().open(str(repository.path), 60)
    opened._deadline = 0
    [answer] = await opened.ask(("status",))
    opened.close()
    assert answer.failure == "git took longer than 60 s"
    assert not (folder / "started").exists()
    [line] = await repository_lines(str(repository.path), StatusConfig(git_timeout=1e-9))
    assert line == "Git: not available (git took longer than 1e-09 s)"


async def test_a_repository_cannot_start_programs(repository: Any, tmp_path: Path) -> None:
    """The file-system monitor that a repository configures is not run; plain git would run it."""
    marker = tmp_path / "started"
    monitor = repository.write(".git/monitor", f"#!/bin/sh\ntouch {marker}\n")
    monitor.chmod(0o755)
    repository.git("config", "core.fsmonitor", str(monitor))
    lines = await repository_lines(str(repository.path), StatusConfig(git_timeout=60))
    assert "Git status: clean" in lines
    assert not marker.exists()
    repository.git("status")
    assert marker.exists()


async def test_git_variables_of_others_do_not_mislead(
    repository: Any, make_repository: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Started from a git hook, we still describe the session's folder and not the repository of the hook."""
    other = make_repository("other")
    monkeypatch.setenv("GIT_DIR", str(other.path / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other.path / ".git" / "index"))
    lines = await repository_lines(str(repository.path), StatusConfig(git_timeout=60))
    assert lines[-1].endswith(" Begin")


async def test_the_index_is_left_alone(repository: Any) -> None:
    """Looking changes nothing: the index is not even refreshed, so that no lock gets in the way of anybody."""
    index = repository.path / ".git" / "index"
    os.utime(repository.path / "README.md", (1, 1))
    before = index.stat().st_mtime_ns, index.read_bytes()
    lines = await repository_lines(str(repository.path), StatusConfig(git_timeout=60))
    assert "Git status: clean" in lines
    assert (index.stat().st_mtime_ns, index.read_bytes()) == before


async def test_many_sessions_at_once(repository: Any) -> None:
    """Ten sessions in one folder get the same description, side by side."""
    settings = StatusConfig(git_timeout=100)
    descriptions = await asyncio.gather(*(repository_lines(str(repository.path), settings) for _ in range(10)))
    assert all(lines == descriptions[0] for lines in descriptions)
    assert "Git status: clean" in descriptions[0]

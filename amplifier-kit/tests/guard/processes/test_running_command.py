"""A command gives its output and its exit code, within its time, and touches no terminal."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from amplifier_core.testing import wait_for
from amplifier_kit.guard.processes.output import Output
from amplifier_kit.guard.processes.running_command import CommandSpec, StartError, run, start

MakeOrder = Callable[..., CommandSpec]
SkipTime = Callable[[float], None]


async def test_output_and_exit_code(shell: MakeOrder, tmp_path: Path) -> None:
    """Both streams are taken in whole, and the exit code is the command's; it runs in its folder."""
    stdout, stderr = Output(1000), Output(1000)
    outcome = await run(shell("pwd; echo $PWD; echo wrong >&2; exit 3"), stdout, stderr, timeout=60)
    assert outcome == (3, False, 0, ())
    assert stdout.shown().text == f"{tmp_path}\n{tmp_path}\n"
    assert stderr.shown().text == "wrong\n"


async def test_one_output_for_both(shell: MakeOrder) -> None:
    """Without a place for errors they stand among the output, in the order written."""
    output = Output(1000)
    await run(shell("echo a; echo b >&2; echo c"), output, timeout=60)
    assert output.shown().text == "a\nb\nc\n"


async def test_end_by_signal(shell: MakeOrder) -> None:
    """A command that is killed has the signal as a negative exit code."""
    assert (await run(shell("kill -SEGV $$"), Output(100), timeout=60)).returncode == -signal.SIGSEGV


async def test_there_is_no_input(shell: MakeOrder) -> None:
    """Whoever reads is at the end at once."""
    outcome = await run(shell("cat; read line; echo $?"), output := Output(100), timeout=60)
    assert (outcome.returncode, output.shown().text) == (0, "1\n")


async def test_hook_has_no_tty(shell: MakeOrder) -> None:
    """There is no terminal to ask on, to write to or to change, and no file of ours is open."""
    output = Output(1000)
    await run(
        shell("tty; (echo > /dev/tty) 2>/dev/null || echo none; ls /proc/self/fd | tr '\\n' ' '"), output, timeout=60
    )
    assert output.shown().text == "not a tty\nnone\n0 1 2 3 "


async def test_signals_are_as_a_shell_expects(shell: MakeOrder) -> None:
    """Python's own settings do not reach the command: a broken pipe ends a writer quietly."""
    stderr = Output(1000)
    outcome = await run(shell("set -o pipefail; yes | head -n 1"), Output(100), stderr, timeout=60)
    assert (outcome.returncode, stderr.shown().text) == (128 + signal.SIGPIPE, "")


async def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    """The reason is the system's, and the step is named."""
    with pytest.raises(StartError, match="the program cannot be started: No such file") as caught:
        await run(CommandSpec(("/no/such/program",), tmp_path, {}), Output(100), timeout=60)
    assert caught.value.step == "program"


async def test_hook_runs_when_cwd_is_gone(shell: MakeOrder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Our own folder may be gone, the command's may not."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert (await run(shell("true"), Output(100), timeout=60)).returncode == 0
    with pytest.raises(StartError, match="the working directory cannot be entered") as caught:
        await run(shell("true", folder=gone), Output(100), timeout=60)
    assert caught.value.step == "folder"
    monkeypatch.undo()


async def test_a_command_no_system_can_run(shell: MakeOrder) -> None:
    """A null byte is refused before anything is started."""
    with pytest.raises(ValueError, match="null byte"):
        await run(shell("echo a\0b"), Output(100), timeout=60)


async def test_at_the_deadline_the_command_may_tidy_up(shell: MakeOrder, skip_time: SkipTime) -> None:
    """SIGTERM comes first, and what the command still writes is taken in."""
    output = Output(1000)
    order = shell("trap 'echo tidied; exit 5' TERM; echo begun; while :; do sleep 0.05; done", grace=30.0)
    task = asyncio.create_task(run(order, output, timeout=600))
    assert await wait_for(lambda: output.total > 0, timeout=60)
    skip_time(600)
    outcome = await task
    assert outcome.is_timed_out
    assert outcome.returncode == 5
    assert output.shown().text.startswith("begun\n")
    assert output.shown().text.endswith("tidied\n")


async def test_who_ignores_sigterm_is_killed(
    shell: MakeOrder, nap: str, naps: Callable[[], list[int]], settled: Callable[[], list[int]], skip_time: SkipTime
) -> None:
    """SIGKILL follows."""
    order = shell(f"trap '' TERM; {nap} & {nap}; {nap}", grace=0.1)
    task = asyncio.create_task(run(order, Output(100), timeout=600))
    assert await wait_for(lambda: len(settled()) == 2, timeout=60)
    skip_time(600)
    outcome = await task
    assert (outcome.returncode, outcome.is_timed_out, outcome.alive) == (-signal.SIGKILL, True, ())
    assert naps() == []


async def test_no_deadline(shell: MakeOrder) -> None:
    """Without a time the command may take its own."""
    assert (await run(shell("sleep 0.1"), Output(100), timeout=None)).returncode == 0


async def test_a_flood_is_bounded(shell: MakeOrder, skip_time: SkipTime, monkeypatch: pytest.MonkeyPatch) -> None:
    """Output without end costs bounded memory, and other work goes on meanwhile."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    counting = asyncio.create_task(count())
    monkeypatch.setattr("amplifier_kit.guard.processes.output.FLOOD", 1_000_000)
    output = Output(10_000)
    task = asyncio.create_task(run(shell("yes"), output, timeout=600))
    assert await wait_for(lambda: output.total > 1_000_000 and turns > 10, timeout=60)
    skip_time(600)
    outcome = await task
    counting.cancel()
    assert outcome.is_timed_out
    assert output.total > 1_000_000
    assert len(output._start) + len(output._end) < 30_000
    assert turns > 10


async def test_a_hundred_at_once(shell: MakeOrder, nap: str, naps: Callable[[], list[int]]) -> None:
    """A hundred commands side by side each get their own output, and none leaves anything, files included."""
    before = set(os.listdir("/proc/self/fd"))
    outputs = [Output(100) for _ in range(100)]
    orders = [shell(f"setsid {nap} & echo {number}; exit {number}") for number in range(100)]
    work = (run(order, output, timeout=500) for order, output in zip(orders, outputs, strict=True))
    outcomes = await asyncio.gather(*work)
    assert [outcome.returncode for outcome in outcomes] == list(range(100))
    assert [output.shown().text for output in outputs] == [f"{number}\n" for number in range(100)]
    assert naps() == []
    assert set(os.listdir("/proc/self/fd")) <= before


async def test_too_many_open_files(shell: MakeOrder) -> None:
    """When no pipe can be made, that is the reason given, and those made already are closed."""
    before = set(os.listdir("/proc/self/fd"))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = sorted(map(int, before))
    limit = next(number for number in range(soft) if number - sum(one < number for one in used) == 4)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:
        with pytest.raises(StartError, match="Too many open files"):
            await run(shell("true"), Output(100), timeout=60)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert set(os.listdir("/proc/self/fd")) <= before


async def test_kept_processes_go_on(shell: MakeOrder, nap: str, naps: Callable[[], list[int]]) -> None:
    """What outlives a kept command runs on until it is stopped; the command's own end is known meanwhile."""
    running = start(shell(f"{nap} & exit 4", keeps_background=True), Output(100))
    assert await running.started() > 0
    assert await wait_for(lambda: running.has_ended and bool(naps()), timeout=60)
    assert not running.is_over
    assert running.outcome.returncode == 4
    outcome = await running.stop()
    assert (outcome.returncode, outcome.alive, naps()) == (4, (), [])
    assert bool(running.is_over)
    assert await running.stop() == outcome


async def test_a_launcher_that_fails_slowly_keeps_its_exit_code(shell: MakeOrder) -> None:
    """It may close the line to us before it exits: it is waited for, not killed, so that its failure is known."""
    close = 'for path in /proc/self/fd/*; do fd=${path##*/}; [ "$fd" -gt 2 ] && eval "exec $fd>&-"; done'
    order = replace(shell("true"), launcher=["/bin/bash", "-c", f"{close}; (sleep 0.3; exit 3); exit $?"])
    running = start(order, Output(100))
    assert (await running.wait()).returncode is None
    with pytest.raises(StartError, match="the sandbox could not be set up: exit code 3"):
        running.check_start()

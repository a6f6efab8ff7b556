"""Nothing of a command is left: not at its end, nor at its deadline, nor when nobody waits for it any longer."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from amplifier_core.testing import wait_for
from amplifier_kit.guard.processes import supervisor
from amplifier_kit.guard.processes.output import Output
from amplifier_kit.guard.processes.running_command import COMMAND_ID, CommandSpec, processes_with_id, run

MakeOrder = Callable[..., CommandSpec]
Naps = Callable[[], list[int]]
SkipTime = Callable[[float], None]

#: Ways to get away; NAP is what must not survive.
ESCAPES = {
    "background": "NAP &",
    "nohup": "nohup NAP >/dev/null 2>&1 &",
    "disown": "NAP & disown -a",
    "setsid": "setsid NAP &",
    "setsid fork": "setsid -f NAP",
    "double fork": "( ( setsid NAP & ) & )",
    "no environment": "env -i setsid -f NAP",
    "no output": "setsid -f NAP >/dev/null 2>&1 </dev/null",
    "ignores signals": "( trap '' TERM HUP INT; setsid -f NAP )",
    "daemon": (
        "{python} -c 'import os,sys;os.fork() and os._exit(0);os.setsid();os.fork() and os._exit(0);os.chdir(chr(47));"
        'os.environ.clear();os.closerange(0,100);os.execv("/bin/sh",["sh","-c","NAP"])\''
    ),
    "stands still": "setsid -f bash -c 'kill -STOP $$; true' NAP",
}


@pytest.fixture(params=ESCAPES)
def escape(request: pytest.FixtureRequest, nap: str) -> str:
    """Return one of the ways."""
    return ESCAPES[request.param].replace("{python}", sys.executable).replace("NAP", nap)


async def test_at_the_end(shell: MakeOrder, escape: str, naps: Naps, settled: Naps, tmp_path: Path) -> None:
    """What outlives a command is stopped before its result is there, and counted."""
    order = shell(f"{escape}\nuntil [ -e go ]; do sleep 0.01; done; echo done", linger=0.02, grace=0.1)
    task = asyncio.create_task(run(order, output := Output(100), timeout=60))
    assert await wait_for(lambda: bool(settled()), timeout=60)
    (tmp_path / "go").touch()
    outcome = await task
    assert output.shown().text == "done\n"
    assert outcome.returncode == 0
    assert outcome.leftovers >= 1
    assert naps() == []


async def test_at_the_deadline(
    shell: MakeOrder, escape: str, naps: Naps, settled: Naps, nap: str, skip_time: SkipTime
) -> None:
    """Whatever got away is stopped with the command."""
    task = asyncio.create_task(run(shell(f"{escape}\n{nap}", grace=0.1), Output(100), timeout=600))
    assert await wait_for(lambda: len(settled()) >= 2, timeout=60)
    skip_time(600)
    outcome = await task
    assert (outcome.is_timed_out, outcome.alive) == (True, ())
    assert naps() == []


async def test_when_cancelled(shell: MakeOrder, escape: str, naps: Naps, settled: Naps, nap: str) -> None:
    """A caller that is cancelled gets its exception when everything is gone."""
    task = asyncio.create_task(run(shell(f"{escape}\n{nap}", grace=0.1), Output(100), timeout=60))
    assert await wait_for(lambda: len(settled()) >= 2, timeout=60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert naps() == []


@pytest.mark.parametrize("steps", range(5))
async def test_when_cancelled_at_the_start(shell: MakeOrder, nap: str, naps: Naps, steps: int) -> None:
    """However early it is cancelled, nothing of the command is left, supervisor and open files included."""
    before = set(os.listdir("/proc/self/fd"))
    order = shell(nap, grace=0.1)
    task = asyncio.create_task(run(order, Output(100), timeout=60))
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert naps() == []
    assert processes_with_id(order.command_id) == []
    assert set(os.listdir("/proc/self/fd")) <= before


async def test_when_cancelled_again_and_again(shell: MakeOrder, nap: str, naps: Naps) -> None:
    """Impatience does not leave anything behind either."""
    order = shell(f"trap '' TERM; {nap} & {nap}; {nap}", grace=0.1)
    task = asyncio.create_task(run(order, Output(100), timeout=60))
    assert await wait_for(lambda: len(naps()) >= 2, timeout=60)
    while not task.done():
        task.cancel()
        await asyncio.sleep(0.01)
    assert task.cancelled()
    assert naps() == []


async def test_who_ends_soon_may_end(shell: MakeOrder, tmp_path: Path) -> None:
    """A process substitution that is about to write its last lines gets to."""
    outcome = await run(shell("echo text > >(sleep 0.05; cat > kept)", linger=60.0), Output(100), timeout=60)
    assert outcome.leftovers == 0
    assert (tmp_path / "kept").read_text(encoding="utf-8") == "text\n"


async def test_who_forks_without_end(
    shell: MakeOrder, nap: str, naps: Naps, settled: Naps, skip_time: SkipTime
) -> None:
    """Processes that start others as fast as they can, each in a session of its own, all end."""
    seed = f'setsid -f {nap}; sleep 0.02; exec setsid -f bash -c "$1" _ "$1"'
    script = f"for n in 1 2 3 4 5 6 7 8; do setsid -f bash -c '{seed}' _ '{seed}'; done; {nap}"
    task = asyncio.create_task(run(shell(script), Output(1000), timeout=600))
    assert await wait_for(lambda: len(settled()) >= 40, timeout=60)
    skip_time(600)
    outcome = await task
    assert (outcome.is_timed_out, outcome.alive) == (True, ())
    assert naps() == []


async def test_who_kills_the_supervisor(shell: MakeOrder, nap: str, naps: Naps, settled: Naps, tmp_path: Path) -> None:
    """Without its supervisor a command ends, and what it started is found by the mark in its environment."""
    order = shell(f"setsid -f {nap}; until [ -e go ]; do sleep 0.01; done; kill -KILL $PPID; {nap}")
    task = asyncio.create_task(run(order, Output(100), timeout=60))
    assert await wait_for(lambda: bool(settled()), timeout=60)
    (tmp_path / "go").touch()
    outcome = await task
    assert (outcome.returncode, outcome.is_timed_out) == (None, False)
    assert naps() == []
    assert processes_with_id(order.command_id) == []


async def test_who_kills_the_supervisor_unmarked(shell: MakeOrder, nap: str, naps: Naps) -> None:
    """The command itself ends with its supervisor, whatever it has done to its environment."""
    outcome = await run(shell(f"exec env -i bash -c 'kill -KILL $PPID; exec {nap}'"), Output(100), timeout=60)
    assert (outcome.returncode, outcome.is_timed_out) == (None, False)
    assert await wait_for(lambda: naps() == [], timeout=60)


async def test_who_stops_the_supervisor(
    shell: MakeOrder, nap: str, naps: Naps, settled: Naps, skip_time: SkipTime
) -> None:
    """A supervisor that was made to stand still is woken up."""
    order = shell(f"kill -STOP $PPID; setsid -f {nap}; {nap}", grace=30.0)
    task = asyncio.create_task(run(order, Output(100), timeout=600))
    assert await wait_for(lambda: len(settled()) >= 2, timeout=60)
    skip_time(600)
    outcome = await task
    assert (outcome.returncode, outcome.is_timed_out, outcome.alive) == (-signal.SIGTERM, True, ())
    assert naps() == []


async def test_when_we_are_killed(nap: str, naps: Naps, settled: Naps, tmp_path: Path) -> None:
    """A process that dies without a word takes its commands with it."""
    script = tmp_path / "caller.py"
    script.write_text(
        "import asyncio, os, sys\n"
        "from amplifier_kit.guard.processes.output import Output\n"
        "from amplifier_kit.guard.processes.running_command import CommandSpec, run\n"
        "order = CommandSpec(('/bin/bash', '-c', '--', sys.argv[1]), '/', dict(os.environ))\n"
        "asyncio.run(run(order, Output(100), timeout=1000))\n",
        encoding="utf-8",
    )
    command = f"env -i setsid -f {nap}; sleep 1000"
    with subprocess.Popen([sys.executable, str(script), command]) as caller:  # noqa: ASYNC220 -- killed below
        try:
            assert await wait_for(lambda: bool(settled()), timeout=60)
        finally:
            caller.send_signal(signal.SIGKILL)
    assert await wait_for(lambda: naps() == [], timeout=60)


async def test_every_process_is_marked(shell: MakeOrder) -> None:
    """The mark is in the environment of what a command starts."""
    order = shell(f"env | grep {COMMAND_ID}")
    await run(order, output := Output(100), timeout=60)
    assert output.shown().text == f"{COMMAND_ID}={order.command_id}\n"


async def test_the_command_is_not_in_the_supervisors_arguments(shell: MakeOrder) -> None:
    """A command that looks for processes by their command line does not find its own supervisor."""
    await run(shell("tr '\\0' ' ' < /proc/$PPID/cmdline # peculiar"), output := Output(1000), timeout=60)
    assert "supervisor.py" in output.shown().text
    assert "peculiar" not in output.shown().text


async def test_a_command_that_hangs_before_it_starts(
    shell: MakeOrder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The deadline also ends a command that never gets into its folder, as on a dead network share."""
    script = tmp_path / "hanging.py"
    folder = str(Path(supervisor.__file__).parent)
    script.write_text(
        f"import os, sys, time\nsys.path.append({folder!r})\nimport supervisor\n"
        "os.chdir = lambda _: time.sleep(600)\nsupervisor.main(sys.argv[1:])\n",
        encoding="utf-8",
    )
    monkeypatch.setattr("amplifier_kit.guard.processes.running_command._SUPERVISOR", str(script))
    order = shell("true")
    outcome = await asyncio.wait_for(run(order, Output(100), timeout=0.3), timeout=20)
    assert (outcome.is_timed_out, outcome.returncode, outcome.alive) == (True, -signal.SIGTERM, ())
    assert processes_with_id(order.command_id) == []

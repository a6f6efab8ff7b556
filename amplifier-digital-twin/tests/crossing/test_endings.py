"""The ends of commands: what is ended with them, what stays, and what a hostile command cannot prevent."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from amplifier_digital_twin.backends.twin import Finished, Run
from amplifier_digital_twin.embedded.entry import Entry
from amplifier_digital_twin.profile.model import User

Shell = Callable[..., Awaitable[Finished]]
_PATH = {"PATH": "/usr/bin:/bin"}
#: Daemons of every kind: in the background, of a session of their own, forked twice, deaf to polite signals.
_DAEMONS = (
    "sleep 9001 & setsid sleep 9002 & (setsid sh -c 'setsid sleep 9003 &' &); "
    "(trap '' TERM HUP INT; exec nohup setsid sleep 9004 >/dev/null 2>&1) & "
)


async def _sleepers(shell: Shell) -> set[str]:
    """Name the sleeps that run inside, by how long they would."""
    done = await shell("for f in /proc/[0-9]*/cmdline; do tr '\\0' ' ' < $f; echo; done 2>/dev/null")
    return {line.split()[1] for line in done.stdout.decode().splitlines() if line.startswith("sleep ")}


async def _until(condition: Callable[[], Awaitable[bool]]) -> None:
    for _ in range(1200):
        if await condition():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("it never came true")


async def test_timeout_ends_everything(shell: Shell) -> None:
    """At the timeout every descendant ends, those that left the session and the family too."""
    for seconds in (1.0, 30.0):  # twice only on a machine that is very busy
        done = await shell(_DAEMONS + "echo begun; sleep 9005", timeout=seconds)
        if done.stdout:
            break
    assert (done.is_timed_out, done.exit_code, done.stdout) == (True, 124, b"begun\n")
    assert await _sleepers(shell) == set()


async def test_timeout_spares_other_commands(entry: Entry, shell: Shell, user: User) -> None:
    """The end of one command does not touch another, nor what an earlier one left."""
    await shell("setsid sleep 8001 >/dev/null 2>&1 &")
    other = asyncio.create_task(entry.run(Run(["/bin/sh", "-c", "setsid sleep 8002 & sleep 8003"], _PATH, user)))

    async def has_begun() -> bool:
        return {"8001", "8002", "8003"} <= await _sleepers(shell)

    await _until(has_begun)
    assert (await shell("sleep 8004", timeout=0.3)).is_timed_out
    assert await _sleepers(shell) == {"8001", "8002", "8003"}
    other.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await other
    assert await _sleepers(shell) == {"8001"}


async def test_cancelling_ends_everything(entry: Entry, shell: Shell, user: User) -> None:
    """When the caller is cancelled, even twice, the command and all its descendants end."""
    running = asyncio.create_task(entry.run(Run(["/bin/sh", "-c", _DAEMONS + "sleep 9005"], _PATH, user)))

    async def has_begun() -> bool:
        return len(await _sleepers(shell)) == 5

    await _until(has_begun)
    running.cancel()
    await asyncio.sleep(0)
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running

    async def is_over() -> bool:
        return not await _sleepers(shell)

    await _until(is_over)
    assert await _sleepers(shell) == set()


async def test_cancelling_at_once(entry: Entry, shell: Shell, user: User) -> None:
    """A command cancelled at any moment of its start leaves nothing."""
    for pause in (0.0, 0.005, 0.02, 0.03, 0.04, 0.05, 0.06):
        running = asyncio.create_task(entry.run(Run(["/bin/sleep", "7001"], {}, user)))
        await asyncio.sleep(pause)
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
    assert await _sleepers(shell) == set()


async def test_normal_end_leaves_daemons(shell: Shell) -> None:
    """What a command leaves running at its own end stays, and its open streams do not delay the end."""
    done = await shell("echo begun; (while sleep 0.05; do echo more; done) & sleep 6001 &")
    assert done.exit_code == 0
    assert done.stdout.startswith(b"begun\n")

    async def has_begun() -> bool:
        return "6001" in await _sleepers(shell)

    await _until(has_begun)
    await asyncio.sleep(0.3)
    assert await has_begun(), "and it goes on"


async def test_daemon_writing_to_nobody_lives(shell: Shell) -> None:
    """A daemon that goes on writing to the stream of an ended command is neither blocked nor ended by that."""
    await shell("(while :; do head -c 200000 /dev/zero; echo x >> /tmp/rounds; sleep 0.02; done) & echo")

    async def has_gone_on() -> bool:
        return int((await shell("wc -l < /tmp/rounds")).stdout or b"0") >= 5

    await _until(has_gone_on)
    assert await has_gone_on()


async def test_fork_storm_ends(shell: Shell) -> None:
    """A command whose descendants fork without pause, each into a session of its own, is over at its timeout."""
    storm = (
        "storm() { [ $1 -gt 7 ] || { setsid sleep 5001 & storm $(($1 + 1)) & storm $(($1 + 1)) & wait; }; }; storm 1"
    )
    assert (await shell(f"{storm}; sleep 5002", timeout=0.3)).is_timed_out
    assert await _sleepers(shell) == set()


async def test_killing_the_adopter(walls: object, entry: Entry, shell: Shell, user: User) -> None:
    """A command may not signal what watches over it; where ids leave no choice, its processes end with it."""
    script = "setsid sleep 4001 & sleep 0.2; kill -9 $PPID; echo survived; sleep 1"
    done = await entry.run(Run(["/bin/sh", "-c", script], _PATH, user, timeout=60))
    if walls.kind == "mapped":  # type: ignore[attr-defined]
        assert b"survived" in done.stdout
        assert b"not permitted" in done.stderr.lower()

        async def goes_on() -> bool:
            return await _sleepers(shell) == {"4001"}

        await _until(goes_on)
    else:
        assert done.exit_code == 137
        assert await _sleepers(shell) == set()


async def test_stopping_the_adopter(walls: object, entry: Entry, shell: Shell, user: User) -> None:
    """A command that stops what watches over it still ends at its timeout."""
    script = "setsid sleep 4002 & kill -STOP $PPID; sleep 4003"
    done = await entry.run(Run(["/bin/sh", "-c", script], _PATH, user, timeout=1.0))
    assert done.is_timed_out
    assert await _sleepers(shell) == set()


async def test_death_of_the_host_process(walls: object, shell: Shell) -> None:
    """When the process that started a command is killed, the command and its descendants end."""
    program = (
        "import asyncio, sys\n"
        "from amplifier_digital_twin.backends.twin import Run\n"
        "from amplifier_digital_twin.embedded.entry import Entry\n"
        "from amplifier_digital_twin.profile.model import User\n"
        "run = Run(['/bin/sh', '-c', 'setsid sleep 3001 & sleep 3002'], {'PATH': '/usr/bin:/bin'}, User())\n"
        "async def main(): await Entry(int(sys.argv[1])).run(run)\n"
        "asyncio.run(main())\n"
    )
    host = await asyncio.create_subprocess_exec(sys.executable, "-c", program, str(walls.pid))  # type: ignore[attr-defined]

    async def has_begun() -> bool:
        return await _sleepers(shell) == {"3001", "3002"}

    async def is_over() -> bool:
        return not await _sleepers(shell)

    try:
        await _until(has_begun)
    finally:
        host.send_signal(signal.SIGKILL)
        await host.wait()
    await _until(is_over)
    assert await _sleepers(shell) == set()


async def test_twin_ends_while_a_command_runs(walls: object, entry: Entry, user: User) -> None:
    """A command whose twin ends is over, and its end is told as that of the twin."""
    begun = asyncio.Event()
    order = Run(["/bin/sh", "-c", "echo x; sleep 2001"], _PATH, user)
    running = asyncio.create_task(entry.run(order, lambda stream, data: begun.set()))
    await begun.wait()
    walls.end()  # type: ignore[attr-defined]
    (outcome,) = await asyncio.gather(running, return_exceptions=True)
    assert getattr(outcome, "code", None) == "twin_gone", outcome


async def test_nothing_is_left_on_the_host(entry: Entry, shell: Shell) -> None:
    """After commands, no descriptor, child or entrance process is left behind."""
    await shell("true")
    gc.collect()  # what other tests have left is not closed in between
    before, ended_before = sorted(os.listdir("/proc/self/fd")), _ended_children()
    for _ in range(3):
        await shell("true")
        await shell("sleep 1", timeout=0.1)
    assert sorted(os.listdir("/proc/self/fd")) == before
    assert _ended_children() <= ended_before


def _ended_children() -> set[str]:
    """Return the children of this process that have ended and were not waited for."""
    mine = f") Z {os.getpid()} "
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # processes of others come and go
            if mine in path.read_text(encoding="utf-8", errors="replace"):
                found.add(path.parent.name)
    return found

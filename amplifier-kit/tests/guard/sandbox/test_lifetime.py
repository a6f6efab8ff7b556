"""All that runs inside ends with whoever started it, however that ends, and can be talked to until then."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.testing import wait_for
from amplifier_kit.guard.processes.output import Output
from amplifier_kit.guard.processes.running_command import CommandSpec, run, start
from amplifier_kit.guard.sandbox.sandbox import Sandbox
from amplifier_kit.guard.sandbox.system_paths import interpreter

MakeBox = Callable[..., Sandbox]
Naps = Callable[[], list[int]]

_DETACHED = (
    "setsid -f {nap}; nohup {nap} >/dev/null 2>&1 & (env -i setsid -f {nap} &); trap '' TERM INT HUP; {nap}; true"
)


def _order(project: Path, command: str, **more: Any) -> CommandSpec:
    return CommandSpec(("/bin/bash", "-c", "--", command), project, {}, **more)


async def test_what_is_killed(make_box: MakeBox, nap: str, naps: Naps) -> None:
    """When the outermost process is killed, everything inside is gone, also what had detached itself."""
    argv, environment = make_box().wrap(["/bin/bash", "-c", _DETACHED.format(nap=nap)])
    process = await asyncio.create_subprocess_exec(*argv, env=environment, start_new_session=True)
    assert await wait_for(lambda: len(naps()) == 4, timeout=60)
    process.kill()
    await process.wait()
    assert await wait_for(lambda: not naps(), timeout=60)


@pytest.mark.parametrize("way", ["wrap", "run"])
async def test_a_parent_that_is_killed(project: Path, make_box: MakeBox, nap: str, naps: Naps, way: str) -> None:
    """When the program itself is killed, which it cannot prevent or notice, nothing goes on."""
    make_box()
    command = _DETACHED.format(nap=nap)
    program = f"""
import asyncio, subprocess
from amplifier_kit.guard.processes.running_command import CommandSpec, run
from amplifier_kit.guard.processes.output import Output
from amplifier_kit.guard.sandbox.sandbox import Sandbox
from amplifier_kit.guard.sandbox.config import SandboxConfig
box = Sandbox(SandboxConfig(), {str(project)!r})
if {way!r} == "wrap":
    argv, environment = box.wrap(["/bin/bash", "-c", {command!r}])
    subprocess.run(argv, env=environment)
else:
    setup = box.prepare({str(project)!r})
    order = CommandSpec(("/bin/bash", "-c", {command!r}), {str(project)!r}, setup.environment)
    asyncio.run(run(setup.confine(order), Output(1000), timeout=None))
"""
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", program, start_new_session=True)
    assert await wait_for(lambda: len(naps()) == 4, timeout=60)
    parent.send_signal(signal.SIGKILL)
    await parent.wait()
    assert await wait_for(lambda: not naps(), timeout=60)


async def test_a_command_that_stops_its_supervisor(project: Path, make_box: MakeBox, nap: str, naps: Naps) -> None:
    """Whatever it does to the processes that hold it, its deadline ends it."""
    setup = make_box().prepare(str(project))
    command = f"kill -STOP $PPID; kill -STOP 1; {nap}; true"
    outcome = await run(setup.confine(_order(project, command)), Output(1000), timeout=1)
    assert outcome.is_timed_out
    assert naps() == []
    setup.release()


async def test_a_command_that_kills_its_supervisor(project: Path, make_box: MakeBox, nap: str, naps: Naps) -> None:
    """It is over with it, and nobody knows how far it came."""
    setup = make_box().prepare(str(project))
    order = _order(project, f"(env -i setsid -f {nap}); kill -KILL $PPID; {nap}")
    outcome = await run(setup.confine(order), Output(1000), timeout=60)
    assert outcome.returncode is None
    assert naps() == []
    setup.release()


async def test_what_outlives_a_command(project: Path, make_box: MakeBox, nap: str, naps: Naps) -> None:
    """It may write the last of its output, is counted and stopped, and goes on where it is to be kept."""
    setup = make_box().prepare(str(project))
    output = Output(1000)
    last = _order(project, "(sleep 0.1; echo last) & echo first", linger=60.0)
    outcome = await run(setup.confine(last), output, timeout=60)
    assert (output.shown().text, outcome.leftovers) == ("first\nlast\n", 0)
    outcome = await run(setup.confine(_order(project, f"setsid -f {nap}")), Output(1000), timeout=60)
    assert (outcome.returncode, outcome.leftovers, naps()) == (0, 1, [])
    kept = start(setup.confine(_order(project, f"setsid -f {nap}", keeps_background=True)), Output(1000))
    pid = await kept.started()
    assert await wait_for(lambda: kept.outcome.returncode == 0 and len(naps()) == 1, timeout=60)
    os.kill(pid, 0)
    await kept.stop()
    assert naps() == []
    setup.release()


async def test_no_files_stay_open(project: Path, make_box: MakeBox, nap: str) -> None:
    """Neither ends nor deadlines cost a file descriptor."""
    setup = make_box().prepare(str(project))
    before = set(os.listdir("/proc/self/fd"))
    await run(setup.confine(_order(project, "true")), Output(1000), Output(1000), timeout=60)
    await run(setup.confine(_order(project, nap)), Output(1000), timeout=1)
    assert set(os.listdir("/proc/self/fd")) <= before
    setup.release()


async def test_a_server_on_pipes(make_box: MakeBox, nap: str, naps: Naps) -> None:
    """A long-running server is talked to line by line on its own pipes, and its children go with it."""
    code = (
        "import json, subprocess, sys\n"
        f"subprocess.Popen({nap.split()!r}, start_new_session=True)\n"
        "for line in sys.stdin:\n"
        "    print(json.dumps({'answer': json.loads(line)['question'] + 1}), flush=True)\n"
        "print('bye', file=sys.stderr)\n"
    )
    argv, environment = make_box().wrap([interpreter(), "-c", code])
    pipe = asyncio.subprocess.PIPE
    server = await asyncio.create_subprocess_exec(*argv, env=environment, stdin=pipe, stdout=pipe, stderr=pipe)
    assert server.stdin is not None
    assert server.stdout is not None
    for number in range(50):
        server.stdin.write(json.dumps({"question": number}).encode() + b"\n")
        assert json.loads(await server.stdout.readline()) == {"answer": number + 1}
    assert await wait_for(lambda: len(naps()) == 1, timeout=60)
    assert await server.communicate(b"") == (b"", b"bye\n")
    assert server.returncode == 0
    assert await wait_for(lambda: not naps(), timeout=60)

"""What every backend's twins do alike: commands, environment, endings, rights."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_digital_twin.backends.twin import MAX_OUTPUT, Run
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import Limits, User

USER = User()
ROOT = User("root", 0)
Shell = Callable[..., Awaitable[Any]]


async def test_commands_have_streams_codes_and_folders(place: Any, shell: Shell) -> None:
    """A command gets its input and folder, and its streams and exit code come back apart."""
    twin = await place.create()
    run = Run(
        ["/bin/sh", "-c", "cat; pwd; echo bad >&2; exit 7"], {"PATH": "/usr/bin:/bin"}, USER, "/home/user", b"in\n"
    )
    finished = await twin.run(run)
    assert (finished.exit_code, finished.stdout, finished.stderr) == (7, b"in\n/home/user\n", b"bad\n")
    assert (await shell(twin, "kill -TERM $$")).exit_code == 143
    missing = await twin.run(Run(["no-such-program"], {"PATH": "/usr/bin:/bin"}, USER))
    assert missing.exit_code == 127
    with pytest.raises(TwinError) as caught:
        await twin.run(Run(["/bin/true"], {}, USER, cwd="/no/such/folder"))
    assert caught.value.code == "cwd_missing"


async def test_environment_is_exactly_what_was_given(place: Any) -> None:
    """Whatever a value holds arrives unchanged, and nothing is added."""
    twin = await place.create()
    every = "".join(map(chr, range(1, 256)))
    wanted = {
        "PATH": "/usr/bin:/bin",
        "QUOTES": "a'b\"c`d$(id)\\e",
        "LINES": "one\ntwo\n\n",
        "EVERY": every,
        "EMPTY": "",
        "n": "x",
        "UNICODE": "Ä Á 漢 \U0001f600",
    }
    finished = await twin.run(Run(["/usr/bin/env" if place.base.image == "host" else "/bin/env", "-0"], wanted, USER))
    pairs = finished.stdout.decode().rstrip("\0").split("\0")
    assert dict(pair.split("=", 1) for pair in pairs) == wanted


async def test_values_are_on_no_command_line(place: Any, shell: Shell) -> None:
    """While a command runs, no process of the host has a secret among its words."""
    twin = await place.create()
    secret = f"secret-{time.monotonic_ns()}"
    waiting = "until test -e /tmp/seen; do sleep 0.1; done"
    task = asyncio.ensure_future(shell(twin, waiting, env={"PATH": "/usr/bin:/bin", "TOKEN": secret}))
    seen = 0
    while not task.done():
        for process in Path("/proc").iterdir():
            if process.name.isdecimal():
                try:
                    words = (process / "cmdline").read_bytes()
                except OSError:
                    continue
                seen += b"sleep" in words
                assert secret.encode() not in words
        if seen:
            await shell(twin, "touch /tmp/seen")
        await asyncio.sleep(0.01)
    assert seen
    assert (await task).exit_code == 0


_LEFT = "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done 2>/dev/null"


async def test_timeout_ends_everything_the_command_started(place: Any, shell: Shell, text: Shell) -> None:
    """At its timeout a command, its children and those that cut themselves off are gone."""
    twin = await place.create()
    script = "(setsid sh -c 'sleep 3031 & exec sleep 3032' &) ; sleep 3033 & sleep 3034"
    finished = await shell(twin, script, timeout=1.5)
    assert finished.is_timed_out
    assert finished.exit_code == 124
    assert "sleep 303" not in await text(twin, _LEFT)


async def test_cancelling_ends_the_command(place: Any, shell: Shell, text: Shell) -> None:
    """A caller that is cancelled leaves no process behind, and the twin goes on."""
    twin = await place.create()
    began = asyncio.Event()
    run = Run(["/bin/sh", "-c", "echo on; sleep 4041 & sleep 4042"], {"PATH": "/usr/bin:/bin"}, USER)
    task = asyncio.ensure_future(twin.run(run, lambda name, data: began.set()))
    await asyncio.wait_for(began.wait(), 60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert "sleep 404" not in await text(twin, _LEFT)
    assert twin.is_running


async def test_output_is_heard_and_cut(place: Any) -> None:
    """A flood is passed on while it comes, but only its beginning is kept."""
    twin = await place.create()
    heard = 0

    def hear(name: str, data: bytes) -> None:
        nonlocal heard
        heard += len(data)

    size = MAX_OUTPUT + 500_000
    finished = await twin.run(Run(["head", "-c", str(size), "/dev/zero"], {"PATH": "/usr/bin:/bin"}, USER), hear)
    assert finished.is_cut
    assert len(finished.stdout) == MAX_OUTPUT
    assert heard == size


async def test_rights_inside(place: Any, text: Shell) -> None:
    """The user has no capability and can gain none; root has few, and the host's files are not there."""
    twin = await place.create()
    status = dict(
        line.split(":\t") for line in (await text(twin, "grep -E '^(Cap|NoNew)' /proc/self/status")).splitlines()
    )
    assert {int(status[name], 16) for name in ("CapPrm", "CapEff", "CapInh", "CapAmb")} == {0}
    assert status["NoNewPrivs"] == "1"
    root = await text(twin, "grep CapEff /proc/self/status", ROOT)
    not_allowed = 1 << 21 | 1 << 12 | 1 << 13 | 1 << 16 | 1 << 19 | 1 << 27
    assert int(root.split()[1], 16) & not_allowed == 0
    assert await text(twin, "ls /sys | wc -l") == "0" or place.backend.name == "embedded"
    assert str(place.folder) not in await text(twin, "ls / /tmp /home /root 2>/dev/null; true")
    assert await text(twin, "id") == "uid=1000(user) gid=1000(user) groups=1000(user)"


async def test_network_is_loopback_alone(place: Any, text: Shell) -> None:
    """A twin starts with no interface but loopback."""
    twin = await place.create()
    lines = (await text(twin, "cat /proc/net/dev")).splitlines()[2:]
    assert [line.split(":")[0].strip() for line in lines] == ["lo"]
    assert "\n00000000" not in await text(twin, "tr '\\t' ' ' < /proc/net/route")


async def test_sockets_reach_in_and_out(place: Any, text: Shell) -> None:
    """The host serves a low port inside, and reaches a program that listens inside; nobody listening is an OSError."""
    twin = await place.create()
    sockets = await twin.sockets()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"from the host")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, sock=await sockets.listen("127.0.0.2", 443))
    assert await text(twin, "bash -c 'cat < /dev/tcp/127.0.0.2/443'") == "from the host"
    with pytest.raises(OSError):
        await sockets.connect("127.0.0.1", 4, timeout=2)
    connected = await sockets.connect("127.0.0.2", 443, timeout=60)
    reader, writer = await asyncio.open_connection(sock=connected)
    assert await reader.read() == b"from the host"
    writer.close()
    await writer.wait_closed()
    server.close()
    await server.wait_closed()
    await sockets.close()


async def test_processes_are_limited(place: Any, shell: Shell, text: Shell) -> None:
    """A command that starts too many processes fails, and the twin still runs others."""
    probe = await place.backend.probe()
    if probe.features.get("cgroups") != "yes":
        pytest.skip(f"{place.backend.name}: {probe.features.get('cgroups')}")
    twin = await place.create(limits=Limits(pids=40))
    script = "sh -c 'i=0; while [ $i -lt 200 ]; do sleep 5051 & i=$((i+1)); done; echo all'; sleep 5052"
    finished = await shell(twin, script, timeout=5)
    assert finished.is_timed_out
    assert b"all" not in finished.stdout
    assert "sleep 505" not in await text(twin, _LEFT)

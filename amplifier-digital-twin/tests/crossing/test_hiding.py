"""What a hostile process inside can learn of whoever enters: nothing."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path

from amplifier_digital_twin.backends.twin import Finished, Run
from amplifier_digital_twin.embedded import entrance
from amplifier_digital_twin.embedded.entry import Entry
from amplifier_digital_twin.profile.model import User

Shell = Callable[..., Awaitable[Finished]]
#: Looks at every process called like the entrance, again and again, and says what it could read of it.
_SPY = r"""
import os, sys, time
end = time.monotonic() + float(sys.argv[1])
seen = set()
print("looking", flush=True)
while time.monotonic() < end or not seen:
    for name in os.listdir("/proc"):
        if not name.isdecimal() or int(name) in (os.getpid(), os.getppid()):
            continue
        try:
            line = open(f"/proc/{name}/cmdline", "rb").read()
            comm = open(f"/proc/{name}/comm").read().strip()
        except OSError:
            continue
        # A process without arguments is one that has ended, or is just becoming the command.
        if not line or (comm != "twin-entrance" and b"python" not in line):
            continue
        found = {("argv", line.rstrip(b"\0"))}
        for file in ("environ", "mem", "maps", "auxv", "stack", "io"):
            try:
                open(f"/proc/{name}/{file}", "rb").read(1)
                found.add(("read", file))
            except OSError:
                pass
        for link in ("cwd", "root", "exe", "ns/mnt"):
            try:
                found.add(("link", os.readlink(f"/proc/{name}/{link}")))
            except OSError:
                pass
        for number in range(30):
            try:
                found.add(("fd", os.readlink(f"/proc/{name}/fd/{number}")))
            except OSError:
                pass
        try:
            if open(f"/proc/{name}/cmdline", "rb").read() == line:
                seen |= found  # Else it has become the command meanwhile, whose secrets are its own.
        except OSError:
            pass
for item in sorted(map(repr, seen)):
    print(item)
"""


async def test_entrance_cannot_be_looked_into(entry: Entry, user: User) -> None:
    """Neither memory, environment, descriptors, links nor telling arguments of who enters can be read from inside."""
    begun = asyncio.Event()
    spy = asyncio.create_task(
        entry.run(
            Run(["/usr/bin/python3", "-I", "-", "3"], {}, user, stdin=_SPY.encode()), lambda stream, data: begun.set()
        )
    )
    await begun.wait()
    while not spy.done():
        await entry.run(Run(["/bin/sleep", "0.05"], {"SECRET": "hunter2-value"}, user))
    done = await spy
    lines = done.stdout.decode().splitlines()
    assert lines[0] == "looking"
    assert lines[1:] == ["('argv', b'twin-entrance')"], done


def _command_lines() -> list[bytes]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found.append(path.read_bytes())
    return found


async def test_secrets_are_in_no_arguments(entry: Entry, user: User) -> None:
    """On the host, a secret is in no process's arguments and in no environment but the command's own."""
    # All processes of the machine are looked at: nobody else who runs this test has the same secret.
    seconds, secret = f"1001{os.getpid()}", f"hunter3-{uuid.uuid4().hex}".encode()
    command = asyncio.create_task(
        entry.run(Run(["/bin/sleep", seconds], {"SECRET": secret.decode()}, user, stdin=secret))
    )
    sleeping = f"/bin/sleep\0{seconds}\0".encode()
    while sleeping not in _command_lines():  # noqa: ASYNC110 - another process
        await asyncio.sleep(0.05)
    holders = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            arguments = (folder / "cmdline").read_bytes()
            assert secret not in arguments
            if secret in (folder / "environ").read_bytes():
                holders.append(arguments)
    command.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await command
    assert holders == [sleeping]


def test_nothing_is_imported_after_sealing() -> None:
    """Once sealed, a module that is not there yet cannot be had, not even of the standard library."""
    program = (
        "from amplifier_digital_twin.embedded import entrance\n"
        "entrance._seal_imports()\n"
        "for name in ('wave', 'encodings.cp037', '_sha3', 'antigravity'):\n"
        "    try:\n"
        "        __import__(name)\n"
        "    except ImportError:\n"
        "        print('refused')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout.split() == [b"refused"] * 4
    assert entrance.__doc__


def test_bare_scripts_need_only_the_standard_library() -> None:
    """The scripts import nothing that is not of this package or the standard library."""
    program = (
        "import sys; sys.path.append(sys.argv[1])\n"
        "from amplifier_digital_twin.embedded import entrance, net_helper, transfer\n"
        "print(sorted(name for name in sys.modules if name.startswith(('amplifier_', 'click', 'yaml', 'asyncio'))))\n"
    )
    root = str(Path(entrance.__file__).parents[2])
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program, root], capture_output=True, check=True)
    names = "call_filter crossing descendants descent entrance namespaces net_helper syscalls transfer"
    expected = ["amplifier_digital_twin", "amplifier_digital_twin.embedded"]
    expected += [f"amplifier_digital_twin.embedded.{name}" for name in names.split()]
    assert done.stdout.decode().strip() == str(expected)

"""What stands in for guarded places stays for as long as any process has a command that needs it."""

from __future__ import annotations

import asyncio
import fcntl
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from amplifier_kit.guard.sandbox import placeholders as placeholders_of
from amplifier_kit.guard.sandbox.errors import SandboxError
from amplifier_kit.guard.sandbox.sandbox import Sandbox

MakeBox = Callable[..., Sandbox]

#: Another Amplifier in the same project: it has a command end when it is told to, by a line, and says each step.
_OTHER = """
import subprocess, sys
from amplifier_kit.guard.sandbox.sandbox import Sandbox
from amplifier_kit.guard.sandbox.config import SandboxConfig
box = Sandbox(SandboxConfig(), sys.argv[1])
argv, environment = box.wrap(["/bin/sh", "-c", "echo begun; read line; true"])
with subprocess.Popen(argv, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as command:
    print(command.stdout.readline().strip(), flush=True)
    sys.stdin.readline()
    command.communicate("go")
box.close()
print("ended", flush=True)
sys.stdin.readline()
"""
#: Tries to bring into being what decides about the next session, once it is told to.
_ATTACK = (
    "echo begun; read line; "
    "for name in .agents .amplifier .claude .mcp.json; do "
    "rmdir $name; mkdir $name; echo x > $name/made; echo x > $name; done; "
    "true"
)


class Process:
    """A process that is talked to by lines."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, *argv: str, environment: dict[str, str] | None = None) -> Process:
        """Start it, and return when it says that its command has begun."""
        pipe = asyncio.subprocess.PIPE
        quiet = asyncio.subprocess.DEVNULL
        made = await asyncio.create_subprocess_exec(*argv, env=environment, stdin=pipe, stdout=pipe, stderr=quiet)
        process = cls(made)
        assert await process.heard() == "begun"
        return process

    async def heard(self) -> str:
        """Return its next line."""
        assert self._process.stdout is not None
        return (await self._process.stdout.readline()).decode().strip()

    def say(self) -> None:
        """Let it go on."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"go\n")

    async def over(self) -> None:
        """Let it go on to its end."""
        await self._process.communicate(b"go\n")


@pytest.mark.parametrize("is_first", [True, False], ids=["the other began first", "the other began later"])
async def test_another_process_ends_its_command(make_box: MakeBox, project: Path, is_first: bool) -> None:
    """Whoever made them and whoever ends first: a command that still runs finds every place guarded."""
    box = make_box()

    async def attacker() -> Process:
        argv, environment = box.wrap(["/bin/bash", "-c", _ATTACK])
        return await Process.start(*argv, environment=environment)

    other: Process | None = await Process.start(sys.executable, "-c", _OTHER, str(project)) if is_first else None
    command = await attacker()
    other = other or await Process.start(sys.executable, "-c", _OTHER, str(project))
    other.say()
    assert await other.heard() == "ended"
    assert sorted(path.name for path in project.iterdir()) == [".agents", ".amplifier", ".claude", ".mcp.json"]
    await command.over()
    found = {path.name: [inner.name for inner in path.iterdir()] for path in project.iterdir()}
    assert found == {".agents": [], ".amplifier": [], ".claude": [], ".mcp.json": []}
    await other.over()


async def test_the_last_of_several_processes(make_box: MakeBox, project: Path) -> None:
    """When the process that made them is the last to end its command, nothing is left of them."""
    box = make_box()
    box.wrap(["true"])
    other = await Process.start(sys.executable, "-c", _OTHER, str(project))
    await other.over()
    assert sorted(path.name for path in project.iterdir()) == [".agents", ".amplifier", ".claude", ".mcp.json"]
    box.close()
    assert list(project.iterdir()) == []


def test_a_program_that_locks_a_place(make_box: MakeBox, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It can hold up a command for a moment, not for ever: nothing is run, and the place is named."""
    monkeypatch.setattr(placeholders_of, "_LOCK_TIMEOUT", 0.2)
    (project / ".claude").mkdir()
    before = set(os.listdir("/proc/self/fd"))
    number = os.open(project / ".claude", os.O_RDONLY)
    try:
        fcntl.flock(number, fcntl.LOCK_EX)
        with pytest.raises(SandboxError, match=r"\.claude cannot be guarded: another program has locked it"):
            make_box().wrap(["true"])
    finally:
        os.close(number)
    assert set(os.listdir("/proc/self/fd")) <= before
    assert make_box().wrap(["true"])[0][-1] == "true"

"""Real commands, and a way to see what is left of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from amplifier_kit.guard.processes.programs import command_environment
from amplifier_kit.guard.processes.running_command import CommandSpec


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nobody be given up as unkillable because the machine stood still for some seconds."""
    for name in ("KILL_WAIT", "_SUPERVISOR_SLACK"):
        monkeypatch.setattr(f"amplifier_kit.guard.processes.running_command.{name}", 30.0)


@pytest.fixture
def settled(naps: Callable[[], list[int]]) -> Callable[[], list[int]]:
    """Give `settled()`: those processes that have become the sleep itself, or stand still."""
    return lambda: [pid for pid in naps() if _is_settled(pid)]


def _is_settled(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
        return state == b"T" or Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"sleep\0")
    except OSError:
        return False  # it has only started the one that sleeps, and is gone


@pytest.fixture
def skip_time(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Give `skip_time(seconds)`: let the clock of the event loop jump, so that deadlines are over by it."""
    skipped: list[float] = []

    def skip(seconds: float) -> None:
        skipped.append(seconds)
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: time.monotonic() + sum(skipped))

    return skip


@pytest.fixture
def shell(tmp_path: Path) -> Callable[..., CommandSpec]:
    """Give `shell(command, **options)`: an order for bash in the test's folder."""

    def make(command: str, **options: object) -> CommandSpec:
        environment, _ = command_environment()
        arguments: dict[str, object] = {"folder": tmp_path, "environment": environment} | options
        return CommandSpec(("/bin/bash", "-c", "--", command), **arguments)  # type: ignore[arg-type]

    return make

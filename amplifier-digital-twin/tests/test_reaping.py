"""Removing what nobody keeps."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from amplifier_digital_twin.backends import select
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.holder import Holder
from amplifier_digital_twin.reaping import MARK_VARIABLE, clear, end_processes, prune, reap
from amplifier_digital_twin.registry import Found, Registry, Wish


class _Backend:
    """Remembers what it was asked to remove."""

    def __init__(self) -> None:
        self.removed: list[tuple[Path, str]] = []
        self.fault: Exception | None = None

    async def remove(self, folder: Path, universe: str) -> None:
        if self.fault is not None:
            raise self.fault
        self.removed.append((folder, universe))


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> _Backend:
    """Return the one backend that there is: an engine at the edge of the world."""
    backend = _Backend()
    monkeypatch.setattr(select, "all_backends", lambda: {"engine": backend})
    return backend


@pytest.fixture
def dead(tmp_path: Path) -> Found:
    """Return a universe whose keeper has ended."""
    found = Registry(tmp_path / "digital-twin").create(Wish(None, "profile", tmp_path / "profile.yaml", 60.0))
    with subprocess.Popen(["sleep", "60"]) as process:
        holder = Holder.of(process.pid)
        process.kill()
    assert holder is not None
    return Found(found.place, found.place.update(holder=holder))


async def test_every_twin_is_removed_by_its_backend(dead: Found, backend: _Backend) -> None:
    """All twins that are written down go, whether or not they were ever made."""
    dead.place.add_twin("engine", "dtu-1-build", dead.place.folder / "build")
    dead.place.add_twin("engine", dead.state.id, dead.place.folder)
    assert await reap(dead) is None
    assert backend.removed == [(dead.place.folder / "build", "dtu-1-build"), (dead.place.folder, dead.state.id)]
    assert not dead.place.folder.exists()


async def test_universe_stays_until_its_twins_are_gone(tmp_path: Path, dead: Found, backend: _Backend) -> None:
    """When an engine cannot remove a container, the state stays, the fault is told, and the next prune tries again."""
    dead.place.add_twin("engine", dead.state.id, dead.place.folder)
    backend.fault = TwinError("engine_down", "the engine does not answer", "start it")
    registry = Registry(tmp_path / "digital-twin")
    assert (await prune(registry)).failed[dead.state.id]["code"] == "engine_down"
    assert dead.place.read().twins
    backend.fault = None
    assert (await prune(registry)).removed == [dead.state.id]


async def test_twin_of_an_unknown_backend_is_not_forgotten(dead: Found, backend: _Backend) -> None:
    """A universe of a release that knew more backends is left to that release."""
    dead.place.add_twin("future", dead.state.id, dead.place.folder)
    with pytest.raises(TwinError, match="future"):
        await reap(dead)
    assert dead.place.state_file.exists()


async def test_universe_that_is_locked_is_left_alone(dead: Found) -> None:
    """A keeper that has just started, and is not in the state yet, holds the lock."""
    with dead.place.held():
        assert await reap(dead) == f"process {dead.state.holder.pid} keeps it"
    assert dead.place.state_file.exists()


async def test_universe_that_somebody_else_removes_is_no_fault(tmp_path: Path, dead: Found) -> None:
    """Two who prune at the same time do not stand in each other's way."""
    import asyncio

    registry = Registry(tmp_path / "digital-twin")
    both = await asyncio.gather(prune(registry), prune(registry))
    assert [pruned.failed for pruned in both] == [{}, {}]
    assert await reap(dead) is None
    assert not dead.place.folder.exists()


async def test_links_are_removed_and_never_followed(tmp_path: Path, dead: Found) -> None:
    """What a link in the folder points to stays."""
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o500)
    (dead.place.folder / "files").mkdir()
    (dead.place.folder / "files" / "link").symlink_to(outside)
    (dead.place.folder / "link").symlink_to(outside)
    await clear(dead.place)
    assert outside.stat().st_mode & 0o777 == 0o500
    assert not dead.place.folder.exists()


@pytest.fixture
def strays() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Return two processes with the marks of two universes."""
    started = [
        subprocess.Popen(["sleep", "600"], env={MARK_VARIABLE: mark, "PATH": "/usr/bin:/bin"})
        for mark in ("dtu-aaaaaaaa", "dtu-aaaaaaaabb")
    ]
    yield started
    for process in started:
        process.kill()
        process.wait()


def test_only_processes_with_the_mark_are_ended(strays: list[Any]) -> None:
    """The mark must be the whole identifier; all other processes go on."""
    end_processes("dtu-aaaaaaaa")
    assert strays[0].wait(60) == -9
    assert strays[1].poll() is None

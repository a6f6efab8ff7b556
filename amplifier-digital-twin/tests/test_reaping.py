"""Removing what nobody keeps."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from amplifier_digital_twin.backends import select
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.holder import MARK_VARIABLE, Holder
from amplifier_digital_twin.reaping import clear, end_processes, prune, reap
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


def _make_deep(folder: Path) -> None:
    folder.mkdir()
    descriptor = os.open(folder, os.O_RDONLY)
    for _ in range(1100):
        os.mkdir("deep", dir_fd=descriptor)
        inner = os.open("deep", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(descriptor)


async def test_folders_of_any_depth_are_removed(tmp_path: Path, dead: Found) -> None:
    """What a universe nested deeper than Python may call itself goes, finished or not."""
    _make_deep(dead.place.folder / "deep")
    unfinished = dead.place.folder.parent / ".new-dtu-00000000.1.1"
    _make_deep(unfinished)
    pruned = await prune(Registry(tmp_path / "digital-twin"))
    assert (pruned.removed, pruned.failed) == ([dead.state.id], {})
    assert not unfinished.exists()


@pytest.mark.parametrize("fault", [RecursionError("too deep"), ValueError("odd"), OSError(5, "broken disk")])
async def test_one_universe_never_stands_in_the_way_of_others(
    tmp_path: Path, dead: Found, backend: _Backend, fault: Exception
) -> None:
    """Whatever goes wrong with one is told, and the others are removed."""
    registry = Registry(tmp_path / "digital-twin")
    other = registry.create(Wish(None, "profile", tmp_path / "profile.yaml", 60.0))
    other.place.update(holder=dead.place.read().holder)
    dead.place.add_twin("engine", dead.state.id, dead.place.folder)
    backend.fault = fault
    pruned = await prune(registry)
    assert pruned.removed == [other.state.id]
    assert str(fault) in pruned.failed[dead.state.id]["message"]
    assert pruned.failed[dead.state.id]["code"] == ("os_error" if isinstance(fault, OSError) else "internal")


async def test_link_in_place_of_a_universe_is_left_alone(tmp_path: Path, dead: Found) -> None:
    """Neither the link nor what it leads to is touched, even when a state is there."""
    moved = tmp_path / "moved"
    dead.place.folder.rename(moved)
    dead.place.folder.symlink_to(moved)
    pruned = await prune(Registry(tmp_path / "digital-twin"))
    assert (pruned.removed, pruned.failed) == ([], {})
    assert "is a link" in pruned.kept[dead.state.id]
    assert (moved / "state.json").exists()


async def test_twin_in_a_place_of_another_user_is_left_alone(tmp_path: Path, dead: Found, backend: _Backend) -> None:
    """A twin's folder that became a link, or another user's, is not removed with our rights."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (dead.place.folder / "build").symlink_to(outside)
    dead.place.add_twin("engine", "dtu-1-build", dead.place.folder / "build")
    with pytest.raises(TwinError, match="is a link") as caught:
        await reap(dead)
    assert caught.value.code == "not_yours"
    assert backend.removed == []
    if os.geteuid() == 0:
        (dead.place.folder / "build").unlink()
        (dead.place.folder / "build").mkdir()
        os.chown(dead.place.folder / "build", 1001, 1001)
        with pytest.raises(TwinError, match="user 1001"):
            await reap(dead)


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

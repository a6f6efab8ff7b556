"""What a crash leaves in the cache while something is being made there."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from amplifier_digital_twin.embedded.asides import abandoned, aside_of
from amplifier_digital_twin.holder import Holder
from amplifier_digital_twin.reaping import prune
from amplifier_digital_twin.registry import Registry


def _made(path: Path) -> Path:
    (path / "closed" / "deep").mkdir(parents=True)
    (path / "closed").chmod(0o000)
    return path


@pytest.fixture
def gone() -> Holder:
    """Return a process that has ended."""
    with subprocess.Popen(["sleep", "60"]) as process:
        holder = Holder.of(process.pid)
        process.kill()
    assert holder is not None
    return holder


async def test_prune_removes_what_a_crash_left_in_the_cache(tmp_path: Path, gone: Holder) -> None:
    """Of what is being made, only that of processes that have ended goes; finished layers and the living one's stay."""
    registry = Registry(tmp_path / "digital-twin")
    layers = registry.cache / "embedded" / "range" / "layers"
    crashed = _made(layers / f".aside-0123.{gone.pid}.{gone.ticks}")
    nameless = _made(layers / ".aside-0123456789")
    reused = _made(layers / f".aside-0123.{Holder.current().pid}.1")
    working = _made(aside_of(layers / "layer"))
    finished = _made(layers / "layer")
    elsewhere = tmp_path / "elsewhere" / "layers"
    _made(elsewhere / ".aside-0123")
    (registry.cache / "embedded" / "link").symlink_to(elsewhere.parent)
    assert abandoned(registry.cache) == sorted([crashed, nameless, reused])
    pruned = await prune(registry)
    assert (pruned.removed, pruned.kept, pruned.failed) == ([], {}, {})
    assert sorted(layers.iterdir()) == sorted([working, finished])
    assert (elsewhere / ".aside-0123").exists()
    for path in (working, finished, elsewhere / ".aside-0123"):
        (path / "closed").chmod(0o700)


async def test_cache_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    """A cache that is a link leads to what need not be the user's."""
    registry = Registry(tmp_path / "digital-twin")
    registry.folder.mkdir()
    left = tmp_path / "other" / "embedded" / "range" / "layers" / ".aside-0123"
    left.mkdir(parents=True)
    registry.cache.symlink_to(tmp_path / "other")
    assert (await prune(registry)).failed == {}
    assert left.exists()

"""Universes in real containers, each test with a home of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from amplifier_testing.universe import Universe, twin_program, universe, universes_work

__all__ = ["universe", "universes_work"]

BASIC = """
dtu: 1
name: basic
base: {image: host, tools: [uv, git]}
limits: {memory: 256m, pids: 64, cpus: 1, disk: 64m, wall: 5m}
network: {mode: gateway}
repositories: [{path: tree, url: "https://github.com/owner/tree"}]
"""


@pytest.fixture(autouse=True)
def amplifier_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the program an empty home."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("AMPLIFIER_HOME", str(home))
    return home


@pytest.fixture(autouse=True)
def limits_work(universes_work: None) -> None:
    """Skip where the engine cannot enforce limits, with its reason."""
    doctor = twin_program("doctor")
    engine = next(each for each in doctor["backends"].values() if each["available"])
    missing = [f"{name}: {engine['features'][name]}" for name in ("memory", "pids", "cpus")]
    if any(not reason.endswith(": yes") for reason in missing):
        pytest.skip("; ".join(missing))


@pytest.fixture
def profile(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a profile, by default a small one that serves a repository beside it."""
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "file").write_text("content\n", encoding="utf-8")
    for words in (
        ["init", "--quiet"],
        ["add", "."],
        ["-c", "user.name=x", "-c", "user.email=x@y", "commit", "-qm", "x"],
    ):
        subprocess.run(["git", *words], cwd=tree, check=True)

    def write(more: str = "", text: str = BASIC) -> Path:
        path = tmp_path / "profile.yaml"
        path.write_text(text + more, encoding="utf-8")
        return path

    return write


@pytest.fixture
def basic(universe: Callable[..., Universe], profile: Callable[..., Path]) -> Universe:
    """Return a running universe of the small profile."""
    return universe(profile())

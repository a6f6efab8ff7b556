"""Which wheels are given, which are kept, and which have to be built."""

from __future__ import annotations

import zipfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import Base, Package, Profile, Repository, WheelFromGit
from amplifier_digital_twin.recorder import Recorder
from amplifier_digital_twin.services import wheels
from amplifier_digital_twin.wheel_building import Wheels

URL = "https://git.example/owner/tiny"


def wheel(folder: Path, name: str = "tiny") -> Path:
    """Write a wheel with nothing in it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}-1.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(f"{name}-1.0.dist-info/RECORD", "")
    return path


class Shop:
    """A place where wheels are made of nothing; what was built is noted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        self.built: list[str] = []
        self.opened = 0
        self.seen = "the world"
        self.commits: dict[str, str] = {"HEAD": "c1", "refs/heads/main": "c1", "refs/tags/v1": "c0"}
        self._tmp_path = tmp_path
        shop = self

        class Workshop:
            """In place of the real one."""

            def __init__(self, *arguments: Any) -> None:
                """Take what the real one takes."""

            async def wheel(self, name: str, recipe: WheelFromGit, url: str, target: Path) -> Path:
                """Make a wheel."""
                shop.built.append(name)
                return wheel(target, name)

            def close(self) -> None:
                """Forget nothing."""

        monkeypatch.setattr(wheels, "Workshop", Workshop)

    @asynccontextmanager
    async def builder(self) -> AsyncIterator[Any]:
        """Give a twin."""
        self.opened += 1
        yield object()

    async def gather(self, *packages: Package, **parts: Any) -> Mapping[str, list[Path]]:
        """Gather the wheels of a profile."""
        repositories = (Repository(Path("/tree"), URL),)
        profile = Profile("p", Path("/p.yaml"), repositories=repositories, packages=packages, **parts)
        mirror = SimpleNamespace(commits={URL: self.commits})
        world: Any = SimpleNamespace(mirror=mirror, build_index=None, build_fingerprint=lambda: self.seen)
        recorder = Recorder(self._tmp_path / "log.jsonl")
        return await Wheels(profile, world, self._tmp_path / "cache", recorder).gather(self.builder)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """Return the place where wheels are made."""
    return Shop(monkeypatch, tmp_path)


TINY = Package("tiny", wheel_from_git=WheelFromGit("tiny"))


async def test_built_once_for_a_commit(shop: Shop) -> None:
    """The same commit and recipe are not built again, and no twin is started for nothing."""
    first = await shop.gather(TINY)
    assert await shop.gather(TINY) == first
    assert (shop.built, shop.opened) == (["tiny"], 1)


async def test_one_twin_for_all_builds(shop: Shop) -> None:
    """Several wheels are built in the same one."""
    found = await shop.gather(TINY, Package("other", wheel_from_git=WheelFromGit(URL)))
    assert (sorted(found), shop.built, shop.opened) == (["other", "tiny"], ["tiny", "other"], 1)


async def test_anything_that_matters_builds_again(shop: Shop) -> None:
    """Another commit, recipe or base is another wheel; a branch that moved is another commit."""
    await shop.gather(TINY)
    shop.commits["HEAD"] = "c2"
    await shop.gather(TINY)
    await shop.gather(Package("tiny", wheel_from_git=WheelFromGit("tiny", build="other command")))
    await shop.gather(Package("tiny", wheel_from_git=WheelFromGit("tiny", ref="v1")))
    await shop.gather(Package("tiny", wheel_from_git=WheelFromGit("tiny", ref="main")))
    shop.commits["refs/heads/main"] = "c3"
    await shop.gather(Package("tiny", wheel_from_git=WheelFromGit("tiny", ref="main")))
    await shop.gather(TINY, base=Base("debian:12"))
    shop.seen = "another world"
    await shop.gather(TINY)
    assert len(shop.built) == 8


@pytest.mark.parametrize("repo", ["tiny", URL, f"{URL}.git", "https://git.example/Owner/Tiny/"])
async def test_repository_by_name_or_address(shop: Shop, repo: str) -> None:
    """What the rules of profiles take for one of its repositories is one here."""
    assert await shop.gather(Package("tiny", wheel_from_git=WheelFromGit(repo)))


async def test_unknown_repository_is_named_with_those_there_are(shop: Shop) -> None:
    """Nothing is built."""
    with pytest.raises(TwinError, match="'elsewhere'") as caught:
        await shop.gather(Package("tiny", wheel_from_git=WheelFromGit("elsewhere")))
    assert caught.value.code == "repository_unknown"
    assert "tiny" in caught.value.remedy
    assert shop.opened == 0


async def test_given_wheels_are_looked_at(shop: Shop, tmp_path: Path) -> None:
    """A file that is there and of that name is taken; no twin is started for it."""
    path = wheel(tmp_path / "given")
    assert await shop.gather(Package("Tiny", wheel_path=path)) == {"Tiny": [path]}
    with pytest.raises(TwinError) as caught:
        await shop.gather(Package("other", wheel_path=path))
    assert caught.value.code == "wheel_mismatch"
    with pytest.raises(TwinError, match=r"missing\.whl") as caught:
        await shop.gather(Package("tiny", wheel_path=tmp_path / "missing.whl"))
    assert caught.value.code == "wheel_missing"
    assert shop.opened == 0

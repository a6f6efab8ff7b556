"""The wheels that a universe's package index answers with: given as files, or built in a twin that is thrown away."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from amplifier_digital_twin.backends.twin import Twin
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import Package, Profile, Repository, WheelFromGit
from amplifier_digital_twin.profile.rules import same_repository
from amplifier_digital_twin.recorder import Recorder
from amplifier_digital_twin.services.surroundings import environment
from amplifier_digital_twin.services.world import World, for_building

if TYPE_CHECKING:
    from amplifier_digital_twin.services.wheels import Workshop

#: Gives a twin that serves the world and is thrown away afterwards; entered only when there is something to build.
Builder = Callable[[], AbstractAsyncContextManager[Twin]]


class Wheels:
    """Finds or builds the wheels of a profile; built ones are kept by commit and recipe."""

    def __init__(self, profile: Profile, world: World, cache: Path, recorder: Recorder) -> None:
        self._profile = profile
        self._world = world
        self._cache = cache / "wheels"
        self._recorder = recorder

    async def gather(self, builder: Builder) -> dict[str, list[Path]]:
        """Return the wheels by package name; raise TwinError when one is missing or cannot be built."""
        found: dict[str, list[Path]] = {}
        async with AsyncExitStack() as stack:
            workshop: Workshop | None = None
            for package in self._profile.packages:
                kept = self._kept(package)
                if kept is None:
                    if workshop is None:
                        workshop = self._workshop(await stack.enter_async_context(builder()))
                        stack.callback(workshop.close)
                    kept = await self._build(package, workshop)
                found.setdefault(package.name, []).append(kept)
        return found

    def _workshop(self, twin: Twin) -> Workshop:
        from amplifier_digital_twin.services.wheels import Workshop

        profile = for_building(self._profile)
        index = self._world.build_index
        url = index.url() if index is not None else None
        return Workshop(twin, profile.user, environment(profile, profile.user, {}, url))

    def _kept(self, package: Package) -> Path | None:
        if package.wheel_path is not None:
            return _given(package, package.wheel_path)
        assert package.wheel_from_git is not None
        folder = self._folder(package, package.wheel_from_git)
        wheels = sorted(folder.glob("*.whl")) if folder.is_dir() else []
        return wheels[0] if wheels else None

    async def _build(self, package: Package, workshop: Workshop) -> Path:
        recipe = package.wheel_from_git
        assert recipe is not None
        repository = self._repository(recipe)
        self._recorder.progress(f"building a wheel of {package.name} from {repository.url}")
        with self._recorder.timed("wheels"):
            return await workshop.wheel(package.name, recipe, repository.url, self._folder(package, recipe))

    def _folder(self, package: Package, recipe: WheelFromGit) -> Path:
        """Return where a wheel is kept: by the commit it is built from, how, and on what."""
        repository = self._repository(recipe)
        commits = self._world.mirror.commits[repository.url]
        commit = next((commits[ref] for ref in _refs(recipe.ref) if ref in commits), recipe.ref or "")
        profile = self._profile
        # Everything that the build sees: else a wheel of one profile would be served to another.
        world = self._world.build_fingerprint()
        key = repr((package.name, commit, recipe, profile.base, profile.user, profile.network, profile.uv, world))
        return self._cache / hashlib.sha256(key.encode()).hexdigest()[:32]

    def _repository(self, recipe: WheelFromGit) -> Repository:
        for repository in self._profile.repositories:
            if recipe.repo == repository.name or same_repository(recipe.repo) == same_repository(repository.url):
                return repository
        names = ", ".join(repository.name for repository in self._profile.repositories) or "none"
        raise TwinError(
            "repository_unknown",
            f"{self._profile.path}: a wheel is to be built from {recipe.repo!r}, which is no repository of the profile",
            f"name one of `repositories` (there: {names})",
        )


def _refs(ref: str | None) -> list[str]:
    return ["HEAD"] if ref is None else [f"refs/heads/{ref}", f"refs/tags/{ref}", ref]


def _given(package: Package, path: Path) -> Path:
    from amplifier_digital_twin.services.wheel_file import check_wheel

    if not path.is_file():
        raise TwinError("wheel_missing", f"{path}: there is no such wheel", "build it, or correct `wheel_path`")
    check_wheel(path, package.name)
    return path

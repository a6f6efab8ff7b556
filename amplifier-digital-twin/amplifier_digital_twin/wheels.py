"""Wheels that a profile builds from its repositories: made in a throw-away container, kept by what they are made of."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path, PurePosixPath
from typing import Final

from amplifier_digital_twin.engines.engine import Command, Engine, tar_script
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.files import members_of
from amplifier_digital_twin.profile.model import Profile, User, WheelFromGit, same_package
from amplifier_digital_twin.services.config import Served
from amplifier_digital_twin.wheel_file import check_wheel
from amplifier_foundation.files import locked, make_private

#: Counts up when wheels of the same sources may come out otherwise.
_RECIPE: Final = 1
_TIMEOUT: Final = 15 * 60.0
_LARGEST: Final = 2 * 1024**3
_SOURCE: Final = "source"

#: Gives a container to build in, and the user in it, for as long as the block runs.
Builder = Callable[[], AbstractContextManager[tuple[Engine, str, User, Mapping[str, str]]]]


def gather(profile: Profile, served: Served, cache: Path, base_key: str, builder: Builder, target: Path) -> None:
    """Put the wheel of every package into `target`, built now or before. Raises TwinError."""
    for package in profile.packages:
        if package.wheel_path is not None:
            check_wheel(package.wheel_path, package.name)
            shutil.copyfile(package.wheel_path, target / package.wheel_path.name)
    groups: dict[tuple[str, str, str, str], list[tuple[str, WheelFromGit]]] = {}
    for package in profile.packages:
        built = package.wheel_from_git
        if built is not None:
            repository = profile.repository(built.repo)
            assert repository is not None
            key = (repository.url, built.ref or "HEAD", built.build, built.subdirectory)
            groups.setdefault(key, []).append((package.name, built))
    for (url, ref, build, subdirectory), packages in groups.items():
        commit = _commit(served, url, ref)
        digest = hashlib.sha256("\0".join([commit, build, subdirectory, base_key, str(_RECIPE)]).encode()).hexdigest()
        folder = cache / "wheels" / digest[:32]
        make_private(folder.parent)
        with locked(folder.with_suffix(".lock"), timeout=_TIMEOUT):
            if not folder.is_dir():
                globs = sorted({built.glob for _, built in packages})
                with tempfile.TemporaryDirectory(prefix=".build-", dir=folder.parent) as directory:
                    fresh = Path(directory, "wheels")
                    fresh.mkdir()
                    with builder() as (engine, container, user, environment):
                        _build(engine, container, user, environment, (url, commit, build, subdirectory), globs, fresh)
                    fresh.rename(folder)
        os.utime(folder)
        wheels = sorted(folder.glob("*.whl"))
        for name, _ in packages:
            shutil.copyfile(found := _wheel_of(name, wheels), target / found.name)


def _commit(served: Served, url: str, ref: str) -> str:
    """Return the commit that is served for a reference; a commit of its own is returned as it is."""
    for repository in served.repositories:
        if repository.url == url:
            for name in (ref, f"refs/heads/{ref}", f"refs/tags/{ref}"):
                if name in repository.commits:
                    return repository.commits[name]
    return ref


def _build(
    engine: Engine,
    container: str,
    user: User,
    environment: Mapping[str, str],
    source: tuple[str, str, str, str],
    globs: list[str],
    target: Path,
) -> None:
    url, commit, build, subdirectory = source
    place = str(PurePosixPath(user.home, _SOURCE, subdirectory))
    lines = [
        f"git clone --quiet {shlex.quote(url)} {_SOURCE} && git -C {_SOURCE} checkout --quiet {shlex.quote(commit)}",
        f"cd {shlex.quote(place)} && {{\n{build}\n}}",
    ]
    command = Command(["/bin/sh", "-c", " && ".join(lines)], user.uid, user.home, environment, timeout=_TIMEOUT)
    done = engine.run(container, command)
    if done.exit_code != 0:
        why = "was not done in time" if done.is_timed_out else f"ended with exit code {done.exit_code}"
        words = (done.stderr or done.stdout)[-2000:].decode("utf-8", "replace").strip()
        remedy = "run the same command in a clean clone of the repository"
        raise TwinError("wheel_build_failed", f"`{build.strip()}` in {url} {why}:\n{words}", remedy)
    with tempfile.TemporaryFile() as spool:
        engine.copy_out(
            container, tar_script([f"{place}/{glob}" for glob in globs], user.home), user.uid, spool, _LARGEST
        )
        spool.seek(0)
        for path, _, content in members_of(spool):
            if content is not None and path.endswith(".whl"):
                with (target / PurePosixPath(path).name).open("wb") as file:
                    shutil.copyfileobj(content, file)


def _wheel_of(name: str, wheels: list[Path]) -> Path:
    """Return the wheel of a package among those that were built; raise TwinError when there is none."""
    for wheel in wheels:
        if same_package(wheel.name.partition("-")[0]) == same_package(name):
            return check_wheel(wheel, name).path
    built = ", ".join(wheel.name for wheel in wheels) or "nothing"
    raise TwinError(
        "wheel_missing", f"no wheel of {name} was built: {built}", "correct `build` or `glob` of the package"
    )

"""Wheels built from a repository of the profile, inside a twin that is thrown away afterwards."""

from __future__ import annotations

import os
import shlex
import shutil
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import IO, Final

from amplifier_digital_twin.backends.twin import Finished, Run, Sink, Twin
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import User, WheelFromGit
from amplifier_digital_twin.services.index_pages import normalized
from amplifier_digital_twin.services.wheel_file import check_wheel

#: How many bytes a wheel may have.
MAX_WHEEL: Final = 1024**3
_TAIL: Final = 2000


class Workshop:
    """Builds wheels in one twin; what makes several wheels is built, and brought out, once. To be closed."""

    def __init__(
        self,
        twin: Twin,
        user: User,
        environment: Mapping[str, str],
        *,
        timeout: float = 600.0,
        sink: Sink | None = None,
    ) -> None:
        self._twin = twin
        self._user = user
        self._environment = environment
        self._timeout = timeout
        self._sink = sink
        #: Folders inside, by address, ref, place and command of what was built in them.
        self._built: dict[tuple[str, str | None, str, str], str] = {}
        #: What came out of the twin, by the pattern that found it.
        self._pulled: dict[str, IO[bytes]] = {}

    def close(self) -> None:
        """Forget what came out of the twin; the wheels on the host stay."""
        for archive in self._pulled.values():
            archive.close()
        self._pulled.clear()

    async def wheel(self, name: str, recipe: WheelFromGit, url: str, target: Path) -> Path:
        """Build from `url` inside the twin, and return the path of the wheel of `name` in the host's folder `target`.

        The twin's git must lead `url` to the mirror. Exactly one wheel of that name must come of it. Raises TwinError:
        `wheel_build_failed`, `wheel_missing`, `wheel_mismatch`, `wheel_invalid`.
        """
        key = (url, recipe.ref, recipe.subdirectory, recipe.build)
        folder = self._built.get(key)
        if folder is None:
            folder = await self._build(name, recipe, url)
            self._built[key] = folder
        return await self._take(f"{folder}/{recipe.glob}", name, target)

    async def _build(self, name: str, recipe: WheelFromGit, url: str) -> str:
        folder = f"{self._user.home}/wheel-builds/{len(self._built)}-{name}"
        clone = f"git clone --quiet -- {shlex.quote(url)} {shlex.quote(folder)}"
        # A detached head, so that a branch, a tag and a commit are named alike.
        detach = "git -c advice.detachedHead=false checkout --quiet"
        inner = _inside(folder, recipe.subdirectory)
        steps = [("cloning", f"rm -rf {shlex.quote(folder)} && {clone}", "/")]
        if recipe.ref:
            steps.append(("checking out", f"{detach} {shlex.quote(_ref(recipe.ref))}", folder))
        steps.append(("building", recipe.build, inner))
        for what, command, cwd in steps:
            run = Run(("/bin/sh", "-c", command), self._environment, self._user, cwd=cwd, timeout=self._timeout)
            _check(await self._twin.run(run, self._sink), f"{what} {name} from {url}")
        return inner

    async def _take(self, pattern: str, name: str, target: Path) -> Path:
        """Bring what a pattern finds out of the twin, and look at the one wheel of a name among it."""
        from amplifier_kit.threads import in_thread

        if pattern not in self._pulled:
            self._pulled[pattern] = await self._pull(pattern)
        archive = self._pulled[pattern]
        path = await in_thread(lambda: _unpack(archive, pattern, name, target))
        try:
            return await in_thread(lambda: check_wheel(path, name).path)
        except TwinError:
            path.unlink()
            raise

    async def _pull(self, pattern: str) -> IO[bytes]:
        archive = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        try:
            await self._twin.get([pattern], self._user, archive, MAX_WHEEL)
        except BaseException:
            archive.close()
            raise
        return archive


def _ref(ref: str) -> str:
    if ref.startswith("-"):
        raise TwinError("profile_invalid", f"{ref!r} cannot be the name of a branch, tag or commit", "correct `ref`")
    return ref


def _inside(folder: str, part: str) -> str:
    path = PurePosixPath(part)
    if path.is_absolute() or ".." in path.parts:
        raise TwinError("profile_invalid", f"{part!r} leads out of the repository", "correct `subdirectory`")
    return str(PurePosixPath(folder) / path)


def _check(finished: Finished, what: str) -> None:
    if finished.exit_code == 0 and not finished.is_timed_out:
        return
    ended = (
        f"took longer than {finished.seconds:.0f} s" if finished.is_timed_out else f"ended with {finished.exit_code}"
    )
    said = (finished.stderr.strip() or finished.stdout.strip())[-_TAIL:].decode("utf-8", "replace")
    raise TwinError("wheel_build_failed", f"{what} {ended}: {said}", "run the same command in the working tree")


def _unpack(archive: IO[bytes], pattern: str, wanted: str, target: Path) -> Path:
    """Write the one wheel of a name into a folder of the host; what a twin sends is believed in nothing."""
    archive.seek(0)
    with tarfile.open(fileobj=archive, mode="r:") as members:
        files = [(os.path.basename(member.name), member) for member in members]
        found = [(name, member) for name, member in files if member.isreg() and name.endswith(".whl")]
        if len(found) > 1:
            found = [each for each in found if normalized(each[0].partition("-")[0]) == normalized(wanted)]
        content = members.extractfile(found[0][1]) if len(found) == 1 else None
        if content is None:
            others = ", ".join(name for name, member in files if not (member.isreg() and name.endswith(".whl")))
            names = ", ".join(name for name, _ in found) or (f"only {others}" if others else "nothing")
            raise TwinError(
                "wheel_missing", f"{pattern}: one wheel was expected, {names} found", "correct `build` or `glob`"
            )
        target.mkdir(parents=True, exist_ok=True)
        # Beside its place first: whoever looks for it there must never find half of it.
        aside = target / f".{os.getpid()}.{found[0][0]}"
        with aside.open("wb") as file:
            shutil.copyfileobj(content, file)
    return aside.replace(target / found[0][0])

"""Wheels: built from a profile's repositories in a throw-away container, kept by what they are made of, looked into."""

from __future__ import annotations

import base64
import hashlib
import os
import shlex
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from email.parser import BytesHeaderParser
from pathlib import Path, PurePosixPath
from typing import Final

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.files import Place
from amplifier_digital_twin.profile.model import Profile, WheelFromGit
from amplifier_digital_twin.services.config import Served
from amplifier_foundation.files import locked, make_private

#: Counts up when wheels of the same sources may come out otherwise.
_RECIPE: Final = 1
_TIMEOUT: Final = 15 * 60.0
_LARGEST: Final = 2 * 1024**3
_BROKEN: Final = (InvalidWheelFilename, ValueError, OSError, zipfile.BadZipFile, zlib.error, RuntimeError)

#: Gives a container to build in, and the variables of commands in it, for as long as the block runs.
Builder = Callable[[], AbstractContextManager[tuple[Place, Mapping[str, str]]]]


@dataclass(frozen=True)
class Wheel:
    """A wheel on the host, looked into."""

    path: Path
    #: Normalized.
    name: str
    version: str
    #: What an installer puts into the site directory: path → `sha256=…` of the content, as RECORD writes it.
    contents: Mapping[str, str] = field(repr=False)

    @classmethod
    def read(cls, path: Path) -> Wheel:
        """Look into a wheel; raises TwinError (`wheel_invalid`) when it is none, or its parts contradict each other."""
        headers = BytesHeaderParser().parsebytes(read_metadata(path))
        name, version = canonicalize_name(str(headers["Name"] or "")), str(headers["Version"] or "")
        try:
            if name != parse_wheel_filename(path.name)[0]:
                raise ValueError(f"its metadata name {name!r}")
            with zipfile.ZipFile(path) as archive:
                return cls(path, name, version, _contents(archive))
        except _BROKEN as error:
            raise _invalid(path, error) from error


def read_metadata(path: Path) -> bytes:
    """Return the metadata of a wheel, whatever its file is called; raises TwinError (`wheel_invalid`)."""
    try:
        with zipfile.ZipFile(path) as archive:
            (name,) = [name for name in archive.namelist() if PurePosixPath(name).match("*.dist-info/METADATA")]
            return archive.read(name)
    except _BROKEN as error:
        raise _invalid(path, error) from error


def _contents(archive: zipfile.ZipFile) -> dict[str, str]:
    found = {}
    for info in archive.infolist():
        first, _, rest = info.filename.partition("/")
        path = info.filename
        if first.endswith(".data"):
            kind, _, path = rest.partition("/")
            if kind not in ("purelib", "platlib"):
                continue  # programs and data go beside the site directory, and are rewritten for their place
        elif first.endswith(".dist-info") and rest.startswith("RECORD"):
            continue  # installers write it again; so do its signatures
        if not info.is_dir():
            digest = hashlib.sha256(archive.read(info)).digest()
            found[path] = f"sha256={base64.urlsafe_b64encode(digest).decode().rstrip('=')}"
    return found


def _invalid(path: Path, why: object) -> TwinError:
    return TwinError("wheel_invalid", f"{path} is not a usable wheel: {why}", "build it again")


# -- building --


def gather(profile: Profile, served: Served, cache: Path, base_key: str, builder: Builder, target: Path) -> None:
    """Put the wheel of every package into `target`, built now or before. Raises TwinError."""
    builds: dict[tuple[str, ...], list[tuple[str, WheelFromGit]]] = {}
    for package in profile.packages:
        if (built := package.wheel_from_git) is None:
            assert package.wheel_path is not None
            _copy(package.name, [package.wheel_path], target)
        else:
            repository = profile.repository(built.repo)
            assert repository is not None
            source = (repository.url, _commit(served, repository.url, built.ref or "HEAD"))
            builds.setdefault((*source, built.build, built.subdirectory), []).append((package.name, built))
    make_private(cache / "wheels")
    for build, packages in builds.items():
        digest = hashlib.sha256("\0".join([*build[1:], base_key, str(_RECIPE)]).encode()).hexdigest()
        folder = cache / "wheels" / digest[:32]
        with locked(folder.with_suffix(".lock"), timeout=_TIMEOUT):
            if not folder.is_dir():
                globs = sorted({built.glob for _, built in packages})
                with tempfile.TemporaryDirectory(prefix=".build-", dir=folder.parent) as directory:
                    fresh = Path(directory, "wheels")
                    fresh.mkdir()
                    with builder() as (place, environment):
                        _build(place, environment, build, globs, fresh)
                    fresh.rename(folder)
        os.utime(folder)
        for name, _ in packages:
            _copy(name, sorted(folder.glob("*.whl")), target)


def _commit(served: Served, url: str, ref: str) -> str:
    """Return the commit that is served for a reference; a commit itself is returned as it is."""
    for repository in served.repositories:
        if repository.url == url:
            for name in (ref, f"refs/heads/{ref}", f"refs/tags/{ref}"):
                if name in repository.commits:
                    return repository.commits[name]
    return ref


def _build(
    place: Place, environment: Mapping[str, str], build: tuple[str, ...], globs: list[str], target: Path
) -> None:
    url, commit, command, subdirectory = build
    folder = PurePosixPath("source", subdirectory)
    clone = f"git clone --quiet {shlex.quote(url)} source && git -C source checkout --quiet {shlex.quote(commit)}"
    done = place.run(f"{clone} && cd {shlex.quote(str(folder))} && {{\n{command}\n}}", environment, timeout=_TIMEOUT)
    if done.exit_code != 0:
        why = "was not done in time" if done.is_timed_out else f"ended with exit code {done.exit_code}"
        words = (done.stderr or done.stdout)[-2000:].decode("utf-8", "replace").strip()
        remedy = "run the same command in a clean clone of the repository"
        raise TwinError("wheel_build_failed", f"`{command.strip()}` in {url} {why}:\n{words}", remedy)
    for glob in globs:
        for file in place.files(f"~/{folder}/{glob}", _LARGEST):
            if file.kind == "file" and file.path.endswith(".whl"):
                (target / PurePosixPath(file.path).name).write_bytes(file.content)


def _copy(name: str, wheels: list[Path], target: Path) -> None:
    """Copy the wheel of a package; raise TwinError (`wheel_missing`, `wheel_invalid`) when it is not among them."""
    for path in wheels:
        if canonicalize_name(path.name.partition("-")[0]) == canonicalize_name(name):
            Wheel.read(path)
            shutil.copyfile(path, target / path.name)
            return
    found = ", ".join(wheel.name for wheel in wheels) or "nothing"
    remedy = "correct the package's name, `wheel_path`, `build` or `glob` in the profile"
    raise TwinError("wheel_missing", f"no wheel of {name}: there is {found}", remedy)

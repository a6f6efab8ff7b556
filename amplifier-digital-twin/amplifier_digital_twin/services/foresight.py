"""What installers will ask the package index for, fetched before they do: while wheels are built, the network is idle.

It only guesses, and decides nothing: pages and files are kept as if they had been asked for, and whatever was not
foreseen, or could not be had, is fetched when it is needed.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.services.index_pages import IndexFile, normalized
from amplifier_digital_twin.services.package_index import PAGE_LIFETIME, key_of, shown_page
from amplifier_digital_twin.services.wheel_file import read_metadata

if TYPE_CHECKING:
    from packaging.requirements import Requirement
    from packaging.specifiers import SpecifierSet

    from amplifier_digital_twin.services.host_index import HostIndex
    from amplifier_digital_twin.services.index_cache import IndexCache

#: How many projects are looked at: more than most programs need.
_MAX_PROJECTS: Final = 250
#: How deep projects may lie in a repository.
_DEPTH: Final = 2
_MAX_PYPROJECT: Final = 1024 * 1024


@dataclass(frozen=True)
class Project:
    """What a project of a repository says that it needs."""

    name: str
    needs: tuple[str, ...]
    #: What it is built with.
    tools: tuple[str, ...]
    #: Whether it is the one that a repository as a whole stands for.
    is_whole: bool


class Foresight:
    """Follows the requirements of packages and repositories through the host's indexes, into their cache."""

    def __init__(
        self, upstream: HostIndex, cache: IndexCache, packages: Sequence[str], repositories: Sequence[Path]
    ) -> None:
        self._upstream = upstream
        self._cache = cache
        self._packages = {normalized(name) for name in packages}
        self._repositories = list(repositories)
        self._own: Mapping[str, Project] = {}
        #: What a project of an index needs, found out once; by name.
        self._found: dict[str, asyncio.Task[list[Requirement]]] = {}
        self._seen: set[tuple[str, str]] = set()

    async def look(self) -> None:
        """Fetch all that can be foreseen; what cannot be had is left to whoever needs it."""
        own = [each for path in self._repositories for each in projects_in(path)]
        self._own = {project.name: project for project in own}
        wholes = [project for project in own if project.is_whole]
        texts = [text for project in wholes for text in (project.name, *project.tools)]
        try:
            await self._follow(_requirements([*texts, *sorted(self._packages)]), ())
        finally:
            for task in self._found.values():
                task.cancel()
            await asyncio.gather(*self._found.values(), return_exceptions=True)

    async def _follow(self, requirements: Sequence[Requirement], extras: Sequence[str]) -> None:
        """Get everything that these requirements of something lead to, when it is wanted with some extras."""
        wanted = [each for each in requirements if each.marker is None or _holds(each, extras)]
        await asyncio.gather(*(self._fetch(each, extra) for each in wanted for extra in ("", *sorted(each.extras))))

    async def _fetch(self, requirement: Requirement, extra: str) -> None:
        name = normalized(requirement.name)
        if (name, extra) in self._seen:
            return
        self._seen.add((name, extra))
        if name in self._own or name in self._packages:
            # Never asked of others: whoever has taken that name there is nobody's business.
            project = self._own.get(name)
            needs = _requirements(project.needs) if project is not None else []
        else:
            if name not in self._found:
                if len(self._found) >= _MAX_PROJECTS:
                    return
                self._found[name] = asyncio.create_task(self._needs(name, requirement.specifier))
            needs = await self._found[name]
        await self._follow(needs, (extra,))

    async def _needs(self, name: str, specifier: SpecifierSet) -> list[Requirement]:
        """Fetch a project's page and the wheel that will be chosen; return what that needs."""
        try:
            files = await self._page(name)
            chosen = likely(files, specifier)
            return [] if chosen is None else _requirements(_needed(await self._metadata(name, chosen)))
        except (TwinError, OSError):
            return []  # whoever needs it asks again, and is told

    async def _page(self, name: str) -> list[IndexFile]:
        owner = self._upstream.fingerprint()
        kept = self._cache.page(owner, name)
        files = kept.files if kept is not None and kept.age < PAGE_LIFETIME else await self._upstream.page(name)
        if files:
            self._cache.keep_shown(owner, name, shown_page(name, files))
        return files

    async def _metadata(self, name: str, file: IndexFile) -> bytes:
        """Fetch a wheel, known by its entry from now on; return its metadata."""
        self._cache.keep_entry(self._upstream.fingerprint(), name, key_of(file), file)
        path = self._cache.file(file.hashes.get("sha256", ""))
        if path is None:
            path = await self._cache.keep(self._upstream.content(file.url), file.hashes, key_of(file))
        return read_metadata(path)


def projects_in(folder: Path) -> list[Project]:
    """Return the projects of a repository: in its folder, or not far below."""
    found = []
    for path in _pyprojects(folder, _DEPTH):
        project = _project(path, is_whole=path.parent == folder)
        if project is not None:
            found.append(project)
    return found


def _pyprojects(folder: Path, depth: int) -> Iterator[Path]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return  # not readable: the export of the repository says so
    for entry in entries:
        if entry.name == "pyproject.toml" and entry.is_file():
            yield Path(entry.path)
        elif depth and entry.is_dir(follow_symlinks=False) and not entry.name.startswith((".", "_", "node_modules")):
            yield from _pyprojects(Path(entry.path), depth - 1)


def _project(path: Path, is_whole: bool) -> Project | None:
    import tomllib

    try:
        if path.stat().st_size > _MAX_PYPROJECT:
            return None
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None  # whoever builds it says what is wrong
    project, build = content.get("project"), content.get("build-system")
    if not isinstance(project, dict) or not isinstance(name := project.get("name"), str):
        return None
    tools = build.get("requires") if isinstance(build, dict) else None
    return Project(normalized(name), _texts(project.get("dependencies")), _texts(tools), is_whole)


def _texts(value: object) -> tuple[str, ...]:
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()


def _needed(metadata: bytes) -> list[str]:
    from email.parser import BytesHeaderParser

    return [str(value) for value in BytesHeaderParser().parsebytes(metadata).get_all("Requires-Dist", [])]


def _requirements(texts: Sequence[str]) -> list[Requirement]:
    """Return what can be understood of some requirements; one with an address of its own does not concern an index."""
    from packaging.requirements import InvalidRequirement, Requirement

    found = []
    for text in texts:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        if requirement.url is None:
            found.append(requirement)
    return found


def _holds(requirement: Requirement, extras: Sequence[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in (extras or ("",)))


def likely(files: Sequence[IndexFile], specifier: SpecifierSet) -> IndexFile | None:
    """Return the wheel that an installer takes: of the highest release that fits, the one nearest to this machine."""
    from packaging.version import InvalidVersion, Version

    releases: dict[str, list[IndexFile]] = {}
    for file in files:
        if file.is_wheel and file.yanked is None:
            releases.setdefault(file.filename.split("-", 2)[1], []).append(file)
    versions = []
    for text in releases:
        try:
            versions.append((Version(text.replace("_", "-")), text))
        except InvalidVersion:
            continue
    for version, text in sorted(versions, reverse=True):
        # A release before it is one only when nothing else would do, which is rare.
        if not version.is_prerelease and specifier.contains(version):
            best = min(releases[text], key=_distance, default=None)
            if best is not None and _distance(best) < len(_tags()) and _runs_here(best):
                return best
    return None


def _distance(file: IndexFile) -> int:
    """Return how far a wheel is from what this Python likes most; the number of all tags when it cannot use it."""
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename

    known = _tags()
    try:
        tags = parse_wheel_filename(file.filename)[3]
    except InvalidWheelFilename:
        return len(known)
    return min((known.get(str(tag), len(known)) for tag in tags), default=len(known))


@lru_cache(maxsize=1)
def _tags() -> dict[str, int]:
    from packaging.tags import sys_tags

    return {str(tag): number for number, tag in reversed(list(enumerate(sys_tags())))}


def _runs_here(file: IndexFile) -> bool:
    import platform

    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        return file.requires_python is None or SpecifierSet(file.requires_python).contains(platform.python_version())
    except InvalidSpecifier:
        return False

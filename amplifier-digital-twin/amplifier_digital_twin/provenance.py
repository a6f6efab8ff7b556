"""Where installed packages came from: commits and wheels compared with what this universe served."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath
from typing import Any, Final, Literal

from amplifier_digital_twin.backends.twin import Twin
from amplifier_digital_twin.installed import Installed, Survey, optional, read_files, survey
from amplifier_digital_twin.profile.model import User
from amplifier_digital_twin.services.git_mirror import GitMirror
from amplifier_digital_twin.services.index_pages import normalized
from amplifier_digital_twin.services.package_index import PackageIndex
from amplifier_digital_twin.services.wheel_file import WheelFile

Source = Literal["git", "wheel", "index", "archive", "folder", "system", "unknown"]
#: Files that installers add to a record.
_ADDED: Final = frozenset({"INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json", "uv_build.json", "RECORD"})
#: Where a Debian system keeps what its own packages bring; no installer writes there.
_SYSTEM: Final = "/usr/lib/python3/dist-packages/"
#: What tools that make environments put there.
_OF_ENVIRONMENTS: Final = frozenset({"_virtualenv.pth"})
#: Names its modules by a folder without a record of files: they are not installed, but run where they were fetched to.
_AMPLIFIER: Final = "amplifier"
_SHORTEST_COMMIT: Final = 7
_HEX: Final = frozenset("0123456789abcdef")


@dataclass(frozen=True)
class Finding:
    """What is known of where one installed package came from."""

    name: str
    version: str
    #: Its record folder inside; empty when it is not installed.
    location: str
    source: Source
    #: What was served: a commit, a version or a hash; empty when nothing was.
    expected: str
    found: str
    is_ok: bool
    reason: str

    def record(self) -> dict[str, Any]:
        """Return the finding as JSON."""
        return asdict(self)


async def check_provenance(
    twin: Twin,
    user: User,
    mirror: GitMirror | None,
    index: PackageIndex | None,
    names: Literal["all"] | Sequence[str] = "all",
    skipped: Sequence[str] = (),
) -> list[Finding]:
    """Compare every installed package, or those named, with what the universe served; raise TwinError when unreadable.

    `skipped` are folders of the base that cannot be written to. A package that was named and is not there is a finding
    too. Whatever cannot be matched is not ok.
    """
    found = await survey(twin, user, skipped)
    installed = found.installed
    if names == "all":
        absent = _strays(found)
    else:
        wanted = {normalized(name) for name in names}
        missing = wanted - {package.name for package in installed}
        installed = [package for package in installed if package.name in wanted]
        absent = [Finding(name, "", "", "unknown", "", "", False, "is not installed") for name in sorted(missing)]
    contents = await _contents(installed, index, twin, user)
    return absent + [await _judge(package, contents, mirror, index) for package in installed]


def _strays(found: Survey) -> list[Finding]:
    """Return a finding for every file that Python runs when it starts and that no installation brought."""
    listed = {
        f"{site}/{path}"
        for site, record in ((package.site, package.record) for package in found.installed)
        for path in record or ()
    }
    return [
        Finding(path, "", path, "unknown", "", "", False, "Python runs it when it starts, and no RECORD lists it")
        for path in found.run_by_python
        if path not in listed and PurePosixPath(path).name not in _OF_ENVIRONMENTS and not path.startswith(_SYSTEM)
    ]


async def _contents(
    installed: Sequence[Installed], index: PackageIndex | None, twin: Twin, user: User
) -> Mapping[str, bytes | None]:
    """Return every file that a wheel of the index puts into a site folder, all read at once: each look costs time."""
    wanted = {
        f"{site}/{path}"
        for site, package in ((package.site, package) for package in installed)
        if index is not None and package.record is not None
        for wheel in index.wheels(package.name) or ()
        for path in _placed(wheel)
    }
    return await read_files(twin, user, [optional(path) for path in sorted(wanted)]) if wanted else {}


async def _judge(
    package: Installed,
    contents: Mapping[str, bytes | None],
    mirror: GitMirror | None,
    index: PackageIndex | None,
) -> Finding:
    if package.location.startswith(_SYSTEM):
        return _finding(package, "system", True, "part of the base system")
    wheels = index.wheels(package.name) if index is not None else None
    direct = package.direct_url
    if direct is None:
        if package.record is None and package.installer == _AMPLIFIER:
            return _finding(package, "folder", True, "a module that runs from the folder it was fetched to")
        if wheels is None and package.record is None and package.location.endswith(".dist-info"):
            return _finding(package, "unknown", False, "there is no RECORD of its installation")
        if wheels is None:
            return _finding(package, "index", True, "not one of the profile's packages")
        return _compare(package, wheels, contents)
    url = str(direct.get("url", ""))
    if isinstance(vcs := direct.get("vcs_info"), dict):
        return await _commit(package, url, vcs, mirror)
    if wheels is not None:
        return _archive(package, url, direct, wheels, contents)
    if isinstance(direct.get("archive_info"), dict):
        return _finding(package, "archive", True, f"installed from {url}, which is not one of the profile's packages")
    if isinstance(direct.get("dir_info"), dict):
        return _finding(package, "folder", True, f"installed from the folder {url}")
    return _finding(package, "unknown", False, "direct_url.json says nothing that is understood")


async def _commit(package: Installed, url: str, vcs: Mapping[str, Any], mirror: GitMirror | None) -> Finding:
    """Compare a commit with the one that the mirror serves for what was asked for."""
    commit = str(vcs.get("commit_id", ""))
    asked = str(vcs.get("requested_revision") or "HEAD")
    if not url:
        return _finding(package, "unknown", False, "nothing says where it was fetched from", found=commit)
    refs = mirror.refs(url) if mirror is not None else None
    if mirror is None or refs is None:
        is_past = mirror is not None and mirror.is_host(url)
        why = "the mirror answers for its host and serves no such repository" if is_past else "no mirror serves it"
        return _finding(package, "git", not is_past, f"{url}: {why}", found=commit)
    served = [refs[name] for name in (asked, f"refs/heads/{asked}", f"refs/tags/{asked}") if name in refs]
    if served:
        is_ok = commit in served
        reason = (
            f"{asked} of {url}" if is_ok else f"{asked} of {url} was served at another commit: git went past the mirror"
        )
        return _finding(package, "git", is_ok, reason, expected=served[0], found=commit)
    is_named = len(asked) >= _SHORTEST_COMMIT and not set(asked.lower()) - _HEX and commit.startswith(asked.lower())
    if is_named and await mirror.has_commit(url, commit):
        return _finding(package, "git", True, f"{asked} of {url}", expected=commit, found=commit)
    return _finding(package, "git", False, f"{asked} of {url} is not served by the mirror", found=commit)


def _archive(
    package: Installed,
    url: str,
    direct: Mapping[str, Any],
    wheels: Sequence[WheelFile],
    contents: Mapping[str, bytes | None],
) -> Finding:
    """Judge a package that should come from the index and was installed from an address."""
    if not isinstance(direct.get("archive_info"), dict) or not url.endswith(".whl"):
        expected = _versions(wheels)
        return _finding(package, "folder", False, f"installed from {url}, not from the index", expected=expected)
    return _compare(package, wheels, contents)


def _compare(package: Installed, wheels: Sequence[WheelFile], contents: Mapping[str, bytes | None]) -> Finding:
    """Compare an installed package with the wheels served for its name, file by file."""
    expected = _versions(wheels)
    same = [wheel for wheel in wheels if _same_version(wheel.version, package.version)]
    if not same:
        why = "another version than the one served: it came from elsewhere"
        return _finding(package, "wheel", False, why, expected=expected, found=package.version)
    if package.record is None:
        return _finding(package, "wheel", False, "there is no RECORD to compare", expected=expected)
    reasons = [_difference(package, package.record, wheel, contents) for wheel in same]
    if None in reasons:
        name = same[reasons.index(None)].path.name
        return _finding(package, "wheel", True, f"every file as in {name}", expected=expected, found=package.version)
    return _finding(package, "wheel", False, str(reasons[0]), expected=expected, found=package.version)


def _difference(
    package: Installed, record: Mapping[str, str], wheel: WheelFile, contents: Mapping[str, bytes | None]
) -> str | None:
    """Return the first difference between what is installed and a wheel, None when there is none."""
    info = PurePosixPath(package.location).name
    expected = _placed(wheel)
    for path in record:
        name = PurePosixPath(path)
        is_added = (name.parts[0] == info and name.name in _ADDED) or name.suffix == ".pyc"
        # What goes beside the site folder (programs, data) is rewritten for its place.
        if path not in expected and not is_added and ".." not in name.parts and not name.is_absolute():
            return f"{path} is not in {wheel.path.name}"
    for path, value in expected.items():
        if not value:
            return f"{path} has no hash in the RECORD of {wheel.path.name}, and cannot be compared"
        if record.get(path) != value:
            return f"{path} is recorded as {record.get(path, 'absent')}, {wheel.path.name} has {value}"
    site = package.site
    for path, value in expected.items():
        content = contents.get(f"{site}/{path}")
        if content is None:
            return f"{path} is not there, or is a link"
        if _hash(content, value) != value:
            return f"{path} is not what {wheel.path.name} has"
    return None


def _placed(wheel: WheelFile) -> dict[str, str]:
    """Return what a wheel puts into the site folder: path → hash, empty for a file that its RECORD has none of."""
    placed = {}
    for path, value in wheel.record.items():
        first, _, rest = path.partition("/")
        if first.endswith(".data"):
            kind, _, rest = rest.partition("/")
            if kind in ("purelib", "platlib"):
                placed[rest] = value
        elif value or not rest.startswith("RECORD"):  # itself, and its signatures
            placed[path] = value
    return placed


def _hash(content: bytes, like: str) -> str:
    """Return the hash of a content as records write it, by the algorithm of another one."""
    import hashlib

    algorithm = like.partition("=")[0]
    if algorithm not in hashlib.algorithms_guaranteed or algorithm.startswith("shake"):
        return ""
    digest = hashlib.new(algorithm, content).digest()
    return f"{algorithm}={base64.urlsafe_b64encode(digest).decode().rstrip('=')}"


def _same_version(first: str, second: str) -> bool:
    # A record folder writes `1.0+local-1` with another separator.
    return first.lower().replace("-", "_") == second.lower().replace("-", "_")


def _versions(wheels: Sequence[WheelFile]) -> str:
    return ", ".join(wheel.version for wheel in wheels)


def _finding(
    package: Installed, source: Source, is_ok: bool, reason: str, *, expected: str = "", found: str = ""
) -> Finding:
    return Finding(package.name, package.version, package.location, source, expected, found, is_ok, reason)

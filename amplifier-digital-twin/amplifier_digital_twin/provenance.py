"""Where installed packages came from: what a container has, compared byte for byte with what was served to it.

`survey_script` runs inside and lists what is installed; `verify` compares that with the wheels and commits served.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import Any, Final, Literal

from packaging.utils import canonicalize_name

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.services.config import Served
from amplifier_digital_twin.services.git import GitAddress, has_commit
from amplifier_digital_twin.wheels import Wheel

Source = Literal["git", "wheel", "index", "archive", "folder", "system", "unknown"]
#: Files that installers add to a record.
_ADDED: Final = frozenset({"INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json", "uv_build.json", "RECORD"})
#: Where a Debian system keeps what its own packages bring; no installer writes there.
_SYSTEM: Final = "/usr/lib/python3/dist-packages/"
#: What tools that make environments put there.
_OF_ENVIRONMENTS: Final = frozenset({"_virtualenv.pth"})
#: Names its modules by a directory without a record of files: they are not installed, but run where they were fetched.
_AMPLIFIER: Final = "amplifier"


@dataclass(frozen=True)
class Finding:
    """Where one installed package came from, as far as it is known."""

    name: str
    version: str
    #: Its record directory inside; empty when it is not installed.
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


def survey_script() -> str:
    """Return the program that lists what is installed; standard library only.

    Run it as the universe's user with `survey_command` and this text as stdin; `verify` takes its stdout.
    """
    return files("amplifier_digital_twin").joinpath("list_installed.py").read_text(encoding="utf-8")


def survey_command(served: Served, *, python: str = "/usr/bin/python3", root: str = "/") -> list[str]:
    """Return the command that runs `survey_script`, with an interpreter that the universe's user cannot change.

    Call it after everything is installed: it names the packages whose files must be hashed.
    """
    own = [path.name.partition("-")[0] for path in served.wheels.glob("*.whl")] if served.wheels is not None else []
    return [python, "-I", "-S", "-", root, *sorted({canonicalize_name(name) for name in (*served.names, *own)})]


def verify(served: Served, surveyed: bytes | str, names: Literal["all"] | Sequence[str] = "all") -> list[Finding]:
    """Compare every installed package, or those named, with what was served.

    `surveyed` is what `survey_script` printed. A package that was named and is not installed is a finding too, so is
    every file that Python runs when it starts and that no installation brought. What cannot be matched is not ok.
    Raises TwinError (`provenance_unknown`) when the survey cannot be read.
    """
    wheels = _wheels(served)
    try:
        found = json.loads(surveyed)
        installed = [_Installed(**{**item, "direct_url": _object(item["direct_url"])}) for item in found["packages"]]
        installed += [each for item in found["sources"] if (each := _fetched(item)) is not None]
        startup = sorted(found["startup"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        said = f"what is installed cannot be listed: {error!r}"
        raise TwinError("provenance_unknown", said, "use a base that has /usr/bin/python3") from error
    installed.sort(key=lambda package: package.location)
    if names == "all":
        findings = _strays(installed, startup)
    else:
        wanted = {canonicalize_name(name) for name in names}
        missing = wanted - {package.name for package in installed}
        installed = [package for package in installed if package.name in wanted]
        findings = [Finding(name, "", "", "unknown", "", "", False, "is not installed") for name in sorted(missing)]
    return findings + [_judge(package, served, wheels.get(package.name)) for package in installed]


@dataclass(frozen=True)
class _Installed:
    name: str
    version: str
    location: str
    #: What it was installed from when that was named by address; None when it came from an index.
    direct_url: dict[str, Any] | None = None
    #: The paths that RECORD lists, with the hashes of what is there; None when there is no record.
    record: dict[str, str | None] | None = None
    installer: str = ""

    def finding(self, source: Source, is_ok: bool, reason: str, *, expected: str = "", found: str = "") -> Finding:
        """Return what was found out."""
        return Finding(self.name, self.version, self.location, source, expected, found, is_ok, reason)


def _fetched(item: Mapping[str, Any]) -> _Installed | None:
    """Return a repository that amplifier fetched modules from as if it were installed; None for another source."""
    meta = _object(item["meta"] or "") or {}
    if meta and meta.get("commit") is None:
        return None
    vcs = {"vcs": "git", "commit_id": meta.get("commit", ""), "requested_revision": meta.get("ref")}
    location = str(item["location"])
    return _Installed(PurePosixPath(location).name, "", location, {"url": meta.get("git_url", ""), "vcs_info": vcs})


def _object(text: str | None) -> dict[str, Any] | None:
    """Return a JSON object; an empty one, which nothing can match, for anything else but a file that is missing."""
    try:
        found = None if text is None else json.loads(text)
    except ValueError:
        return {}
    return found if text is None or isinstance(found, dict) else {}


def _wheels(served: Served) -> dict[str, list[Wheel]]:
    """Return the wheels that a name is answered with; a name without one is answered with nothing."""
    found: dict[str, list[Wheel]] = {canonicalize_name(name): [] for name in served.names}
    for path in sorted(served.wheels.glob("*.whl")) if served.wheels is not None else []:
        wheel = Wheel.read(path)
        found.setdefault(wheel.name, []).append(wheel)
    return found


def _strays(installed: Sequence[_Installed], startup: Sequence[str]) -> list[Finding]:
    listed = {f"{PurePosixPath(each.location).parent}/{path}" for each in installed for path in each.record or ()}
    return [
        Finding(path, "", path, "unknown", "", "", False, "Python runs it when it starts, and no RECORD lists it")
        for path in startup
        if path not in listed and PurePosixPath(path).name not in _OF_ENVIRONMENTS and not path.startswith(_SYSTEM)
    ]


def _judge(package: _Installed, served: Served, own: Sequence[Wheel] | None) -> Finding:
    if package.location.startswith(_SYSTEM):
        return package.finding("system", True, "part of the base system")
    direct = package.direct_url
    if direct is None:
        if package.record is None and package.installer == _AMPLIFIER:
            return package.finding("folder", True, "a module that runs from the directory it was fetched to")
        if own is not None:
            return _compare(package, own)
        if package.record is None and package.location.endswith(".dist-info"):
            return package.finding("unknown", False, "its installation has no RECORD")
        return package.finding("index", True, "not one of the profile's packages")
    url = str(direct.get("url", ""))
    if isinstance(vcs := direct.get("vcs_info"), dict):
        return _judge_commit(package, url, vcs, served)
    is_archive = isinstance(direct.get("archive_info"), dict)
    if own is not None:
        if is_archive and url.endswith(".whl"):
            return _compare(package, own)
        reason = f"installed from {url}, not from the index"
        return package.finding("folder", False, reason, expected=_versions(own))
    if is_archive:
        return package.finding("archive", True, f"installed from {url}, which is not one of the profile's packages")
    if isinstance(direct.get("dir_info"), dict):
        return package.finding("folder", True, f"installed from the directory {url}")
    return package.finding("unknown", False, "its direct_url.json is invalid")


def _judge_commit(package: _Installed, url: str, vcs: Mapping[str, Any], served: Served) -> Finding:
    """Compare a commit with the one that is served for the requested revision."""
    commit, asked = str(vcs.get("commit_id", "")), str(vcs.get("requested_revision") or "HEAD")
    if not url:
        return package.finding("unknown", False, "nothing records where it was fetched from", found=commit)
    address = GitAddress.find(url)
    addresses = {GitAddress.parse(repository.url): repository for repository in served.repositories}
    repository = addresses.get(address) if address is not None else None
    if repository is None:
        is_past = address is not None and any(known.host == address.host for known in addresses)
        why = "the git server answers for its host and serves no such repository" if is_past else "not served here"
        return package.finding("git", not is_past, f"{url}: {why}", found=commit)
    refs = repository.commits
    commits = [refs[name] for name in (asked, f"refs/heads/{asked}", f"refs/tags/{asked}") if name in refs]
    if commits:
        is_ok = commit in commits
        reason = f"{asked} of {url}" + ("" if is_ok else " was served at another commit: git went past the server")
        return package.finding("git", is_ok, reason, expected=commits[0], found=commit)
    if commit.startswith(asked.lower()) and len(asked) >= 7 and has_commit(Path(repository.folder), commit):
        return package.finding("git", True, f"{asked} of {url}", expected=commit, found=commit)
    return package.finding("git", False, f"{asked} of {url} is not served", found=commit)


def _compare(package: _Installed, wheels: Sequence[Wheel]) -> Finding:
    """Compare an installed package with the wheels served for its name, file by file."""
    expected, found = _versions(wheels), package.version
    # A record directory writes `1.0+local-1` with another separator.
    same = [each for each in wheels if each.version.lower().replace("-", "_") == found.lower().replace("-", "_")]
    if not same:
        why = "another version than the one served: it came from elsewhere"
        return package.finding("wheel", False, why, expected=expected, found=found)
    if package.record is None:
        return package.finding("wheel", False, "its installation has no RECORD to compare", expected=expected)
    reasons = [_difference(package.location, package.record, wheel) for wheel in same]
    if None in reasons:
        why = f"every file as in {same[reasons.index(None)].path.name}"
        return package.finding("wheel", True, why, expected=expected, found=found)
    return package.finding("wheel", False, str(reasons[0]), expected=expected, found=found)


def _difference(location: str, record: Mapping[str, str | None], wheel: Wheel) -> str | None:
    """Return the first difference between what is installed and a wheel, None when there is none."""
    info = PurePosixPath(location).name
    for path in sorted(record.keys() - wheel.contents.keys()):
        name = PurePosixPath(path)
        is_added = (name.parts[:1] == (info,) and name.name in _ADDED) or name.suffix == ".pyc"
        # What goes beside the site directory (programs, data) is rewritten for its place.
        if not is_added and ".." not in name.parts and not name.is_absolute():
            return f"{path} is not in {wheel.path.name}"
    for path, value in wheel.contents.items():
        if path not in record:
            return f"{path} is in {wheel.path.name}, and not in RECORD"
        if record[path] is None:
            return f"{path} is missing, or is a link"
        if record[path] != value:
            return f"{path} is not what {wheel.path.name} has"
    return None


def _versions(wheels: Sequence[Wheel]) -> str:
    return ", ".join(wheel.version for wheel in wheels)

"""What is installed inside a twin, read from the records that installers leave; no Python of the twin is run."""

from __future__ import annotations

import glob
import json
import re
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import IO, Any, Final, NamedTuple

from amplifier_digital_twin.backends.twin import Run, Twin
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import User
from amplifier_digital_twin.services.index_pages import normalized
from amplifier_digital_twin.services.wheel_file import parse_record
from amplifier_foundation.sources.content import META_NAME

#: How much is read of a twin at a time, and how much of what installers write.
MAX_BYTES: Final = 512 * 1024**2
_MAX_RECORDS: Final = 64 * 1024**2
_MAX_RECORD: Final = 4 * 1024**2
#: Files that Python runs when it starts, wherever it finds them among packages.
_RUN_BY_PYTHON: Final = ("*.pth", "sitecustomize.py", "usercustomize.py")
_RECORDS: Final = ("*.dist-info", "*.egg-info", META_NAME)
_FIND: Final = "/usr/bin/find"
_SKIPPED: Final = ("/proc", "/sys", "/dev", "/usr/share", "/usr/include", "/usr/src")
_SITES: Final = ("site-packages", "dist-packages")
#: Folders of uv's cache that hold what could be installed, not what is.
_CACHED: Final = re.compile(r"(sdists|wheels|git)-v\d+")
_UNPACKED: Final = re.compile(r"archive-v\d+")
_TIMEOUT: Final = 120.0


@dataclass(frozen=True)
class Installed:
    """One installed distribution."""

    name: str
    version: str
    #: Its record folder.
    location: str
    #: What it was installed from when that was named by address; None when it came from an index.
    direct_url: dict[str, Any] | None = None
    #: Path as the record writes it → hash; None when there is no record.
    record: dict[str, str] | None = field(default=None, repr=False)
    #: Who says that it installed it.
    installer: str = ""

    @property
    def site(self) -> str:
        """Return the folder that it is installed in."""
        return str(PurePosixPath(self.location).parent)


class Survey(NamedTuple):
    """What was found in a twin."""

    #: Everything installed that the user can see, then the repositories that amplifier fetched, by place.
    installed: list[Installed]
    #: Files in folders of packages that Python runs by itself when it starts.
    run_by_python: list[str]


async def survey(twin: Twin, user: User, skipped: Sequence[str] = ()) -> Survey:
    """Return what is installed; one look at the whole tree for all of it. Raises TwinError when it cannot be known."""
    found = await _find(twin, user, (*_RECORDS, *_RUN_BY_PYTHON), skipped)
    records = sorted(path for path in found if _is_record(path) and _is_installed(path))
    fetched = [path for path in records if path.endswith(f"/{META_NAME}")]
    folders = [path for path in records if not path.endswith(f"/{META_NAME}")]
    wanted = [
        f"{glob.escape(folder)}/{name}"
        for folder in folders
        if folder.endswith(".dist-info")
        for name in ("direct_url[.]json", "RECOR[D]", "INSTALLE[R]")
    ]
    wanted += [optional(path) for path in fetched]
    contents = await read_files(twin, user, wanted, _MAX_RECORDS) if wanted else {}
    if any(content is not None and len(content) > _MAX_RECORD for content in contents.values()):
        raise TwinError(
            "provenance_unknown",
            f"a record of an installation has more than {_MAX_RECORD:,} bytes",
            "find out what installed it",
        )
    sources = (_fetched(path, contents.get(path)) for path in fetched)
    installed = [_installed(folder, contents) for folder in folders]
    installed += [source for source in sources if source is not None]
    return Survey(installed, sorted(path for path in found if _is_run_by_python(path) and _is_installed(path)))


async def read_files(
    twin: Twin, user: User, patterns: Sequence[str], max_bytes: int = MAX_BYTES
) -> dict[str, bytes | None]:
    """Return the files that patterns find, by absolute path; None for a link, which is never followed."""
    from amplifier_kit.threads import in_thread

    with tempfile.TemporaryFile() as archive:
        await twin.get(patterns, user, archive, max_bytes)
        archive.seek(0)
        return await in_thread(lambda: _members(archive))


def optional(path: str) -> str:
    """Return a pattern that finds exactly one path, and is content when it is not there."""
    plain = glob.escape(path)
    return f"{plain[:-1]}[{plain[-1]}]" if plain[-1] not in "]!^" else f"{plain}*"


def _members(archive: IO[bytes]) -> dict[str, bytes | None]:
    found: dict[str, bytes | None] = {}
    with tarfile.open(fileobj=archive, mode="r:") as members:
        for member in members:
            content = members.extractfile(member) if member.isreg() else None
            if content is not None or member.issym():
                found["/" + member.name.lstrip("/")] = None if content is None else content.read()
    return found


async def _find(twin: Twin, user: User, names: Sequence[str], base: Sequence[str]) -> list[str]:
    skipped = [word for path in (*_SKIPPED, *base) for word in ("-path", path, "-o")][:-1]
    named = ["(", *[word for name in names for word in ("-name", name, "-o")][:-1], ")"]
    argv = [_FIND, "/", "(", *skipped, ")", "-prune", "-o", *named, "-print0"]
    done = await twin.run(Run(argv, {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}, user, timeout=_TIMEOUT))
    # 1: a folder that this user may not read. Programs of this user cannot import from it either.
    if done.exit_code not in (0, 1) or done.is_cut or done.is_timed_out:
        said = done.stderr[-500:].decode("utf-8", "replace").strip()
        raise TwinError(
            "provenance_unknown",
            f"what is installed cannot be listed: {_FIND} ended with {done.exit_code}: {said}",
            "use a base that has findutils",
        )
    return [item.decode("utf-8", "surrogateescape") for item in done.stdout.split(b"\0") if item]


def _is_record(path: str) -> bool:
    """Tell whether a path is a record of an installation, and lies in none: that would be a part of it."""
    *above, name = PurePosixPath(path).parts
    return _names_record(name) and not any(_names_record(part) for part in above)


def _names_record(name: str) -> bool:
    return name == META_NAME or name.endswith((".dist-info", ".egg-info"))


def _is_run_by_python(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return parts[-2] in _SITES and (parts[-1].endswith(".pth") or parts[-1] in _RUN_BY_PYTHON)


def _is_installed(path: str) -> bool:
    parts = PurePosixPath(path).parts
    if any(_CACHED.fullmatch(part) for part in parts):
        return False
    if parts[-1] == META_NAME:
        return True
    if path.endswith(".egg-info"):
        # Elsewhere it lies beside sources, and says nothing of an installation.
        return parts[-2] in _SITES
    return not (len(parts) >= 3 and _UNPACKED.fullmatch(parts[-3]))


def _installed(folder: str, contents: dict[str, bytes | None]) -> Installed:
    stem = PurePosixPath(folder).stem
    name, _, version = stem.partition("-")
    record = contents.get(f"{folder}/RECORD")
    direct = contents.get(f"{folder}/direct_url.json")
    return Installed(
        normalized(name),
        version.partition("-")[0],
        folder,
        None if direct is None and f"{folder}/direct_url.json" not in contents else _object(direct),
        None if record is None else parse_record(record),
        (contents.get(f"{folder}/INSTALLER") or b"").decode("utf-8", "replace").strip(),
    )


def _fetched(path: str, content: bytes | None) -> Installed | None:
    """Return a repository that amplifier fetched modules from as if it were installed; None for another source."""
    folder = PurePosixPath(path).parent
    record = _object(content)
    if record and record.get("commit") is None:
        return None
    vcs = {"vcs": "git", "commit_id": record.get("commit", ""), "requested_revision": record.get("ref")}
    return Installed(folder.name, "", str(folder), {"url": record.get("git_url", ""), "vcs_info": vcs})


def _object(content: bytes | None) -> dict[str, Any]:
    """Return a JSON object; an empty one for what is none, which nothing can match."""
    try:
        found = json.loads(content or b"")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}

"""A folder of wheels and source archives, read as a page of a package index."""

from __future__ import annotations

import functools
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from amplifier_digital_twin.services.index_pages import IndexFile, normalized

_ARCHIVES: Final = (".tar.gz", ".zip", ".tar.bz2", ".tar.xz")
_PIECE: Final = 1024 * 1024


def is_file_of(filename: str, name: str) -> bool:
    """Tell whether a wheel or a source archive is one of a project."""
    if filename.endswith(".whl"):
        return normalized(filename.partition("-")[0]) == name
    stem = next((filename.removesuffix(ending) for ending in _ARCHIVES if filename.endswith(ending)), None)
    if stem is None:
        return False
    project, dash, version = stem.rpartition("-")
    return bool(dash) and normalized(project) == name and version[:1].isdigit()


def files_in(folder: Path, name: str) -> list[IndexFile]:
    """Return the files of a project in a folder, with their hashes."""
    found = []
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if is_file_of(entry.name, name) and entry.is_file():
            path = Path(entry.path)
            found.append(local_file(path, path.absolute().as_uri()))
    return found


def local_file(path: Path, url: str) -> IndexFile:
    """Return the description of a file on the host, to be had at `url`; a wheel's metadata can be had beside it."""
    facts = path.stat()
    sha256 = _sha256(str(path), facts.st_size, facts.st_mtime_ns)
    is_wheel = path.name.endswith(".whl")
    return IndexFile(path.name, url, {"sha256": sha256}, has_metadata=is_wheel, size=facts.st_size)


async def pieces(path: Path) -> AsyncIterator[bytes]:
    """Yield the content of a file without blocking the event loop; raise OSError."""
    from amplifier_kit.threads import in_thread

    with await in_thread(lambda: path.open("rb")) as file:
        while piece := await in_thread(lambda: file.read(_PIECE)):
            yield piece


@functools.lru_cache(maxsize=4096)
def _sha256(path: str, size: int, mtime: int) -> str:
    """Hash a file; size and time are there so that one that was changed is hashed again."""
    import hashlib

    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

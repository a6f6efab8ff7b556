"""Files and pages of the host's package indexes, kept so that the second universe does without the network."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.services.index_pages import IndexFile, dumped

#: How many bytes a file may have.
MAX_FILE: Final = 4 * 1024**3
_HEX: Final = frozenset("0123456789abcdef")
_KEY: Final = _HEX | frozenset("url-")


class Page(NamedTuple):
    """A page that was kept, and how many seconds ago."""

    files: list[IndexFile]
    age: float


class Shown(NamedTuple):
    """A page as it is given to installers, and how many seconds ago it was written."""

    content: bytes
    age: float


class IndexCache:
    """Keeps files by their sha256 and pages by project; written aside and renamed, so that many may share it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def file(self, sha256: str) -> Path | None:
        """Return where a file of that hash is kept, None when it is not."""
        if len(sha256) != 64 or set(sha256) - _HEX:
            return None
        place = self._folder / "files" / sha256[:2] / sha256
        return place if place.is_file() else None

    def named(self, key: str) -> str | None:
        """Return the sha256 of what was once found under a key (a hash of its address)."""
        try:
            return (self._folder / "keys" / key).read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            return None

    async def keep(self, content: AsyncIterator[bytes], hashes: Mapping[str, str], key: str | None = None) -> Path:
        """Keep a file, under its key too; raise TwinError (`hash_mismatch`) when it is not what it must be."""
        folder = self._folder / "files"
        incoming = _Incoming(folder, hashes)
        try:
            async for piece in content:
                incoming.add(piece)
            sha256 = incoming.finish()
        finally:
            incoming.discard()
        if key is not None:
            self._write(self._folder / "keys" / key, sha256.encode())
        return folder / sha256[:2] / sha256

    def page(self, owner: str, name: str) -> Page | None:
        """Return the page of a project that was kept for an owner (a set of indexes)."""
        place = self._folder / "pages" / owner / f"{name}.json"
        try:
            age = time.time() - place.stat().st_mtime
            files = [IndexFile(**item) for item in json.loads(place.read_bytes())]
        except (OSError, ValueError, TypeError):
            return None  # not there, or of another version of this program: asked for again
        return Page(files, age)

    def keep_page(self, owner: str, name: str, files: Sequence[IndexFile]) -> None:
        """Keep the page of a project."""
        content = dumped([vars(file) for file in files])
        self._write(self._folder / "pages" / owner / f"{name}.json", content)

    def shown(self, owner: str, name: str) -> Shown | None:
        """Return the page of a project as installers are given it, None when nobody has written it."""
        try:
            with open(self._folder / "shown" / owner / name, "rb") as file:
                return Shown(file.read(), time.time() - os.fstat(file.fileno()).st_mtime)
        except OSError:
            return None

    def keep_shown(self, owner: str, name: str, content: bytes) -> None:
        """Keep the page of a project as installers are given it."""
        self._write(self._folder / "shown" / owner / name, content)

    def entry(self, owner: str, name: str, key: str) -> IndexFile | None:
        """Return what a page says of one file, so that the page need not be read; None when it is not kept."""
        if set(key) - _KEY:
            return None
        try:
            return IndexFile(**json.loads((self._folder / "entries" / owner / name / key).read_bytes()))
        except (OSError, ValueError, TypeError):
            return None

    def keep_entry(self, owner: str, name: str, key: str, file: IndexFile) -> None:
        """Keep what a page says of one file."""
        self._write(self._folder / "entries" / owner / name / key, dumped(vars(file)))

    def _write(self, place: Path, content: bytes) -> None:
        place.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=place.parent)
        with open(handle, "wb") as file:
            file.write(content)
        os.replace(name, place)


class _Incoming:
    """A file on its way into the cache, under no name by which it could be found."""

    def __init__(self, folder: Path, hashes: Mapping[str, str]) -> None:
        import hashlib

        folder.mkdir(parents=True, exist_ok=True)
        handle, self._name = tempfile.mkstemp(dir=folder)
        self._file = open(handle, "wb")  # noqa: SIM115 - closed by `discard`
        self._folder = folder
        self._expected = {name: value for name, value in hashes.items() if name in hashlib.algorithms_guaranteed}
        self._sums = {name: hashlib.new(name) for name in {*self._expected, "sha256"}}
        self._size = 0

    def add(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > MAX_FILE:
            raise TwinError("file_too_large", f"it has more than {MAX_FILE:,} bytes", "install another one")
        self._file.write(piece)
        for each in self._sums.values():
            each.update(piece)

    def finish(self) -> str:
        """Give the file its name when it is what it must be; return its sha256."""
        self._file.close()
        found = {name: each.hexdigest() for name, each in self._sums.items()}
        for algorithm, expected in self._expected.items():
            if found[algorithm] != expected:
                said = f"its {algorithm} is {found[algorithm]}, the index promised {expected}"
                raise TwinError("hash_mismatch", said, "ask whoever runs the index; nothing of it was installed")
        place = self._folder / found["sha256"][:2] / found["sha256"]
        place.parent.mkdir(exist_ok=True)
        os.replace(self._name, place)
        return found["sha256"]

    def discard(self) -> None:
        """Remove what did not get its name."""
        self._file.close()
        Path(self._name).unlink(missing_ok=True)

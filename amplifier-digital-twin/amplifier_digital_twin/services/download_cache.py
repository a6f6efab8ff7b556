"""Downloaded packages by their content's hash, shared by all universes of a user.

Several processes write at the same time and any of them may be killed: a file is written aside, checked, and only then
gets its name. So nothing incomplete is ever found, and the worst case is that two processes download the same file.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from amplifier_digital_twin.errors import TwinError

if TYPE_CHECKING:
    import httpx2

#: Files used more recently than this are never evicted: they may be about to be sent.
_RECENT: Final = 600.0


class DownloadCache:
    """A directory of files and index pages of limited size."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._incoming = folder / "incoming"
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        #: Bytes since the last eviction; the first download makes one, for what killed processes left.
        self._stored = max_bytes

    async def file(
        self, key: str, hashes: Mapping[str, str], download: AbstractAsyncContextManager[httpx2.Response]
    ) -> Path:
        """Return where the file `key` is, downloaded and checked first when it is not here.

        Concurrent requests share one download. Raises what `download` raises, TwinError (`hash_mismatch`) and OSError.
        """
        path = self._folder / "files" / key[:2] / key
        async with self._locks[key]:
            if not path.exists():
                await self._download(path, hashes, download)
            os.utime(path)
        return path

    def page(self, key: str) -> tuple[list[dict[str, Any]], float] | None:
        """Return a page that was kept and its age in seconds, None when there is none."""
        path = self._folder / "pages" / key
        try:
            return json.loads(path.read_bytes()), time.time() - path.stat().st_mtime
        except (OSError, ValueError):
            return None

    def keep_page(self, key: str, files: list[dict[str, Any]]) -> None:
        """Keep a page."""
        with self._written(self._folder / "pages" / key) as file:
            file.write(json.dumps(files).encode())

    def evict(self) -> None:
        """Remove what was used longest ago until the size is within its limit, and what killed downloads left."""
        entries, now = [], time.time()
        for path in self._folder.rglob("*"):
            with contextlib.suppress(FileNotFoundError):  # another process was faster
                facts = path.stat()
                if path.parent == self._incoming and now - facts.st_mtime > _RECENT:
                    path.unlink()
                elif path.parent != self._incoming and path.is_file():
                    entries.append((facts.st_mtime, facts.st_size, path))
        total = sum(size for _, size, _ in entries)
        for used, size, path in sorted(entries):
            if total <= self._max_bytes or now - used < _RECENT:
                break
            path.unlink(missing_ok=True)
            total -= size

    async def _download(
        self, path: Path, hashes: Mapping[str, str], download: AbstractAsyncContextManager[httpx2.Response]
    ) -> None:
        sums = {name: hashlib.new(name) for name in hashes if name in hashlib.algorithms_guaranteed}
        with self._written(path) as file:
            async with download as response:
                async for piece in response.aiter_bytes():
                    file.write(piece)
                    for each in sums.values():
                        each.update(piece)
            for algorithm, each in sums.items():
                if each.hexdigest() != hashes[algorithm]:
                    said = f"its {algorithm} is {each.hexdigest()}, the index promised {hashes[algorithm]}"
                    raise TwinError("hash_mismatch", said, "report it to the owner of the index; nothing was served")
            self._stored += file.tell()
        if self._stored > self._max_bytes // 16:
            self._stored = 0
            await asyncio.to_thread(self.evict)

    @contextlib.contextmanager
    def _written(self, path: Path) -> Iterator[BinaryIO]:
        """Give a file that gets its name when the block ends without an error."""
        for folder in (self._incoming, path.parent):
            folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=self._incoming)
        try:
            with open(handle, "wb") as file:
                yield file
            os.replace(name, path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name)

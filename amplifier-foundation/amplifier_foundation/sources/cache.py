"""Keep fetched sources: whole or not at all, made by one process at a time, used by all."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from amplifier_foundation.files import make_private, replace_file
from amplifier_foundation.sources.content import META_NAME, content_hash
from amplifier_foundation.sources.fetched import SourceError
from amplifier_kit.threads import in_thread

#: How often a process looks whether another one has done with an entry, in seconds.
_POLL: Final = 0.05


class Origin(NamedTuple):
    """Where an entry came from, as it is recorded in it."""

    url: str
    ref: str
    commit: str | None


class Copy(NamedTuple):
    """A complete entry: what it was made from, and the hash of what it holds now."""

    folder: Path
    origin: Origin
    cached_at: str
    #: The hash when it was fetched, None when a program wrote it that records none.
    recorded: str | None
    sha256: str

    @property
    def is_changed(self) -> bool:
        """Tell whether somebody changed it in the cache."""
        return self.recorded is not None and self.recorded != self.sha256


#: Brings a source into the given empty folder; what it raises is passed on, and the folder is removed.
Maker = Callable[[Path], Awaitable[Origin]]


@dataclass(frozen=True)
class Cache:
    """The folder of fetched sources."""

    folder: Path

    def entry(self, name: str, identity: str) -> CacheEntry:
        """Return the place of one source: a name people recognise, and a hash of all that tells it from others."""
        import hashlib
        import re

        short = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-")[:60] or "source"
        digest = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()
        return CacheEntry(self.folder / f"{short}-{digest[:16]}")


@dataclass(frozen=True)
class CacheEntry:
    """The place of one source in the cache. It is there completely, or not at all."""

    folder: Path

    async def read(self) -> Copy | None:
        """Return the copy that is there, None when there is none that is complete; raise SourceError."""
        return await in_thread(self._read)

    async def fill(
        self,
        make: Maker,
        *,
        accept: Callable[[str], None] = lambda sha256: None,
        anew: bool = False,
        on_wait: Callable[[], None] = lambda: None,
    ) -> Copy:
        """Return the copy, made when no other process made it meanwhile; with `anew` it is made in any case.

        `accept` is given the hash of a new copy and raises to refuse it. `on_wait` is called when another process is
        at it. A new copy is built beside the entry and renamed, so that nobody ever sees a part of it. Raises what
        `make` and `accept` raise, and SourceError when the cache cannot be written.
        """
        async with self._held(on_wait):
            if not anew and (copy := await self.read()) is not None:
                return copy
            await in_thread(lambda: _sweep(self.folder.parent, self.folder.name))
            fresh = self._fresh()
            try:
                origin = await make(fresh)
                sha256 = await in_thread(lambda: self._hash(fresh))
                accept(sha256)
                return await in_thread(lambda: self._place(fresh, origin, sha256))
            finally:
                await in_thread(lambda: _remove(fresh))

    def _read(self) -> Copy | None:
        record = _record(self.folder)
        if record is None:
            return None
        recorded = record.get("sha256")
        return Copy(
            self.folder,
            Origin(str(record.get("git_url", "")), str(record.get("ref", "")), _text(record.get("commit"))),
            str(record.get("cached_at", "")),
            _text(recorded),
            self._hash(self.folder),
        )

    def _hash(self, folder: Path) -> str:
        try:
            return content_hash(folder)
        except OSError as error:
            raise SourceError(f"{folder}: the cached source cannot be read: {error}") from error

    def _fresh(self) -> Path:
        import uuid

        fresh = self.folder.with_name(f".{self.folder.name}.{uuid.uuid4().hex[:12]}.tmp")
        try:
            fresh.mkdir(mode=0o700)
        except OSError as error:
            raise self._unwritable(error) from error
        return fresh

    def _place(self, fresh: Path, origin: Origin, sha256: str) -> Copy:
        import json
        from datetime import UTC, datetime

        copy = Copy(self.folder, origin, datetime.now(UTC).isoformat(), sha256, sha256)
        record = {
            "cached_at": copy.cached_at,
            "ref": origin.ref,
            "commit": origin.commit,
            "git_url": origin.url,
            "sha256": sha256,
        }
        try:
            _remove(fresh / META_NAME)  # a source may bring anything under this name, a folder even
            replace_file(fresh / META_NAME, json.dumps(record, indent=2).encode() + b"\n", mode=0o644)
            if self.folder.is_symlink() or self.folder.exists():
                # Half-made by a program that builds in place, or to be made anew: put aside, swept later if need be.
                aside = fresh.with_name(fresh.name.removesuffix(".tmp") + "old.tmp")
                os.rename(self.folder, aside)
                os.rename(fresh, self.folder)
                _remove(aside)
            else:
                os.rename(fresh, self.folder)
        except OSError as error:
            raise self._unwritable(error) from error
        return copy

    @asynccontextmanager
    async def _held(self, on_wait: Callable[[], None]) -> AsyncIterator[None]:
        """Hold the lock of this entry; a process that dies lets go of it."""
        try:
            make_private(self.folder.parent)
            descriptor = _opened(self.folder.parent, self.folder.name)
        except OSError as error:
            raise self._unwritable(error) from error
        try:
            await self._take(descriptor, on_wait)
            yield
        finally:
            os.close(descriptor)

    async def _take(self, descriptor: int, on_wait: Callable[[], None]) -> None:
        import asyncio

        is_told = False
        while True:
            try:
                if _taken(descriptor):
                    return
            except OSError as error:  # a file system without locks
                raise self._unwritable(error) from error
            if not is_told:
                on_wait()
            is_told = True
            await asyncio.sleep(_POLL)

    def _unwritable(self, error: OSError) -> SourceError:
        return SourceError(
            f"{self.folder.parent}: fetched sources cannot be kept there: {error.strerror or error}. "
            "Make the folder writable, or set AMPLIFIER_HOME to one that is"
        )


def _record(folder: Path) -> dict[str, Any] | None:
    """Return the record of a complete entry; without one it is not known to be complete."""
    import json

    try:
        content = json.loads((folder / META_NAME).read_bytes())
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _opened(cache: Path, name: str) -> int:
    return os.open(cache / f".{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _taken(descriptor: int) -> bool:
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _sweep(cache: Path, held: str) -> None:
    """Remove what killed processes left: the unfinished folders of the entry that is held, and of all nobody holds."""
    for leftover in cache.glob(".*.tmp"):
        name = leftover.name[1:].rsplit(".", 2)[0]
        if name == held:
            _remove(leftover)
            continue
        try:
            descriptor = _opened(cache, name)
        except OSError:
            continue  # the next one who can write here does it
        try:
            if _taken(descriptor):
                _remove(leftover)
        except OSError:
            continue  # a file system without locks: it cannot be told whether anybody works there
        finally:
            os.close(descriptor)


def _remove(path: Path) -> None:
    import shutil

    try:
        path.unlink()
    except FileNotFoundError:
        pass
    except OSError:  # a folder
        # A process that outlived its parent may still be writing there; what stays is swept the next time.
        shutil.rmtree(path, ignore_errors=True)

"""Keep fetched sources, each with a record of where it came from and what it held."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from amplifier_foundation.files import replace_file
from amplifier_foundation.sources.content import META_NAME, content_hash
from amplifier_foundation.sources.fetched import SourceError
from amplifier_foundation.sources.staging_folder import folder_lock, move_into_place, staging_folder
from amplifier_kit.named_tuple import NamedTuple
from amplifier_kit.threads import in_thread


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
        """Return whether it was changed in the cache."""
        return self.recorded is not None and self.recorded != self.sha256


#: Fetches a source into an empty folder; what it raises is passed on, and the folder is removed.
Maker = Callable[[Path], Awaitable[Origin]]


@dataclass(frozen=True)
class Cache:
    """The folder of fetched sources."""

    folder: Path

    def entry(self, name: str, identity: str) -> CacheEntry:
        """Return the entry of one source: a recognisable name, and a hash of what identifies it."""
        import hashlib
        import re

        short = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-")[:60] or "source"
        digest = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()
        return CacheEntry(self.folder / f"{short}-{digest[:16]}")


class CacheEntry(NamedTuple):
    """The place of one source in the cache, which is there completely or not at all."""

    folder: Path

    async def read(self) -> Copy | None:
        """Return the complete copy, None when it is missing; raises SourceError."""
        return await in_thread(self._read)

    async def fill(
        self,
        make: Maker,
        *,
        accept: Callable[[str], None] = lambda sha256: None,
        anew: bool = False,
        on_wait: Callable[[], None] = lambda: None,
    ) -> Copy:
        """Return the copy, fetched unless another process did so meanwhile; with `anew` it is always fetched.

        `accept` gets the hash of a new copy and raises to refuse it. `on_wait` is called when another process fetches
        the source. Raises what `make` and `accept` raise, and SourceError when the cache cannot be written.
        """
        try:
            async with folder_lock(self.folder, on_wait=on_wait):
                if not anew and (copy := await self.read()) is not None:
                    return copy
                async with staging_folder(self.folder) as staging:
                    fresh = staging / "content"
                    fresh.mkdir(mode=0o700)
                    origin = await make(fresh)
                    sha256 = await in_thread(lambda: self._hash(fresh))
                    accept(sha256)
                    return await in_thread(lambda: self._place(fresh, origin, sha256))
        except OSError as error:
            raise SourceError(
                f"{self.folder.parent}: fetched sources cannot be saved there: {error.strerror or error}. "
                "Make the folder writable, or set AMPLIFIER_HOME to one that is"
            ) from error

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
        _remove(fresh / META_NAME)  # a source may bring anything under this name, even a folder
        replace_file(fresh / META_NAME, json.dumps(record, indent=2).encode() + b"\n", mode=0o644)
        move_into_place(fresh, self.folder)
        return copy


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


def _remove(path: Path) -> None:
    import shutil

    try:
        path.unlink(missing_ok=True)
    except OSError:  # a folder
        shutil.rmtree(path)

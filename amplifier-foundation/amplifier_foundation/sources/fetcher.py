"""Get any source onto disk, from wherever it is."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from amplifier_foundation.paths import Home
from amplifier_foundation.sources.fetched import (
    Fetched,
    NotLockedError,
    OfflineError,
    SourceError,
    SourceIntegrityError,
    SourceNotFoundError,
)
from amplifier_foundation.sources.uri import SourceUri, parse_source, without_secrets

if TYPE_CHECKING:
    import asyncio

    from amplifier_foundation.sources.cache import Cache, CacheEntry, Copy, Origin
    from amplifier_foundation.sources.fetched import Pin

#: How many sources are fetched at the same time.
AT_ONCE: Final = 16
#: One of these must be in a repository (or the requested part of it): else it is not a bundle or a module.
_ROOT_FILES: Final = ("pyproject.toml", "setup.py", "setup.cfg", "bundle.md", "bundle.yaml", "amplifier.toml")


class Fetcher:
    """Fetch sources into the cache of one home, each once, all at the same time.

    `pins` has what was recorded for a source: that commit is fetched, and other content is refused. With `locked`
    nothing is fetched without a pin; with `offline` the network is not used; with `refresh` sources that may have
    changed are fetched again instead of being taken from the cache. A Fetcher belongs to one event loop.
    """

    def __init__(
        self,
        home: Home,
        *,
        offline: bool = False,
        pins: Mapping[str, Pin] | None = None,
        locked: bool = False,
        refresh: bool = False,
        environ: Mapping[str, str] = os.environ,
        on_progress: Callable[[str], None] | None = None,
    ) -> None:
        import asyncio

        self._home = home
        self._is_offline = offline
        self._pins = dict(pins or {})
        self._is_locked = locked
        self._is_refreshing = refresh
        self._environ = environ
        self._on_progress = on_progress
        self._slots = asyncio.Semaphore(AT_ONCE)
        #: The result for each requested source, so that parts of one repository are fetched together.
        self._copies: dict[Hashable, Copy | SourceError] = {}
        self._locks: dict[Hashable, asyncio.Lock] = {}
        #: Everything that was fetched through this object and is not local, by the source as it was asked for.
        self.fetched: dict[str, Fetched] = {}
        #: Warnings for the user, although nothing failed.
        self.warnings: list[str] = []

    @cached_property
    def _cache(self) -> Cache:
        # Most runs fetch nothing: the code for it is loaded with the first source.
        from amplifier_foundation.sources.cache import Cache

        return Cache(self._home.cache)

    async def fetch(self, uri: str, *, base: Path | None = None) -> Fetched:
        """Fetch a source unless it is on disk, and return it; `base` is the folder that `./` and `../` start from.

        Raises SourceError: SourceNotFoundError when it does not have the requested part, OfflineError, NotLockedError,
        or SourceIntegrityError when it is not what the pin says. Partial results of a failed or cancelled fetch are
        never used.
        """
        source = parse_source(uri)
        if source.kind == "file":
            from amplifier_foundation.sources.local import find_file

            return find_file(source, base=base, environ=self._environ)
        if source.kind == "package":
            from amplifier_foundation.sources.local import find_package

            return find_package(source)
        pin = self._pins.get(uri) or self._pins.get(without_secrets(uri))  # a lock holds no password
        if pin is None and self._is_locked:
            raise NotLockedError(
                f"{source.shown}: is not in the lock file, and only locked sources may be used: run once without "
                "--locked to record it"
            )
        copy = await self._shared_copy(source, pin)
        fetched = Fetched(
            uri, _asked_part(copy, source), copy.folder, source.kind, commit=copy.origin.commit, sha256=copy.sha256
        )
        self.fetched[uri] = fetched
        return fetched

    async def cached(self, source: SourceUri) -> Copy | None:
        """Return the cached copy of a source that can be fetched, None if there is none; raises SourceError."""
        return await self._cache.entry(*_identity(source, await self._version(source))).read()

    async def _shared_copy(self, source: SourceUri, pin: Pin | None) -> Copy:
        """Return the copy of a source, fetched by the first caller; those that wait for it share a failure, too."""
        import asyncio

        key = (source.kind, source.url, source.ref, pin)
        lock = self._locks.setdefault(key, asyncio.Lock())
        has_waited = lock.locked()
        async with lock:
            known = self._copies.get(key)
            if known is None or (isinstance(known, SourceError) and not has_waited):
                try:
                    self._copies[key] = await self._copy(source, pin)
                except SourceError as error:
                    self._copies[key] = error
            copy = self._copies[key]
        if isinstance(copy, SourceError):
            raise type(copy)(str(copy)) from copy
        return copy

    async def _copy(self, source: SourceUri, pin: Pin | None) -> Copy:
        """Return the whole of a source from the cache, fetched when it is not there."""
        if pin is not None:
            return await self._pinned(source, pin)
        entry = self._cache.entry(*_identity(source, await self._version(source)))
        # A commit and a local archive (which is known by its content) are always the same.
        is_fixed = source.is_commit or (source.kind == "zip" and not source.is_remote)
        is_anew = self._is_refreshing and not is_fixed
        copy = None if is_anew else await entry.read()
        if copy is None:
            return await self._fill(entry, source, anew=is_anew)
        if copy.is_changed:
            self.warnings.append(
                f"{source.shown}: {copy.folder} was changed since it was fetched; delete that folder to fetch it again"
            )
        return copy

    async def _pinned(self, source: SourceUri, pin: Pin) -> Copy:
        """Return the pinned copy: the entry of the ref if its content is the pinned one, else a separate entry."""
        if pin.commit is not None and source.is_commit and pin.commit != source.ref:
            raise SourceIntegrityError(
                f"{source.shown}: the lock file has another commit for it, {pin.commit}: correct the lock file"
            )
        copy = await self._cache.entry(*_identity(source, await self._version(source))).read()
        if copy is not None and copy.sha256 == pin.sha256 and copy.origin.commit == pin.commit:
            return copy
        if source.kind == "git" and pin.commit is not None:
            source = source._replace(ref=pin.commit)
        entry = self._cache.entry(*_identity(source, pin.commit or pin.sha256))
        copy = await entry.read()
        if copy is None:
            copy = await self._fill(entry, source, accept=lambda sha256: _check(source, pin, sha256))
        _check(source, pin, copy.sha256, copy.folder)
        return copy

    async def _fill(
        self,
        entry: CacheEntry,
        source: SourceUri,
        *,
        accept: Callable[[str], None] = lambda sha256: None,
        anew: bool = False,
    ) -> Copy:
        if self._is_offline and source.is_remote:
            raise OfflineError(
                f"{source.shown}: is not in the cache, and the network may not be used: run once without --offline "
                "to fetch it"
            )

        async def make(folder: Path) -> Origin:
            async with self._slots:
                self._say(f"fetching {source.shown}")
                return await self._fetch_into(folder, source)

        return await entry.fill(
            make,
            accept=accept,
            anew=anew,
            on_wait=lambda: self._say(f"waiting for another process that fetches {source.shown}"),
        )

    async def _fetch_into(self, folder: Path, source: SourceUri) -> Origin:
        if source.url.startswith("http://"):
            self.warnings.append(f"{source.shown}: was fetched without encryption: anyone on the way can change it")
        from amplifier_foundation.sources.cache import Origin

        url = without_secrets(source.url)
        if source.kind == "git":
            from amplifier_foundation.sources.git import clone

            return Origin(url, source.ref, await clone(source, folder, self._environ))
        from amplifier_foundation.sources.download import download

        if source.kind == "http":
            await download(source.url, folder / _file_name(source.url), self._environ)
        elif source.is_remote:
            packed = folder.with_name("archive.zip")
            await download(source.url, packed, self._environ)
            await _unpack(packed, folder, source)
        else:
            await _unpack(_local_archive(source), folder, source)
        return Origin(url, "", None)

    async def _version(self, source: SourceUri) -> str:
        """Return what identifies this version of a source: the ref, or the content hash of a local archive."""
        if source.kind != "zip" or source.is_remote:
            return source.ref
        from amplifier_kit.threads import in_thread

        return await in_thread(lambda: _file_hash(_local_archive(source), source))

    def _say(self, text: str) -> None:
        if self._on_progress is not None:
            self._on_progress(text)


def _identity(source: SourceUri, version: str) -> tuple[str, str]:
    """Return the readable name of a cache entry, and the text that identifies it."""
    name = _file_name(source.url)
    if source.kind == "git":
        name = name.removesuffix(".git")
    elif source.kind == "zip":
        name = name.removesuffix(".zip")
    return name, f"{source.url}@{version}" if version else source.url


def _file_name(url: str) -> str:
    """Return the last name of a URL's path, as a file may be called: its suffix says what is in it."""
    name = unquote(urlsplit(url).path.rstrip("/").rpartition("/")[2])
    kept = "".join(character if character.isalnum() or character in "._-" else "-" for character in name)
    return kept.lstrip(".-")[-100:] or "source"


def _asked_part(copy: Copy, source: SourceUri) -> Path:
    """Return the part of a copy that was asked for; raise SourceNotFoundError when it is not what was meant."""
    if source.kind == "http":
        return copy.folder / _file_name(source.url)
    from amplifier_foundation.sources.local import part_of

    try:
        path = part_of(copy.folder, source)
    except SourceNotFoundError as error:
        raise SourceNotFoundError(f"{error} (the copy of {copy.cached_at}; update it if it was added later)") from error
    if source.kind == "git" and path.is_dir() and not any((path / name).exists() for name in _ROOT_FILES):
        raise SourceNotFoundError(
            f"{source.shown}: holds neither a bundle nor a module: there is none of {', '.join(_ROOT_FILES)} in {path} "
            f"(the copy of {copy.cached_at}). Name the part that is meant with #subdirectory=path"
        )
    return path


def _check(source: SourceUri, pin: Pin, sha256: str, folder: Path | None = None) -> None:
    if sha256 == pin.sha256:
        return
    what = (
        f"the copy in {folder} was changed: delete that folder to fetch it again"
        if folder is not None
        else "what is there now is something else: update the lock file if that is meant"
    )
    raise SourceIntegrityError(f"{source.shown}: the lock file has content {pin.sha256}, but this is {sha256}; {what}")


async def _unpack(archive: Path, folder: Path, source: SourceUri) -> None:
    import threading

    from amplifier_foundation.sources.archive import unpack
    from amplifier_kit.threads import in_thread

    stopped = threading.Event()
    await in_thread(
        lambda: unpack(archive, folder, source.shown, is_stopped=stopped.is_set),
        stop=stopped.set,
    )


def _local_archive(source: SourceUri) -> Path:
    path = Path(source.url.removeprefix("file://"))
    decoded = Path(unquote(str(path)))
    return path if path.exists() or not decoded.exists() else decoded


def _file_hash(path: Path, source: SourceUri) -> str:
    import hashlib

    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError as error:
        raise SourceNotFoundError(f"{source.shown}: there is no file {path}") from error
    except OSError as error:
        raise SourceError(f"{source.shown}: cannot be read: {error}") from error

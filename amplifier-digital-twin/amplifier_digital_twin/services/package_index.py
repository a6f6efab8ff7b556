"""The package index of a universe: some names answered with local wheels only, the rest as the host would get it."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.services.addresses import INDEX
from amplifier_digital_twin.services.host_index import HostIndex, UpstreamError, local_path
from amplifier_digital_twin.services.http_site import Answer, HttpSite, Question, plain
from amplifier_digital_twin.services.index_cache import IndexCache
from amplifier_digital_twin.services.index_pages import (
    JSON,
    TEXT,
    Address,
    IndexFile,
    is_name,
    normalized,
    render_html,
    render_json,
    render_names,
    wants_json,
)
from amplifier_digital_twin.services.override import Override
from amplifier_kit.threads import in_thread

if TYPE_CHECKING:
    from amplifier_digital_twin.services.decisions import Decisions, Verdict
    from amplifier_digital_twin.services.wheel_file import WheelFile

#: How long a page of the host's indexes counts as fresh, in seconds.
PAGE_LIFETIME: float = 600.0
_BINARY: Final = "application/octet-stream"
_METADATA: Final = ".metadata"
#: What the log calls the host that was asked for.
_HOST: Final = "package-index"
#: Starts addresses that hold what is served; it is not looked at.
_AT: Final = "at"
_PLAIN: Final = re.compile(r"[A-Za-z0-9._~-]+")
_ASK_AGAIN: Final = {"Cache-Control": "no-cache"}
#: Addresses of such files hold their hash.
_FOR_EVER: Final = {"Cache-Control": "max-age=31536000, immutable"}


class ServedFile(NamedTuple):
    """A file that the index offers in place of a published one, or has handed out."""

    name: str
    filename: str
    sha256: str
    #: Where the host had it from; never with credentials.
    url: str


class PackageIndex:
    """Serves PEP 503 and PEP 691 pages under `/simple/` and files under `/files/`."""

    def __init__(
        self, overrides: Mapping[str, Sequence[Path]], upstream: HostIndex | None, cache: Path, decisions: Decisions
    ) -> None:
        """Raise TwinError (`wheel_mismatch`) for a file that is not called as one of its name is."""
        self._upstream = upstream
        self._cache = IndexCache(cache)
        self._decisions = decisions
        self._site = HttpSite(self._answer)
        #: Files of the host's indexes, by project and by what stands in their address here.
        self._known: dict[tuple[str, str], IndexFile] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._handed_out: dict[tuple[str, str], ServedFile] = {}
        self.replace(overrides)

    def replace(self, overrides: Mapping[str, Sequence[Path]]) -> None:
        """Answer with other files from now on; raise TwinError and change nothing when one is not of its name.

        What is in the wheels is not looked at: `look_into` does that, else the first to ask for one.
        """
        files: dict[str, dict[str, Override]] = {}
        for given, paths in overrides.items():
            name = normalized(given)
            offered = files.setdefault(name, {})
            for path in paths:
                override = Override(name, path)
                offered[override.sha256] = override
        self._overrides = files

    def look_into(self) -> None:
        """Look into every file that stands in for a published one; raise TwinError for one that is not what it says."""
        for files in self._overrides.values():
            for override in files.values():
                _ = override.wheel

    @property
    def served(self) -> list[ServedFile]:
        """Return every file that stands in for a published one, then what was handed out of the host's indexes."""
        own = [
            ServedFile(name, override.path.name, key, override.path.absolute().as_uri())
            for name, files in self._overrides.items()
            for key, override in files.items()
        ]
        return own + list(self._handed_out.values())

    def wheels(self, name: str) -> Sequence[WheelFile] | None:
        """Return the wheels that a name is answered with, None for a name that is not overridden."""
        files = self._overrides.get(normalized(name))
        if files is None:
            return None
        return [override.wheel for override in files.values() if override.wheel is not None]

    def fingerprint(self) -> str:
        """Return a hash of the files that stand in for published ones, and of where the rest comes from."""
        import hashlib

        lines = [
            f"{name} {override.path.name} {key}"
            for name, files in self._overrides.items()
            for key, override in files.items()
        ]
        rest = self._upstream.fingerprint() if self._upstream is not None else "none"
        return hashlib.sha256("\n".join([*sorted(lines), rest]).encode()).hexdigest()

    def url(self, address: tuple[str, int] = INDEX) -> str:
        """Return the address for installers. `/simple/` answers the same, but this one changes with what is served:

        uv takes a wheel that it has for one of the same name, version and index address without asking again.
        """
        return f"http://{address[0]}:{address[1]}/{_AT}/{self.fingerprint()[:16]}/simple/"

    async def serve(self, listening: socket.socket) -> asyncio.Server:
        """Answer on a listening socket until closed; return at once what closes this one alone."""
        return await self._site.serve(listening)

    async def close(self) -> None:
        """Stop answering; a second time does nothing."""
        await self._site.close()
        if self._upstream is not None:
            await self._upstream.close()

    async def _answer(self, question: Question) -> Answer:
        if question.method not in ("GET", "HEAD"):
            return plain(405, "this package index can only be read")
        parts = question.path.strip("/").split("/")
        if parts[0] == _AT:
            parts = parts[2:]
        if parts == ["simple"]:
            is_json = wants_json(question.headers.get("accept", ""))
            return Answer(200, render_names(sorted(self._overrides), is_json=is_json), JSON if is_json else TEXT)
        try:
            if len(parts) == 2 and parts[0] == "simple" and is_name(parts[1]):
                return await self._project(question, normalized(parts[1]))
            if len(parts) == 4 and parts[0] == "files" and is_name(parts[1]):
                return await self._file(question, normalized(parts[1]), parts[2], parts[3])
        except TwinError as error:
            self._record("error", question, error.message)
            return plain(502, f"{error.message}. Next: {error.remedy}")
        return plain(404, "this is a package index: projects are under /simple/")

    async def _project(self, question: Question, name: str) -> Answer:
        address: Address
        is_json = wants_json(question.headers.get("accept", ""))
        if name in self._overrides:
            self._record("rewrite", question, "answered by the profile's `packages`")
            files, address = await in_thread(lambda: self._own_entries(name)), _own_address
        elif self._upstream is None:
            return self._closed(question, name)
        else:
            foreseen = await self._foreseen_page(question, self._upstream, name) if is_json else None
            if foreseen is not None:
                return Answer(200, foreseen, JSON, _ASK_AGAIN)
            files, address = await self._upstream_page(question, self._upstream, name), partial(_upstream_address, name)
            if not files:
                self._record("error", question, "no index of the host knows this project")
                return plain(404, f"no package index that this host is configured for knows {name}")
            self._record("allow", question, "")
        if is_json:
            return Answer(200, render_json(name, files, address, is_extracting=True), JSON, _ASK_AGAIN)
        return Answer(200, render_html(name, files, address, is_extracting=True), TEXT, _ASK_AGAIN)

    async def _foreseen_page(self, question: Question, upstream: HostIndex, name: str) -> bytes | None:
        """Return the page of a project as it was written before anybody asked.

        None when it was not foreseen, or so long ago that the host's indexes have to be asked again, and can be.
        """
        owner = upstream.fingerprint()
        found = await in_thread(lambda: self._cache.shown(owner, name))
        if found is None:
            return None
        if found.age >= PAGE_LIFETIME:
            try:
                await self._upstream_page(question, upstream, name)
            except UpstreamError as error:
                self._record("error", question, f"{error.message}: the page of {found.age:.0f} s ago is used")
                return found.content
            return None
        self._record("allow", question, "")
        return found.content

    async def _upstream_page(self, question: Question, upstream: HostIndex, name: str) -> list[IndexFile]:
        """Return the files of a project, known from now on; raise UpstreamError when there is no way to know."""
        owner = upstream.fingerprint()
        async with self._lock(f"page {name}"):
            kept = await in_thread(lambda: self._cache.page(owner, name))
            if kept is not None and kept.age < PAGE_LIFETIME:
                files = kept.files
            else:
                try:
                    files = await upstream.page(name)
                except UpstreamError as error:
                    if kept is None:
                        raise
                    self._record("error", question, f"{error.message}: the page of {kept.age:.0f} s ago is used")
                    files = kept.files
                else:
                    if files:
                        await in_thread(lambda: self._cache.keep_page(owner, name, files))
            self._known.update({(name, key_of(file)): file for file in files})
        return files

    async def _file(self, question: Question, name: str, key: str, filename: str) -> Answer:
        is_metadata = filename.endswith(_METADATA)
        filename = filename.removesuffix(_METADATA)
        if name in self._overrides:
            return await self._own_file(name, key, filename, is_metadata)
        if self._upstream is None:
            return self._closed(question, name)
        file = self._known.get((name, key)) or self._cache.entry(self._upstream.fingerprint(), name, key)
        if file is None:
            await self._upstream_page(question, self._upstream, name)
            file = self._known.get((name, key))
        if file is None or file.filename != filename:
            return plain(404, f"there is no file {filename} of {name} here")
        try:
            if is_metadata:
                return await self._upstream_metadata(self._upstream, file, key)
            path = await self._kept_file(self._upstream, file)
        except TwinError as error:
            raise TwinError(error.code, f"{filename}: {error.message}", error.remedy) from error
        self._record("allow", question, "")
        self._handed_out[(name, filename)] = ServedFile(name, filename, path.name, file.url.partition("?")[0])
        return _sent(path, _FOR_EVER)

    def _own_entries(self, name: str) -> list[IndexFile]:
        offered = self._overrides[name].items()
        return [override.page_entry(_address(name, key, override.path.name)) for key, override in offered]

    async def _own_file(self, name: str, key: str, filename: str, is_metadata: bool) -> Answer:
        override = self._overrides[name].get(key)
        if override is None or override.path.name != filename:
            return plain(404, f"this universe answers for {name} itself and has no such file of it")
        if is_metadata:
            wheel = await in_thread(lambda: override.wheel)
            return plain(404, "only wheels have metadata") if wheel is None else Answer(200, wheel.metadata, _BINARY)
        return _sent(override.path, _ASK_AGAIN)

    async def _upstream_metadata(self, upstream: HostIndex, file: IndexFile, key: str) -> Answer:
        from amplifier_digital_twin.services.wheel_file import WheelFile, read_metadata

        path = local_path(file.url)
        if path is not None and not file.metadata_hashes:
            local = await in_thread(lambda: WheelFile.read(path))
            return Answer(200, local.metadata, _BINARY)
        if not file.has_metadata:
            wheel = await self._kept_file(upstream, file)
            return Answer(200, await in_thread(lambda: read_metadata(wheel)), _BINARY, _FOR_EVER)
        kept = await self._kept(upstream, f"{file.url}{_METADATA}", file.metadata_hashes, f"meta-{key}")
        return _sent(kept, _FOR_EVER)

    async def _kept_file(self, upstream: HostIndex, file: IndexFile) -> Path:
        return await self._kept(upstream, file.url, file.hashes, None if "sha256" in file.hashes else key_of(file))

    async def _kept(self, upstream: HostIndex, url: str, hashes: Mapping[str, str], key: str | None) -> Path:
        """Return where a file is kept, fetched and verified first when it is not; raise TwinError."""
        async with self._lock(url):
            sha256 = hashes.get("sha256") or (self._cache.named(key) if key else None)
            found = self._cache.file(sha256) if sha256 else None
            return found or await self._cache.keep(upstream.content(url), hashes, key)

    def _lock(self, key: str) -> asyncio.Lock:
        return self._locks.setdefault(key, asyncio.Lock())

    def _closed(self, question: Question, name: str) -> Answer:
        self._record("refuse", question, "the profile allows no package index")
        return plain(
            404, f"{name} is not served in this universe: add `@package-index` to `network.allow` in the profile"
        )

    def _record(self, verdict: Verdict, question: Question, reason: str) -> None:
        self._decisions.record("index", verdict, _HOST, INDEX[1], question.method, question.path, reason)


def shown_page(name: str, files: Sequence[IndexFile]) -> bytes:
    """Return the JSON page of a project of the host's indexes, as every universe is given it."""
    return render_json(name, files, partial(_upstream_address, name), is_extracting=True)


def _sent(path: Path, headers: Mapping[str, str]) -> Answer:
    # On this machine: opening it takes less than a thread does to start.
    return Answer(200, path.open("rb"), _BINARY, headers)


def _address(name: str, key: str, filename: str) -> str:
    # Asked for thousands of files of a page, nearly all of them with a name that needs no quoting.
    return f"/files/{name}/{key}/{filename if _PLAIN.fullmatch(filename) else quote(filename)}"


def _own_address(file: IndexFile) -> str:
    return file.url


def _upstream_address(name: str, file: IndexFile) -> str:
    return _address(name, key_of(file), file.filename)


def key_of(file: IndexFile) -> str:
    """Return what stands in the address of a file here."""
    return file.hashes.get("sha256") or f"url-{_digest(file.url)}"


def _digest(text: str) -> str:
    import hashlib

    return hashlib.sha256(text.encode()).hexdigest()

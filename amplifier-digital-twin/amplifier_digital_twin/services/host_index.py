"""The package indexes that the host's own installers use, asked on behalf of a universe. Credentials stay here."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.remembered import Remembered, file_facts
from amplifier_digital_twin.services.host_settings import HostSettings, read_settings
from amplifier_digital_twin.services.index_pages import ACCEPTED, IndexFile, PageError, parse_links, parse_page
from amplifier_digital_twin.services.link_folder import files_in, is_file_of, pieces
from amplifier_digital_twin.services.link_judge import LinkJudge, LinkRefusedError
from amplifier_digital_twin.value import Value
from amplifier_foundation.sources.download import proxy_for
from amplifier_foundation.sources.uri import without_secrets
from amplifier_kit.threads import in_thread

if TYPE_CHECKING:
    import ssl

    import httpx2

_log: Final = logging.getLogger(__name__)
#: How long to wait before asking again, in seconds.
RETRY_PAUSES: tuple[float, ...] = (0.3, 1.0)
_TIMEOUT: Final = 60.0
_CONNECT_TIMEOUT: Final = 10.0
#: A few that are used again: each new one costs a handshake, and a question to a name service that may ration them.
_CONNECTIONS: Final = 8
_REDIRECTS: Final = 5
_MAX_PAGE: Final = 128 * 1024 * 1024
#: Answers of a server that may be another one the next time.
_PASSING: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_BUILT_IN: Final = re.compile(r"(?:--index-url |\(default\s+)(https?://[^\s)]+)")


class Location(Value):
    """A place where packages are: an index with a page per project, or one page or folder of links."""

    kind: Literal["index", "links"]
    #: Without user and password.
    url: str
    credentials: tuple[str, str] | None = field(default=None, repr=False)

    @classmethod
    def parse(cls, kind: Literal["index", "links"], text: str) -> Location:
        """Return the place that a setting names: an address, or a path of the host."""
        parts = urlsplit(text)
        if parts.scheme not in ("http", "https", "file"):
            return cls(kind, Path(text).expanduser().absolute().as_uri())
        user, has_user, place = parts.netloc.rpartition("@")
        name, _, password = user.partition(":")
        credentials = (unquote(name), unquote(password)) if has_user else None
        return cls(kind, urlunsplit(parts._replace(netloc=place)), credentials)


class UpstreamError(TwinError):
    """An index of the host cannot be asked, or answers what no index does."""

    def __init__(self, url: str, why: str) -> None:
        shown = without_secrets(url).partition("?")[0]
        super().__init__(
            "upstream_unreachable", f"{shown}: {why}", "check the network and the host's pip or uv settings"
        )


class HostIndex:
    """Everything that the host's pip and uv are configured for, as one index."""

    def __init__(
        self, locations: Sequence[Location], environ: Mapping[str, str], certificates: str | None = None
    ) -> None:
        self.locations: Final = tuple(locations)
        self._environ = dict(environ)
        self._certificates = certificates
        self._clients: dict[str | None, httpx2.AsyncClient] = {}
        self._context: ssl.SSLContext | None = None
        #: Files of this machine that pages of this machine have named.
        self._own_files: set[str] = set()
        self._judge = LinkJudge(self.hosts(), environ)

    @classmethod
    async def from_host(cls, environ: Mapping[str, str], remembered: Remembered | None = None) -> HostIndex:
        """Return what this host is configured for; without a setting, what its uv or pip has built in (`remembered`).

        Raises TwinError (`host_index_invalid`) for a settings file that is damaged.
        """
        settings = await in_thread(lambda: _settings(environ, remembered))
        indexes = [] if settings.is_closed else settings.indexes
        places = [Location.parse("links", text) for text in settings.links]
        places += [Location.parse("index", text) for text in indexes]
        known = await in_thread(lambda: [_with_netrc(place, environ) for place in places])
        return cls(known, environ, settings.certificates)

    def hosts(self) -> frozenset[str]:
        """Return the hosts that are asked, with their port where it is not the usual one."""
        parts = [urlsplit(place.url) for place in self.locations]
        return frozenset(part.netloc.lower() for part in parts if part.scheme in ("http", "https"))

    def fingerprint(self) -> str:
        """Return a hash of the places, in their order."""
        import hashlib

        return hashlib.sha256("\n".join(f"{place.kind} {place.url}" for place in self.locations).encode()).hexdigest()

    async def page(self, name: str) -> list[IndexFile]:
        """Return the files of a project from all places, each name once; nothing when none knows it.

        Raises UpstreamError when a place cannot be asked: an answer without it could lead to another package.
        """
        pages = await asyncio.gather(*(self._page(place, name) for place in self.locations))
        files: dict[str, IndexFile] = {}
        for place, page in zip(self.locations, pages, strict=True):
            for file in page:
                # A page of the web that names a file of this machine would be given that file.
                if file.url.startswith(("https://", "http://")):
                    files.setdefault(file.filename, file)
                elif local_path(file.url) is not None and local_path(place.url) is not None:
                    self._own_files.add(file.url)
                    files.setdefault(file.filename, file)
        return list(files.values())

    async def content(self, url: str) -> AsyncIterator[bytes]:
        """Yield what lies at an address that a page named; raise UpstreamError."""
        if (path := local_path(url)) is not None:
            if url not in self._own_files:
                raise UpstreamError(url, "no page of this machine names it")
            async for piece in pieces(path):
                yield piece
            return
        async for piece in self._fetched(url, "*/*"):
            yield piece

    async def close(self) -> None:
        """Close what is open; a second time does nothing."""
        clients = list(self._clients.values())
        self._clients.clear()
        for client in clients:
            await client.aclose()

    async def _page(self, place: Location, name: str) -> list[IndexFile]:
        path = local_path(place.url)
        if place.kind == "links":
            if path is not None and path.is_dir():
                return await in_thread(lambda: files_in(path, name))
            content, _, url = await self._text(place.url, path)
            return [
                file for file in parse_links(content.decode("utf-8", "replace"), url) if is_file_of(file.filename, name)
            ]
        url = f"{place.url.rstrip('/')}/{name}/"
        if path is not None:
            page = path / name / "index.html"
            if not page.is_file():
                if not path.is_dir():
                    raise UpstreamError(place.url, "the folder is not there")
                return []
            content, kind = await in_thread(page.read_bytes), "text/html"
        else:
            content, kind, url = await self._text(url, None)
        try:
            return parse_page(content, kind, url) if content else []
        except PageError as error:
            raise UpstreamError(url, str(error)) from error

    async def _text(self, url: str, path: Path | None) -> tuple[bytes, str, str]:
        """Return a page, its kind and where it came from in the end; an empty one when there is none."""
        if path is not None:
            return await in_thread(lambda: _local(url, path)), "text/html", url
        said: dict[str, str] = {}
        content = bytearray()
        try:
            async for piece in self._fetched(url, ACCEPTED, said):
                content += piece
                if len(content) > _MAX_PAGE:
                    raise UpstreamError(url, f"the page has more than {_MAX_PAGE:,} bytes")
        except _AbsentError:
            return b"", "", url
        return bytes(content), said["kind"], said["url"]

    async def _fetched(self, url: str, accept: str, said: dict[str, str] | None = None) -> AsyncIterator[bytes]:
        """Yield an answer; what passes is tried again, as long as nothing of it was handed on."""
        import httpx2

        for pause in (*RETRY_PAUSES, None):
            has_begun = False
            try:
                async for piece in self._answer(url, accept, said):
                    has_begun = True
                    yield piece
                return
            except _PassingError as error:
                if pause is None:
                    raise UpstreamError(url, str(error)) from error
            except (httpx2.TransportError, httpx2.DecodingError) as error:
                if pause is None or has_begun:
                    reason = without_secrets(str(error)) or type(error).__name__
                    raise UpstreamError(url, f"cannot be reached: {reason}") from error
            except LinkRefusedError as error:
                raise UpstreamError(url, str(error)) from error
            except OSError as error:
                if pause is None or has_begun:
                    raise UpstreamError(url, f"its name cannot be resolved: {error}") from error
            except (httpx2.InvalidURL, ValueError, ImportError) as error:
                raise UpstreamError(url, f"cannot be asked for: {without_secrets(str(error))}") from error
            await asyncio.sleep(pause or 0)

    async def _answer(self, url: str, accept: str, said: dict[str, str] | None) -> AsyncIterator[bytes]:
        for _ in range(_REDIRECTS + 1):
            client = await self._client(url)
            place = await self._judge.judged(url)
            async with client.stream(
                "GET",
                place.url,
                headers={"Accept": accept, **place.headers},
                auth=self._auth(url),
                extensions=dict(place.extensions),
            ) as response:
                if response.has_redirect_location:
                    url = _next(url, response.headers["location"])
                    continue
                _check(url, response.status_code, response.reason_phrase)
                if said is not None:
                    said |= {"kind": response.headers.get("content-type", ""), "url": url}
                async for piece in response.aiter_bytes():
                    yield piece
                return
        raise UpstreamError(url, "leads from one address to the next without end")

    def _auth(self, url: str) -> tuple[str, str] | None:
        """Return user and password for an address: only those of the very server they were given for."""
        places = [place for place in self.locations if place.credentials and _origin(place.url) == _origin(url)]
        # Several indexes may share a server, each with a password of its own.
        nearest = max(places, key=lambda place: len(os.path.commonpath([place.url, url])), default=None)
        return nearest.credentials if nearest is not None else None

    async def _client(self, url: str) -> httpx2.AsyncClient:
        import httpx2

        proxy = proxy_for(url, self._environ)
        if self._context is None:
            self._context = await in_thread(self._trust)
        if proxy not in self._clients:
            through = None
            if proxy is not None:
                through = httpx2.Proxy(proxy, ssl_context=self._context if proxy.startswith("https://") else None)
            # No time for waiting one's turn: it is the others' downloads that take it.
            timeout = httpx2.Timeout(_TIMEOUT, connect=_CONNECT_TIMEOUT, pool=None)
            limits = httpx2.Limits(max_connections=_CONNECTIONS, max_keepalive_connections=_CONNECTIONS)
            self._clients[proxy] = httpx2.AsyncClient(
                verify=self._context, proxy=through, timeout=timeout, limits=limits, trust_env=False
            )
        return self._clients[proxy]

    def _trust(self) -> ssl.SSLContext:
        import ssl

        import httpx2

        environ = self._environ
        file = environ.get("SSL_CERT_FILE") or self._certificates or environ.get("REQUESTS_CA_BUNDLE")
        if not file:
            return httpx2.create_ssl_context(trust_env=False)
        try:
            is_folder = os.path.isdir(file)
            return ssl.create_default_context(cafile=None if is_folder else file, capath=file if is_folder else None)
        except OSError as error:
            raise UpstreamError(file, f"the certificates cannot be read: {error.strerror or error}") from error


class _PassingError(Exception):
    """A failure that may be gone at the next attempt."""


class _AbsentError(UpstreamError):
    """The server has no such page."""


def _check(url: str, code: int, reason: str) -> None:
    if code == 200:
        return
    said = f"answered {code} {reason}".rstrip()
    if code in _PASSING:
        raise _PassingError(said)
    if code in (404, 410):
        raise _AbsentError(url, said)
    raise UpstreamError(url, said)


def _next(url: str, location: str) -> str:
    target = urljoin(url, location)
    is_open = not target.startswith("https://")
    if is_open and (url.startswith("https://") or not target.startswith("http://")):
        raise UpstreamError(url, "leads from an encrypted connection to an open one: refused")
    return target


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    usual = {"https": 443, "http": 80}.get(parts.scheme)
    return parts.scheme, (parts.hostname or "").lower(), parts.port or usual


def local_path(url: str) -> Path | None:
    """Return the path that a `file:` address means, None for any other."""
    parts = urlsplit(url)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


def _local(url: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UpstreamError(url, f"cannot be read: {error.strerror or error}") from error


def _settings(environ: Mapping[str, str], remembered: Remembered | None) -> HostSettings:
    settings = read_settings(environ)
    if not settings.has_main and not settings.is_closed:
        # Every launch asks, and it is the program that decides.
        facts = ("index", file_facts(_uv(environ) or ""), file_facts(sys.executable))
        built_in = remembered.get(*facts) if remembered is not None else None
        if built_in is None:
            built_in = _built_in(environ)
            if built_in is not None and remembered is not None:
                remembered.put(built_in, *facts)
        if built_in is not None:
            settings.add_main(built_in)
        else:
            _log.warning("no package index is configured, and neither uv nor pip is there to say which one it uses")
    return settings


def _uv(environ: Mapping[str, str]) -> str | None:
    import shutil

    folders = [environ.get("PATH", os.defpath), str(Path(sys.executable).parent)]
    return shutil.which("uv", path=os.pathsep.join(folders))


def _built_in(environ: Mapping[str, str]) -> str | None:
    """Ask uv, or else pip, which index it uses when nobody names one."""
    import subprocess

    uv = _uv(environ)
    plain = {"PATH": environ.get("PATH", os.defpath), "HOME": "/nonexistent", "PIP_CONFIG_FILE": os.devnull}
    # With this Python: the first on the path may be a shim that takes longer than everything else.
    options = ["--no-config", "--no-cache", "--offline", "--python", sys.executable]
    commands = [[uv, "pip", "compile", *options, "--emit-index-url", "-"]] if uv else []
    commands.append([sys.executable, "-m", "pip", "install", "--help"])
    for command in commands:
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, env=plain, timeout=30, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            continue  # the next one is asked; that nobody answers is said by the caller
        if found := _BUILT_IN.search(done.stdout.decode("utf-8", "replace")):
            return found[1]
    return None


def _with_netrc(place: Location, environ: Mapping[str, str]) -> Location:
    """Return the place with what the user's netrc says of its server."""
    import netrc

    host = urlsplit(place.url).hostname
    if place.credentials is not None or host is None:
        return place
    file = Path(environ.get("NETRC") or Path(environ.get("HOME") or os.path.expanduser("~")) / ".netrc")
    try:
        found = netrc.netrc(file).authenticators(host) if file.is_file() else None
    except (OSError, netrc.NetrcParseError):
        _log.warning("%s cannot be read: indexes are asked without its passwords", file)
        return place
    return place if found is None else Location(place.kind, place.url, (found[0], found[2] or ""))

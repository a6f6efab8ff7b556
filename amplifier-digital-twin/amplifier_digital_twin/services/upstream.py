"""The package indexes that the host's own installers use, asked on behalf of a universe. Credentials stay here.

The indexes may be anywhere. What their pages and redirects lead to must be on the internet or, where an index is itself
in a private network, on a neighbour; never this machine, nor where clouds hand out credentials. A `file:` address
counts only on a page that is itself a file.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import netrc
import os
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit

import httpx2
from packaging.utils import canonicalize_name

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.services.host_settings import read_settings
from amplifier_foundation.sources.download import proxy_for
from amplifier_foundation.sources.uri import without_secrets
from amplifier_kit.guard.network import Endpoint, is_address, is_ordinary, is_public
from amplifier_kit.guard.ssrf import AddressRefusedError, Guard, is_own, resolve

#: A file of a project as PEP 691 describes it, its `url` absolute.
File = dict[str, Any]

JSON: Final = "application/vnd.pypi.simple.v1+json"
_ACCEPTED: Final = f"{JSON}, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
_TIMEOUT: Final = httpx2.Timeout(60.0, connect=10.0, pool=None)
_CONNECTIONS: Final = 16


class UpstreamError(TwinError):
    """An index of the host cannot be asked, or its answer is invalid."""

    def __init__(self, url: str, why: str, *, status: int = 0) -> None:
        said = f"{without_secrets(url).partition('?')[0]}: {why}"
        super().__init__("upstream_unreachable", said, "check the network and the host's pip or uv settings")
        self.status = status


@dataclass(frozen=True)
class Location:
    """A place with packages: an index with a page per project, or one page or directory of links (`is_flat`)."""

    #: Without user and password.
    url: str
    is_flat: bool = False
    credentials: tuple[str, str] | None = field(default=None, repr=False)

    @classmethod
    def parse(cls, text: str, environ: Mapping[str, str], *, is_flat: bool = False) -> Location:
        """Return the place that a setting names: a URL, or a path of the host."""
        parts = urlsplit(text)
        if parts.scheme not in ("http", "https", "file"):
            return cls(Path(text).expanduser().absolute().as_uri(), is_flat)
        user, has_user, place = parts.netloc.rpartition("@")
        name, _, password = user.partition(":")
        credentials = (unquote(name), unquote(password)) if has_user else _from_netrc(parts.hostname, environ)
        return cls(urlunsplit(parts._replace(netloc=place)), is_flat, credentials)

    @property
    def path(self) -> Path | None:
        """Where it is on this machine; None for a place of the web."""
        return local_path(self.url)


class Upstream:
    """Everything that the host's pip and uv are configured for, as one index."""

    def __init__(self, locations: Sequence[Location], environ: Mapping[str, str], trusted: str | None = None) -> None:
        self.locations: Final = tuple(locations)
        own = [urlsplit(place.url) for place in locations if place.path is None]
        context = _context(trusted) if trusted else httpx2.create_ssl_context()
        indexes = [Endpoint(part.hostname or "", _port(part.scheme, part.port)) for part in own]
        # What the environment says of proxies counts: behind one, it is the proxy that resolves names.
        proxies = {proxy_for(place.url, environ) for place in locations if place.path is None} - {None}
        self._client = httpx2.AsyncClient(
            transport=None if proxies else CheckedTransport(indexes, context),
            verify=context,
            timeout=_TIMEOUT,
            limits=httpx2.Limits(max_connections=_CONNECTIONS),
            follow_redirects=True,
        )

    @classmethod
    def of_host(cls, environ: Mapping[str, str]) -> Upstream:
        """Return what this host is configured for; raises TwinError (`host_index_invalid`)."""
        settings = read_settings(environ)
        places = [Location.parse(text, environ, is_flat=True) for text in settings.links]
        places += [Location.parse(text, environ) for text in settings.indexes]
        return cls(places, environ, settings.certificates)

    def fingerprint(self) -> str:
        """Return a hash of the places, in their order."""
        lines = [f"{place.is_flat} {place.url}" for place in self.locations]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    async def page(self, name: str) -> list[File]:
        """Return the files of a project from all places, each name once; nothing when none knows it.

        Raises UpstreamError when a place cannot be asked: an answer without it could lead to another package.
        """
        pages = await asyncio.gather(*(self._page(place, name) for place in self.locations))
        files: dict[str, File] = {}
        for place, page in zip(self.locations, pages, strict=True):
            for file in page:
                scheme = urlsplit(file["url"]).scheme
                if scheme in ("http", "https") or (scheme == "file" and place.path is not None):
                    files.setdefault(file["filename"], file)
        return list(files.values())

    @contextlib.asynccontextmanager
    async def open(self, url: str, accept: str = "*/*") -> AsyncIterator[httpx2.Response]:
        """Give the answer to a GET, its body still to be read; redirects are followed. Raises UpstreamError."""
        try:
            auth = self._credentials(url)
            async with self._client.stream("GET", url, headers={"Accept": accept}, auth=auth) as response:
                if response.status_code != 200:
                    raise UpstreamError(url, f"answered {response.status_code}", status=response.status_code)
                yield response
        except AddressRefusedError as error:
            raise UpstreamError(url, f"refused: {error}") from error
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
            reason = without_secrets(str(error)) or type(error).__name__
            raise UpstreamError(url, f"cannot be reached: {reason}") from error

    async def _page(self, place: Location, name: str) -> list[File]:
        if place.path is not None:
            return await asyncio.to_thread(_local_page, place, place.path, name)
        url = place.url if place.is_flat else f"{place.url.rstrip('/')}/{name}/"
        try:
            async with self.open(url, _ACCEPTED) as response:
                content = await response.aread()
        except UpstreamError as error:
            if error.status in (404, 410):
                return []
            raise
        kind, wanted = response.headers.get("content-type", ""), name if place.is_flat else None
        return await asyncio.to_thread(parse_page, content, kind, str(response.url), wanted)

    def _credentials(self, url: str) -> tuple[str, str] | None:
        """Return user and password for a URL: only those of the very server they were given for."""
        places = [place for place in self.locations if place.credentials and _origin(place.url) == _origin(url)]
        # Several indexes may share a server, each with a password of its own.
        nearest = max(places, key=lambda place: len(os.path.commonpath([place.url, url])), default=None)
        return nearest.credentials if nearest is not None else None


class CheckedTransport(httpx2.AsyncHTTPTransport):
    """Connects to the very addresses that were checked; every name is resolved once.

    Resolvers lose questions when many are asked at once, and each loss costs seconds.
    """

    def __init__(self, indexes: Sequence[Endpoint], context: ssl.SSLContext) -> None:
        super().__init__(verify=context, limits=httpx2.Limits(max_connections=_CONNECTIONS))
        self._indexes = indexes
        self._names: dict[str, asyncio.Future[Sequence[str]]] = {}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request; raises AddressRefusedError."""
        host, port = request.url.host, _port(request.url.scheme, request.url.port)
        addresses = await self.addresses(Endpoint(host, port))
        extensions = {**request.extensions, "sni_hostname": host}
        for address in addresses:
            pinned = httpx2.Request(
                request.method,
                request.url.copy_with(host=address),
                headers=request.headers,
                stream=request.stream,
                extensions=extensions,
            )
            try:
                return await super().handle_async_request(pinned)
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                if address == addresses[-1]:
                    raise
        raise AssertionError("a host has at least one address")

    async def addresses(self, endpoint: Endpoint) -> Sequence[str]:
        """Return the addresses of a host that may be connected to; raises AddressRefusedError, OSError."""
        indexes = [address for index in self._indexes for address in await self._resolve(index.host)]
        is_private = not all(map(is_public, indexes))

        def judge(address: str) -> bool:
            if endpoint in self._indexes:
                return True
            return is_ordinary(address) and not is_own(address) and (is_private or is_public(address))

        return await Guard(resolve=self._resolve, judge=judge).addresses(endpoint)

    async def _resolve(self, host: str) -> Sequence[str]:
        if is_address(host):
            return [host]
        if host not in self._names:
            self._names[host] = asyncio.create_task(_resolved(host))
        return await asyncio.shield(self._names[host])


async def _resolved(host: str) -> Sequence[str]:
    return await resolve(host)


def local_path(url: str) -> Path | None:
    """Return the path that a `file:` URL means, None for any other."""
    parts = urlsplit(url)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


def parse_page(content: bytes, content_type: str, url: str, wanted: str | None = None) -> list[File]:
    """Return the files of a page that came from `url`, only those of the project `wanted` where a page has several.

    Raises UpstreamError when it is not a page of a package index.
    """
    kind = content_type.partition(";")[0].strip().lower()
    if kind in (JSON, "application/json"):
        try:
            page = json.loads(content)
            if str(page["meta"]["api-version"]).partition(".")[0] != "1":
                raise UpstreamError(url, "it speaks an unknown version of the index interface")
            files = [_described(item, urljoin(url, str(item["url"]))) for item in page["files"]]
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise UpstreamError(url, f"its JSON is not a page of a package index: {error!r}") from error
    elif kind in ("application/vnd.pypi.simple.v1+html", "text/html", ""):
        reader = _Links(url)
        reader.feed(content.decode("utf-8", "replace"))
        reader.close()
        files = reader.files
    else:
        raise UpstreamError(url, f"sent {kind!r}, which is not a page of a package index")
    return files if wanted is None else [file for file in files if _project(file["filename"]) == wanted]


def _described(item: Mapping[str, Any], url: str) -> File:
    found: File = {"filename": str(item["filename"]), "url": url}
    found["hashes"] = {str(name): str(value).lower() for name, value in item["hashes"].items()}
    # Not under its old name too: pip before 23.2 takes that for a text, and fails (PEP 714).
    found["core-metadata"] = item.get("core-metadata", item.get("dist-info-metadata"))
    found |= {name: item.get(name) for name in ("requires-python", "yanked", "size", "upload-time")}
    return {name: value for name, value in found.items() if value is not None and value is not False}


class _Links(HTMLParser):
    """Collects the links of an HTML page as PEP 691 describes files."""

    def __init__(self, url: str) -> None:
        super().__init__(convert_charrefs=True)
        self._base = url
        self.files: list[File] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attributes}
        target = given.get("href", "").strip()
        if tag == "base" and target:
            self._base = urljoin(self._base, target)
        url, _, fragment = urljoin(self._base, target).partition("#")
        filename = unquote(urlsplit(url).path.rpartition("/")[2])
        if tag != "a" or not target or not filename:
            return
        metadata = given.get("data-core-metadata", given.get("data-dist-info-metadata", ""))
        item: File = {"filename": filename, "hashes": _hash(fragment)}
        item["core-metadata"] = _hash(metadata) or bool(metadata)
        item["requires-python"] = given.get("data-requires-python")
        item["yanked"] = (given["data-yanked"] or True) if "data-yanked" in given else False
        self.files.append(_described(item, url))


def _hash(text: str) -> dict[str, str]:
    name, _, value = text.partition("=")
    return {name: value} if value.isalnum() and name in hashlib.algorithms_guaranteed else {}


def _local_page(place: Location, path: Path, name: str) -> list[File]:
    if place.is_flat and path.is_dir():
        names = sorted(entry.name for entry in path.iterdir() if _project(entry.name) == name)
        return [{"filename": each, "url": (path / each).absolute().as_uri(), "hashes": {}} for each in names]
    page = path if place.is_flat else path / name / "index.html"
    try:
        return parse_page(page.read_bytes(), "text/html", page.absolute().as_uri(), name if place.is_flat else None)
    except OSError as error:
        if not place.is_flat and path.is_dir() and not page.exists():
            return []
        raise UpstreamError(place.url, f"cannot be read: {error.strerror or error}") from error


def _project(filename: str) -> str | None:
    """Return the project that a wheel or a source archive is of, None for any other file."""
    if filename.endswith(".whl"):
        return canonicalize_name(filename.partition("-")[0])
    return canonicalize_name(filename.rpartition("-")[0]) if filename.endswith((".tar.gz", ".zip")) else None


def _context(certificates: str) -> ssl.SSLContext:
    kind = "capath" if os.path.isdir(certificates) else "cafile"
    return ssl.create_default_context(**{kind: certificates})  # type: ignore[arg-type]


def _origin(url: str) -> tuple[str, str, int]:
    parts = urlsplit(url)
    return parts.scheme, (parts.hostname or "").lower(), _port(parts.scheme, parts.port)


def _port(scheme: str, port: int | None) -> int:
    return port or (443 if scheme == "https" else 80)


def _from_netrc(host: str | None, environ: Mapping[str, str]) -> tuple[str, str] | None:
    file = Path(environ.get("NETRC") or Path(environ.get("HOME") or os.path.expanduser("~")) / ".netrc")
    try:
        found = netrc.netrc(file).authenticators(host) if host and file.is_file() else None
    except (OSError, netrc.NetrcParseError) as error:
        raise TwinError("host_index_invalid", f"{file} cannot be read", "repair or remove the file") from error
    return None if found is None else (found[0], found[2] or "")

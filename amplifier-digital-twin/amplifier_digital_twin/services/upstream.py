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
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
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
from amplifier_kit.guard.network import is_ordinary, is_public
from amplifier_kit.guard.ssrf import is_own

#: A file of a project as PEP 691 describes it, its `url` absolute.
File = dict[str, Any]

JSON: Final = "application/vnd.pypi.simple.v1+json"
_ACCEPTED: Final = f"{JSON}, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
_TIMEOUT: Final = httpx2.Timeout(60.0, connect=10.0, pool=None)
_LIMITS: Final = httpx2.Limits(max_connections=16, max_keepalive_connections=16)


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


class Upstream:
    """Everything that the host's pip and uv are configured for, as one index."""

    def __init__(self, locations: list[Location], environ: Mapping[str, str], certificates: str | None = None) -> None:
        self.locations: Final = tuple(locations)
        self._environ = environ
        self._origins = {_origin(place.url) for place in locations if not place.url.startswith("file:")}
        # What the environment says of proxies counts.
        self._client = httpx2.AsyncClient(
            verify=_context(certificates) if certificates else True,
            timeout=_TIMEOUT,
            limits=_LIMITS,
            follow_redirects=True,
            event_hooks={"request": [self._check]},
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
                if scheme in ("http", "https") or (scheme == "file" and place.url.startswith("file:")):
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
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
            reason = without_secrets(str(error)) or type(error).__name__
            raise UpstreamError(url, f"cannot be reached: {reason}") from error

    async def _page(self, place: Location, name: str) -> list[File]:
        path = local_path(place.url)
        if path is not None:
            return await asyncio.to_thread(_local_page, place, path, name)
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

    async def _check(self, request: httpx2.Request) -> None:
        """Refuse what pages and redirects must not lead to; raises UpstreamError, OSError."""
        url = str(request.url)
        if _origin(url) in self._origins or proxy_for(url, self._environ) is not None:
            return
        indexes = [address for _, host, _ in self._origins for address in await _addresses(host)]
        is_private = not all(map(is_public, indexes))
        for address in await _addresses(request.url.host):
            if not is_ordinary(address) or is_own(address) or not (is_private or is_public(address)):
                raise UpstreamError(url, "refused: its address is of a private or special network, or of this machine")

    def _credentials(self, url: str) -> tuple[str, str] | None:
        """Return user and password for a URL: only those of the very server they were given for."""
        places = [place for place in self.locations if place.credentials and _origin(place.url) == _origin(url)]
        # Several indexes may share a server, each with a password of its own.
        nearest = max(places, key=lambda place: len(os.path.commonpath([place.url, url])), default=None)
        return nearest.credentials if nearest is not None else None


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
        item: File = {
            "filename": filename,
            "hashes": _hash(fragment),
            "core-metadata": _hash(metadata) or bool(metadata),
        }
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
    is_folder = os.path.isdir(certificates)
    return ssl.create_default_context(**{"capath" if is_folder else "cafile": certificates})  # type: ignore[arg-type]


async def _addresses(host: str) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM)
    return [str(place[4][0]) for place in found]


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    return parts.scheme, (parts.hostname or "").lower(), parts.port or {"https": 443, "http": 80}.get(parts.scheme)


def _from_netrc(host: str | None, environ: Mapping[str, str]) -> tuple[str, str] | None:
    file = Path(environ.get("NETRC") or Path(environ.get("HOME") or os.path.expanduser("~")) / ".netrc")
    try:
        found = netrc.netrc(file).authenticators(host) if host and file.is_file() else None
    except (OSError, netrc.NetrcParseError) as error:
        raise TwinError("host_index_invalid", f"{file} cannot be read", "repair or remove the file") from error
    return None if found is None else (found[0], found[2] or "")

"""The package index of a universe: our wheels by pypiserver, every other name as the host would get it.

    /simple/NAME/             a page; `/at/KEY/simple/NAME/` is the same (see `guest.index_url`)
    /packages/FILE            a wheel that was built here
    /files/NAME/KEY/FILE      a file of the host's indexes, from the shared cache; `FILE.metadata` is its metadata

A name that is overridden is answered only with our wheels. Only addresses that a page names are ever asked for.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import quote

from packaging.utils import canonicalize_name
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.services.config import PACKAGE_INDEX, ServicesConfig
from amplifier_digital_twin.services.download_cache import DownloadCache
from amplifier_digital_twin.services.request_log import RequestLog
from amplifier_digital_twin.services.upstream import JSON, File, Upstream, UpstreamError, local_path
from amplifier_digital_twin.wheels import read_metadata

if TYPE_CHECKING:
    from starlette.types import ASGIApp

#: How long a page of the host's indexes counts as fresh, in seconds.
_PAGE_LIFETIME: Final = 600.0
_BINARY: Final = "application/octet-stream"
_METADATA: Final = ".metadata"
#: Addresses of such files hold their hash.
_FOREVER: Final = {"Cache-Control": "max-age=31536000, immutable"}


class PackageIndex:
    """An ASGI application, and what it needs."""

    def __init__(self, config: ServicesConfig, log: RequestLog) -> None:
        """Begin to read the host's settings, which takes longer than the first request needs to come."""
        reading = asyncio.to_thread(Upstream.of_host, os.environ) if PACKAGE_INDEX in config.allow else None
        self._upstream = asyncio.create_task(reading) if reading is not None else None
        self._log = log
        self._cache = DownloadCache(config.cache, config.cache_bytes)
        self._wheels = config.wheels
        self._given_names = frozenset(canonicalize_name(name) for name in config.names)
        self._own = _pypiserver(config.wheels) if config.wheels is not None else None
        routes: list[BaseRoute] = [
            Route("/simple/{name}/", self._project),
            Route("/files/{name}/{key}/{filename}", self._file),
            Route("/packages/{filename}", self._built_here),
        ]
        routes = [Mount("/at/{at}", routes=routes), *routes]
        handlers = {TwinError: self._failed, OSError: self._failed}
        self.app: ASGIApp = Starlette(routes=routes, exception_handlers=handlers)

    async def close(self) -> None:
        """Close the connections to the host's indexes."""
        if self._upstream is not None:
            with contextlib.suppress(TwinError, OSError):  # which every request was answered with
                await (await self._upstream).close()

    def _overrides(self) -> frozenset[str]:
        wheels = self._wheels.glob("*.whl") if self._wheels is not None else ()
        return self._given_names | {canonicalize_name(path.name.partition("-")[0]) for path in wheels}

    async def _project(self, request: Request) -> Response:
        name = canonicalize_name(request.path_params["name"])
        if name in self._overrides():
            return await self._built_here(request)
        files = await self._page(name)
        if files is None:
            return self._closed(request, name)
        if not files:
            return self._refuse(request, f"no package index that this host is configured for has {name}", allowed=True)
        self._record(request, 200)
        page = {"meta": {"api-version": "1.0"}, "name": name, "files": [_entry(name, file) for file in files]}
        return JSONResponse(page, media_type=JSON, headers={"Cache-Control": "no-cache"})

    async def _built_here(self, request: Request) -> Response:
        if self._own is None:
            return self._refuse(request, "this universe has no wheels of its own")
        self._record(request, 200, "built here")
        return cast("Response", self._own)  # Starlette calls what an endpoint returns

    async def _file(self, request: Request) -> Response:
        name = canonicalize_name(request.path_params["name"])
        if name in self._overrides():
            return self._refuse(request, f"{name} is answered by this universe alone")
        files = await self._page(name)
        if files is None or self._upstream is None:
            return self._closed(request, name)
        filename = request.path_params["filename"].removesuffix(_METADATA)
        is_metadata = filename != request.path_params["filename"]
        known = [file for file in files if (_key(file), file["filename"]) == (request.path_params["key"], filename)]
        if not known or (is_metadata and not filename.endswith(".whl")):
            return self._refuse(request, f"no page names such a file of {name}")
        upstream, file = await self._upstream, known[0]
        if is_metadata and (offered := file.get("core-metadata")):
            hashes = offered if isinstance(offered, dict) else {}
            file, is_metadata = {**file, "url": file["url"] + _METADATA, "hashes": hashes}, False
        try:
            path = local_path(file["url"]) or await self._cache.file(
                _key(file), file["hashes"], upstream.open(file["url"])
            )
            extracted = await asyncio.to_thread(read_metadata, path) if is_metadata else b""
        except TwinError as error:
            raise TwinError(error.code, f"{filename}: {error.message}", error.remedy) from error
        self._record(request, 200)
        if is_metadata:
            return Response(extracted, media_type=_BINARY, headers=_FOREVER)
        return FileResponse(path, media_type=_BINARY, headers=_FOREVER)

    async def _page(self, name: str) -> list[File] | None:
        """Return the files of a project from the shared cache or the host's indexes, None where those are not allowed.

        An old page is used where the indexes cannot be asked. Raises UpstreamError when there is none either.
        """
        if self._upstream is None:
            return None
        upstream = await self._upstream
        place = f"{upstream.fingerprint()[:32]}/{name}"
        kept = self._cache.page(place)
        if kept is not None and kept[1] < _PAGE_LIFETIME:
            return kept[0]
        try:
            files = await upstream.page(name)
        except UpstreamError as error:
            if kept is None:
                raise
            self._log.record("index", PACKAGE_INDEX, f"/simple/{name}/", 502, allowed=True, reason=error.message)
            return kept[0]
        if files:
            self._cache.keep_page(place, files)
        return files

    def _closed(self, request: Request, name: str) -> Response:
        reason = f"{name} is not served in this universe: add `{PACKAGE_INDEX}` to `network.allow` in the profile"
        return self._refuse(request, reason)

    def _refuse(self, request: Request, reason: str, *, allowed: bool = False) -> Response:
        self._record(request, 404, reason, allowed=allowed)
        return PlainTextResponse(reason, 404)

    def _failed(self, request: Request, error: Exception) -> Response:
        said = f"{error.message}. Next: {error.remedy}" if isinstance(error, TwinError) else str(error)
        self._record(request, 502, said)
        return PlainTextResponse(said, 502)

    def _record(self, request: Request, status: int, reason: str = "", *, allowed: bool = True) -> None:
        self._log.record("index", PACKAGE_INDEX, request.url.path, status, allowed=allowed, reason=reason)


def _pypiserver(wheels: Path) -> ASGIApp:
    """Return pypiserver's application for a directory."""
    import pypiserver
    from a2wsgi import WSGIMiddleware

    wheels.mkdir(parents=True, exist_ok=True)
    app = pypiserver.app(roots=[wheels], disable_fallback=True, hash_algo="sha256", backend_arg="simple-dir")
    return cast("ASGIApp", WSGIMiddleware(app))


def _entry(name: str, file: File) -> File:
    """Return a file as our page describes it.

    Metadata are offered for every wheel, taken out of it if need be: else uv reads every candidate in pieces.
    """
    filename = file["filename"]
    offered = {"core-metadata": True} if filename.endswith(".whl") else {}
    return {**offered, **file, "url": f"/files/{name}/{_key(file)}/{quote(filename)}"}


def _key(file: File) -> str:
    """Return what stands for a file in its address here, and in the cache."""
    sha256 = str(file["hashes"].get("sha256", ""))
    is_valid = len(sha256) == 64 and sha256.isalnum()
    return sha256 if is_valid else f"url-{hashlib.sha256(file['url'].encode()).hexdigest()}"

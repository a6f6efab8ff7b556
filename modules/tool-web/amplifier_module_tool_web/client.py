"""The one HTTP client of a session: guarded, through the environment's proxy, trusting the environment's CAs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from amplifier_kit.guard.network import MalformedError, Target, parse_authority, proxy_for
from amplifier_module_tool_web.failure import Failure
from amplifier_module_tool_web.guard import AddressRefusedError, Guard

if TYPE_CHECKING:
    import ssl

    import httpcore2

_HEADERS: Final = (
    ("User-Agent", "amplifier-tool-web/3.0"),
    ("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,text/*;q=0.9,*/*;q=0.8"),
    ("Accept-Encoding", "gzip, deflate"),
)
#: How many seconds this machine may think about a name that the proxy will resolve anyway.
_GLANCE: Final = 2.0
_CONNECTIONS: Final = 20
_IDLE_SECONDS: Final = 15.0


class Answer(NamedTuple):
    """What a server answered: status, headers (names in lower case), and the body as it arrives."""

    target: Target
    status: int
    reason: str
    headers: Mapping[str, str]
    chunks: AsyncIterator[bytes]


class _Way(NamedTuple):
    """What decides which connections may be shared."""

    proxy: str | None
    file: str | None
    folder: str | None


class Client:
    """Asks servers for what lies at a URL; follows nothing, keeps no cookies, sends no credentials.

    `environ` names proxies and CAs; by default it is the process's, read at every request.
    """

    def __init__(self, guard: Guard, environ: Mapping[str, str] | None = None) -> None:
        self._guard = guard
        self._environ = os.environ if environ is None else environ
        self._pools: dict[_Way, httpcore2.AsyncConnectionPool] = {}
        self._opening = asyncio.Lock()

    @asynccontextmanager
    async def get(self, target: Target) -> AsyncIterator[Answer]:
        """Give the answer to one request; what goes wrong is raised as Failure, here and while the body is read."""
        import httpcore2

        way = _way(target, self._environ)
        pool = await self._pool(way)
        if way.proxy is not None:
            await self._glance(target)
        # In parts: there is nothing to parse, and so nothing to read in another way than we did.
        url = httpcore2.URL(
            scheme=target.scheme.encode(), host=target.host.encode(), port=target.port, target=target.path.encode()
        )
        headers = [("Host", target.authority), *_HEADERS]
        try:
            async with pool.stream("GET", url, headers=headers) as response:
                yield _answer(target, response)
        except AddressRefusedError as error:
            raise Failure("address_refused", f"{target}: refused: {error}") from error
        except (
            httpcore2.NetworkError,
            httpcore2.ProtocolError,
            httpcore2.ProxyError,
            httpcore2.TimeoutException,
        ) as error:
            raise _failure(target, error, is_proxied=way.proxy is not None) from error

    async def aclose(self) -> None:
        """Close every connection."""
        pools, self._pools = list(self._pools.values()), {}
        for pool in pools:
            await pool.aclose()

    async def _glance(self, target: Target) -> None:
        """Judge the addresses as far as this machine knows them: behind a proxy it is the proxy that resolves names."""
        try:
            async with asyncio.timeout(_GLANCE):
                await self._guard.addresses(target.endpoint)
        except AddressRefusedError as error:
            raise Failure("address_refused", f"{target}: refused: {error}") from error
        except OSError:
            pass  # this machine does not know the name; the proxy, which its owner trusts, may

    async def _pool(self, way: _Way) -> httpcore2.AsyncConnectionPool:
        async with self._opening:
            if way not in self._pools:
                self._pools[way] = _made(way, await asyncio.to_thread(_trust, way), self._guard)
            return self._pools[way]


def _way(target: Target, environ: Mapping[str, str]) -> _Way:
    file, folder = environ.get("SSL_CERT_FILE") or None, environ.get("SSL_CERT_DIR") or None
    if not file and not folder and (bundle := environ.get("REQUESTS_CA_BUNDLE")):
        file, folder = (None, bundle) if os.path.isdir(bundle) else (bundle, None)
    return _Way(proxy_for(target, environ), file, folder)


def _made(way: _Way, trust: ssl.SSLContext, guard: Guard) -> httpcore2.AsyncConnectionPool:
    import httpcore2

    from amplifier_module_tool_web.backend import GuardedBackend

    options: dict[str, Any] = {
        "ssl_context": trust,
        "max_connections": _CONNECTIONS,
        "keepalive_expiry": _IDLE_SECONDS,
    }
    if way.proxy is None:
        return httpcore2.AsyncConnectionPool(network_backend=GuardedBackend(guard), **options)
    parts = urlsplit(way.proxy)
    if parts.scheme not in ("http", "https"):
        raise Failure(
            "proxy", f"the environment names a proxy of the kind {parts.scheme!r}: only http and https proxies work"
        )
    userinfo, at, place = parts.netloc.rpartition("@")
    try:
        endpoint = parse_authority(place, 443 if parts.scheme == "https" else 80)
    except MalformedError as error:
        raise Failure("proxy", f"the environment names a proxy that cannot be used: {error}") from error
    user, _, password = (unquote(part) for part in userinfo.partition(":"))
    url = httpcore2.URL(scheme=parts.scheme, host=endpoint.host, port=endpoint.port, target="/")
    return httpcore2.AsyncHTTPProxy(
        proxy_url=url,
        proxy_auth=(user.encode(), password.encode()) if at else None,
        # A proxy that is itself reached encrypted is trusted on the same grounds as the server.
        proxy_ssl_context=trust if parts.scheme == "https" else None,
        **options,
    )


def _trust(way: _Way) -> ssl.SSLContext:
    """Return what says whom to trust: the CAs that the environment names, else those of the system."""
    import ssl

    import httpx2

    if not way.file and not way.folder:
        return httpx2.create_ssl_context(trust_env=False)
    try:
        return ssl.create_default_context(cafile=way.file, capath=way.folder)
    except OSError as error:
        raise Failure(
            "certificates",
            f"{way.file or way.folder}: the certificates that SSL_CERT_FILE, SSL_CERT_DIR or REQUESTS_CA_BUNDLE name "
            f"cannot be read: {error.strerror or error}",
        ) from error


def _answer(target: Target, response: httpcore2.Response) -> Answer:
    headers: dict[str, str] = {}
    for name, value in response.headers:
        headers.setdefault(name.decode("latin-1").lower(), _decoded(value))
    reason = bytes(response.extensions.get("reason_phrase", b"")).decode("latin-1")
    return Answer(target, response.status, reason, headers, response.aiter_stream())


def _decoded(value: bytes) -> str:
    try:
        return value.decode("utf-8")  # what servers send where a URL with other characters should be escaped
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _failure(target: Target, error: Exception, *, is_proxied: bool) -> Failure:
    import ssl

    where = "the proxy or the server" if is_proxied else "the server"
    causes = [error]
    # The library raises without a cause; what came before is there all the same.
    while isinstance(cause := causes[-1].__cause__ or causes[-1].__context__, Exception):
        causes.append(cause)
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return Failure(
                "certificate",
                f"{target}: the certificate of {where} is not trusted: {cause.verify_message}. "
                "Next: set SSL_CERT_FILE to the file of the CA that signed it",
            )
    reasons = (cause.strerror for cause in causes if isinstance(cause, OSError) and cause.strerror)
    said = next(reasons, None) or str(error) or type(error).__name__
    return Failure("unreachable", f"{target}: {where} cannot be reached or broke off: {said}")

"""The HTTP client of a session: guarded connections, the environment's proxies and certificate authorities."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import httpcore2
import httpx2

from amplifier_kit.guard.network import Endpoint, MalformedError, Target, parse_authority, proxy_for
from amplifier_kit.guard.ssrf import AddressRefusedError, Guard
from amplifier_kit.named_tuple import NamedTuple
from amplifier_module_tool_web.call import Failure

if TYPE_CHECKING:
    import ssl

_HEADERS: Final = {
    "User-Agent": "amplifier-tool-web/3.0",
    "Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,text/*;q=0.9,*/*;q=0.8",
    "Accept-Encoding": "gzip",
}
#: Seconds this machine may take to resolve a name that the proxy will resolve anyway.
_LOOKUP: Final = 2.0
_CONNECTIONS: Final = 20
_IDLE_SECONDS: Final = 15.0


class _Route(NamedTuple):
    """What decides which requests may share connections."""

    proxy: str | None
    ca_file: str | None
    ca_folder: str | None


class Client:
    """Sends single requests: follows no redirect, keeps no cookies, sends no credentials of its own.

    `environ` names proxies and CAs; by default it is the process's, read at every request.
    """

    def __init__(self, guard: Guard, environ: Mapping[str, str] | None = None) -> None:
        self._guard = guard
        self._environ = os.environ if environ is None else environ
        self._clients: dict[_Route, httpx2.AsyncClient] = {}
        self._opening = asyncio.Lock()

    @asynccontextmanager
    async def send(
        self, target: Target, method: str = "GET", headers: Mapping[str, str] | None = None, json: Any = None
    ) -> AsyncIterator[httpx2.Response]:
        """Give the response to one request; errors are raised as Failure, here and while the body is read."""
        route = _route(target, self._environ)
        client = await self._client(route)
        url = _url(target)
        if route.proxy is not None:
            await self._check_before_proxy(target)
        try:
            async with client.stream(method, url, headers=headers, json=json) as response:
                yield response
        except AddressRefusedError as error:
            raise Failure("address_refused", f"{target}: refused: {error}") from error
        except httpx2.DecodingError as error:
            raise Failure("broken_answer", f"{target}: the answer cannot be unpacked: {error}") from error
        except httpx2.TransportError as error:
            raise _failure(target, error, is_proxied=route.proxy is not None) from error

    async def aclose(self) -> None:
        """Close every connection."""
        clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            await client.aclose()

    async def _check_before_proxy(self, target: Target) -> None:
        """Check the addresses as far as this machine knows them: behind a proxy it is the proxy that resolves names."""
        try:
            async with asyncio.timeout(_LOOKUP):
                await self._guard.addresses(target.endpoint)
        except AddressRefusedError as error:
            raise Failure("address_refused", f"{target}: refused: {error}") from error
        except OSError:
            pass  # this machine does not know the name; the proxy, which its owner trusts, may

    async def _client(self, route: _Route) -> httpx2.AsyncClient:
        async with self._opening:
            if route not in self._clients:
                trust = await asyncio.to_thread(_trust, route)
                self._clients[route] = httpx2.AsyncClient(
                    transport=_proxied(route.proxy, trust) if route.proxy else _GuardedTransport(self._guard, trust),
                    headers=_HEADERS,
                    cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
                    timeout=None,  # callers have a deadline for the whole of their requests
                    trust_env=False,
                )
            return self._clients[route]


class _GuardedTransport(httpx2.AsyncHTTPTransport):
    """httpx2's own transport over connections that the guard makes."""

    def __init__(self, guard: Guard, trust: ssl.SSLContext) -> None:
        # The library takes no backend, so its pool is made here. Its own __init__ is left out: if a release called the
        # pool by another name, requests would fail instead of going out through a pool without a guard.
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=trust,
            max_connections=_CONNECTIONS,
            keepalive_expiry=_IDLE_SECONDS,
            network_backend=_GuardedBackend(guard),
        )


class _GuardedBackend(httpcore2.AnyIOBackend):
    """Connects to addresses that the guard has checked, and to no others."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Return a connection; raise AddressRefusedError, or ConnectError when nothing answers."""

        async def attempt(address: str) -> httpcore2.AsyncNetworkStream:
            try:
                # Connect to the checked address: resolving the name again could give another one.
                return await super(_GuardedBackend, self).connect_tcp(
                    address, port, timeout, local_address, socket_options
                )
            except httpcore2.ConnectError as error:
                raise OSError(str(error)) from error

        try:
            return await self._guard.reach(Endpoint(host, port), attempt)
        except OSError as error:
            raise httpcore2.ConnectError(error) from error


def _url(target: Target) -> httpx2.URL:
    try:
        url = httpx2.URL(str(target))
    except httpx2.InvalidURL as error:
        raise Failure("invalid_url", f"{target} is not fetched: {error}") from error
    if url.raw_host.decode() != target.host:
        raise Failure("invalid_url", f"{target} is not fetched: programs read different hosts in it")
    return url


def _route(target: Target, environ: Mapping[str, str]) -> _Route:
    file, folder = environ.get("SSL_CERT_FILE") or None, environ.get("SSL_CERT_DIR") or None
    if not file and not folder and (bundle := environ.get("REQUESTS_CA_BUNDLE")):
        file, folder = (None, bundle) if os.path.isdir(bundle) else (bundle, None)
    return _Route(proxy_for(target, environ), file, folder)


def _proxied(proxy: str, trust: ssl.SSLContext) -> httpx2.AsyncHTTPTransport:
    parts = urlsplit(proxy)
    if parts.scheme not in ("http", "https"):
        raise Failure(
            "proxy", f"the environment names a proxy of the kind {parts.scheme!r}: only http and https proxies work"
        )
    try:
        parse_authority(parts.netloc.rpartition("@")[2], 443 if parts.scheme == "https" else 80)
        return httpx2.AsyncHTTPTransport(
            verify=trust,
            trust_env=False,
            limits=httpx2.Limits(max_connections=_CONNECTIONS, keepalive_expiry=_IDLE_SECONDS),
            # A proxy that is itself reached encrypted is trusted on the same grounds as the server.
            proxy=httpx2.Proxy(proxy, ssl_context=trust if parts.scheme == "https" else None),
        )
    except (MalformedError, httpx2.InvalidURL) as error:
        raise Failure("proxy", f"the environment names a proxy that cannot be used: {error}") from error


def _trust(route: _Route) -> ssl.SSLContext:
    """Return the context that trusts the CAs that the environment names, else those of the system."""
    import ssl

    if not route.ca_file and not route.ca_folder:
        return httpx2.create_ssl_context(trust_env=False)
    try:
        return ssl.create_default_context(cafile=route.ca_file, capath=route.ca_folder)
    except OSError as error:
        raise Failure(
            "certificates",
            f"{route.ca_file or route.ca_folder}: the certificates that SSL_CERT_FILE, SSL_CERT_DIR or "
            f"REQUESTS_CA_BUNDLE name cannot be read: {error.strerror or error}",
        ) from error


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

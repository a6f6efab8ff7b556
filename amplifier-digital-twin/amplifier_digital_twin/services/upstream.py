"""The way from the services into the world: names resolved here, addresses judged, and those connected to."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import h11

from amplifier_digital_twin.services.bounds import Bounds
from amplifier_digital_twin.services.endpoints import (
    Endpoint,
    MalformedError,
    is_address,
    is_ordinary,
    is_own,
    is_public,
    parse_authority,
)
from amplifier_digital_twin.services.http_wire import Peer, SocketWire, TlsWire, Wire
from amplifier_foundation.sources.download import proxy_for
from amplifier_kit.threads import in_thread

#: Returns a socket connected to a host and port inside the universe.
Inside = Callable[[str, int], Awaitable[socket.socket]]
#: Returns the addresses of a host name.
Resolve = Callable[[str], Awaitable[Sequence[str]]]


class AddressRefusedError(Exception):
    """The host's addresses are none that a universe may reach."""


class UnreachableError(Exception):
    """The server cannot be reached, for a reason that lies outside the universe."""


class Line(NamedTuple):
    """A connection for one HTTP request; a proxy of the host on the way wants whole URLs and its own header."""

    wire: Wire
    is_proxied: bool = False
    proxy_authorization: str | None = None


class _Proxy(NamedTuple):
    endpoint: Endpoint
    is_encrypted: bool
    authorization: str | None


class Upstream:
    """Opens connections on behalf of universes.

    `environ` is the host's: its proxies and certificates are used. `private_hosts` (`host` or `host:port`) may resolve
    to addresses of private networks or of this machine; all others must be the internet's. Behind a proxy of the host
    it is the proxy that resolves names: addresses are judged as far as this machine knows them.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        private_hosts: frozenset[str] = frozenset(),
        connect: Inside | None = None,
        resolve: Resolve | None = None,
        bounds: Bounds | None = None,
    ) -> None:
        self._environ = environ
        self._private_hosts = private_hosts
        self._connect_inside = connect
        self._resolve = resolve or _resolve
        self._bounds = bounds or Bounds()
        self._context: ssl.SSLContext | None = None
        self._context_lock = asyncio.Lock()

    async def open_tunnel(self, endpoint: Endpoint) -> Wire:
        """Return a plain connection; raise AddressRefusedError or UnreachableError."""
        async with self._opening(endpoint):
            proxy = self._proxy("https", endpoint)
            return await (self._through(proxy, endpoint) if proxy else self._direct(endpoint))

    async def open_http(self, scheme: str, endpoint: Endpoint) -> Line:
        """Return a connection for one request to an http or https server; raise like `open_tunnel`."""
        async with self._opening(endpoint):
            proxy = self._proxy(scheme, endpoint)
            if proxy and scheme == "http":
                await self._judge_for_proxy(endpoint)
                return Line(await self._to_proxy(proxy), True, proxy.authorization)
            wire = await (self._through(proxy, endpoint) if proxy else self._direct(endpoint))
            return Line(await self._encrypted(wire, endpoint.host) if scheme == "https" else wire)

    async def open_inside(self, endpoint: Endpoint) -> Line:
        """Return a connection to a service inside the universe; raise UnreachableError."""
        if self._connect_inside is None:
            raise UnreachableError("there is no way into the universe")
        async with self._opening(endpoint):
            return Line(SocketWire(await self._connect_inside(endpoint.host, endpoint.port)))

    @contextlib.asynccontextmanager
    async def _opening(self, endpoint: Endpoint) -> AsyncIterator[None]:
        """Give an attempt its deadline, and its failures one name."""
        try:
            async with asyncio.timeout(self._bounds.connect_seconds):
                yield
        except TimeoutError as error:
            raise UnreachableError(f"no connection within {self._bounds.connect_seconds:g} s") from error
        except h11.RemoteProtocolError as error:
            raise UnreachableError(f"the host's proxy does not speak HTTP: {error}") from error
        except MalformedError as error:
            raise UnreachableError(f"the host's proxy {error}") from error
        except OSError as error:
            raise UnreachableError(_words(error)) from error

    def _proxy(self, scheme: str, endpoint: Endpoint) -> _Proxy | None:
        url = proxy_for(f"{scheme}://{endpoint}", self._environ)
        if url is None:
            return None
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https"):
            raise UnreachableError(f"the host's proxy is of a kind that is not spoken here: {parts.scheme}")
        userinfo, at, place = parts.netloc.rpartition("@")
        is_encrypted = parts.scheme == "https"
        secret = base64.b64encode(unquote(userinfo).encode()).decode() if at else None
        default = 443 if is_encrypted else 80
        return _Proxy(parse_authority(place, default), is_encrypted, f"Basic {secret}" if secret else None)

    async def _direct(self, endpoint: Endpoint) -> SocketWire:
        failure: OSError | None = None
        for address in await self._judged(endpoint):
            try:
                return await _connected(address, endpoint.port)
            except OSError as error:
                failure = error
        raise failure or OSError("the name has no address")

    async def _judged(self, endpoint: Endpoint) -> Sequence[str]:
        """Return the addresses that may be connected to; what connects uses these, and asks nobody again."""
        addresses = [endpoint.host] if is_address(endpoint.host) else await self._resolve(endpoint.host)
        is_private_ok = endpoint.host in self._private_hosts or str(endpoint) in self._private_hosts
        if is_private_ok:
            good = [address for address in addresses if is_ordinary(address)]
        else:
            good = [address for address in addresses if is_public(address) and not is_own(address)]
        if addresses and not good:
            raise AddressRefusedError("its address is of a private or special network, or of this machine itself")
        return good

    async def _judge_for_proxy(self, endpoint: Endpoint) -> None:
        try:
            await self._judged(endpoint)
        except OSError:
            pass  # this machine does not know the name; the proxy, which the host trusts, may

    async def _to_proxy(self, proxy: _Proxy) -> Wire:
        addresses = [proxy.endpoint.host]
        if not is_address(proxy.endpoint.host):
            addresses = list(await self._resolve(proxy.endpoint.host))
        failure = OSError("the host's proxy has no address")
        for address in addresses:
            try:
                wire = await _connected(address, proxy.endpoint.port)
            except OSError as error:
                failure = error
            else:
                return await self._encrypted(wire, proxy.endpoint.host) if proxy.is_encrypted else wire
        raise failure

    async def _through(self, proxy: _Proxy, endpoint: Endpoint) -> Wire:
        """Return a connection that the host's proxy made."""
        await self._judge_for_proxy(endpoint)
        wire = await self._to_proxy(proxy)
        try:
            await self._ask_proxy(wire, proxy, endpoint)
        except BaseException:
            wire.close()
            raise
        return wire

    async def _ask_proxy(self, wire: Wire, proxy: _Proxy, endpoint: Endpoint) -> None:
        headers = [("Host", str(endpoint))]
        if proxy.authorization:
            headers.append(("Proxy-Authorization", proxy.authorization))
        peer = Peer(wire, h11.CLIENT, self._bounds)
        await peer.send(h11.Request(method="CONNECT", target=str(endpoint), headers=headers))
        await peer.send(h11.EndOfMessage())
        event = await peer.next_event(self._bounds.connect_seconds)
        while isinstance(event, h11.InformationalResponse):
            event = await peer.next_event(self._bounds.connect_seconds)
        if not isinstance(event, h11.Response) or not 200 <= event.status_code < 300:
            said = event.status_code if isinstance(event, h11.Response) else "nothing"
            raise UnreachableError(f"the host's proxy answered {said}")
        wire.unread(peer.http.trailing_data[0])

    async def _encrypted(self, wire: Wire, host: str) -> Wire:
        try:
            tls = TlsWire(wire, await self._trust(), host=host)
            await tls.handshake()
        except BaseException:
            wire.close()
            raise
        return tls

    async def _trust(self) -> ssl.SSLContext:
        async with self._context_lock:
            if self._context is None:
                self._context = await in_thread(lambda: _trust(self._environ))
            return self._context


async def _resolve(host: str) -> Sequence[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(place[4][0]) for place in found))


async def _connected(address: str, port: int) -> SocketWire:
    connection = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    try:
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connection, (address, port))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:
        connection.close()
        raise
    return SocketWire(connection)


def _trust(environ: Mapping[str, str]) -> ssl.SSLContext:
    """Return the certificates that the host's environment names, else the system's."""
    file, folder = environ.get("SSL_CERT_FILE") or None, environ.get("SSL_CERT_DIR") or None
    context = ssl.create_default_context(cafile=file, capath=folder)
    context.set_alpn_protocols(["http/1.1"])
    return context


def _words(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the server's certificate is not trusted by the host: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS with the server failed: {error.reason or 'the connection ended'}"
    if isinstance(error, socket.gaierror):
        return "the name cannot be resolved on the host"
    return error.strerror or str(error) or type(error).__name__

"""The proxy that programs inside a universe are given: the only way out, and only to where the profile says."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence
from http import HTTPStatus

import h11

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.services.allow import AllowList
from amplifier_digital_twin.services.authority import Authority
from amplifier_digital_twin.services.bounds import Bounds
from amplifier_digital_twin.services.caller import BadRequestError, Caller, GoneError, Seat
from amplifier_digital_twin.services.decisions import Decisions
from amplifier_digital_twin.services.endpoints import Endpoint, MalformedError, parse_authority
from amplifier_digital_twin.services.exchange import BrokenError
from amplifier_digital_twin.services.forwarding import Policy, asked_for_url, named_host
from amplifier_digital_twin.services.hello import read_hello, same_host
from amplifier_digital_twin.services.http_wire import SocketWire, Wire
from amplifier_digital_twin.services.interceptor import Interception, unwritten
from amplifier_digital_twin.services.listener import Listener
from amplifier_digital_twin.services.rewrites import Routes
from amplifier_digital_twin.services.tunnel import Tunnel
from amplifier_digital_twin.services.upstream import AddressRefusedError, UnreachableError, Upstream


class Gateway:
    """An HTTP proxy: CONNECT for what is encrypted or no HTTP at all, whole URLs for plain HTTP."""

    def __init__(
        self,
        allow: AllowList,
        decisions: Decisions,
        routes: Routes,
        authority: Authority,
        upstream: Upstream,
        bounds: Bounds | None = None,
    ) -> None:
        self._policy = Policy(allow, decisions, routes, upstream, bounds or Bounds())
        self._interception = Interception("gateway", self._policy, authority)
        self._forwarder = self._interception.forwarder
        self._listener = Listener(self._serve, self._forwarder.failed, self._policy.bounds.connections)

    async def serve(self, sockets: Sequence[socket.socket]) -> None:
        """Begin to answer on listening sockets and return; they are closed by `close`."""
        self._listener.start(sockets)

    async def close(self) -> None:
        """End every connection and stop listening; a second time does nothing."""
        await self._listener.close()

    async def _serve(self, wire: SocketWire, seat: Seat) -> None:
        caller = Caller(wire, seat, self._policy.bounds)
        try:
            while await self._answer_next(caller, seat):
                pass
            await caller.finish()
        except GoneError:
            wire.close()
        except BrokenError:
            wire.abort()
        except TwinError as error:
            await unwritten(caller, error)

    async def _answer_next(self, caller: Caller, seat: Seat) -> bool:
        """Answer one request; return False when it was the last one."""
        method = ""
        endpoint = Endpoint("", 0)
        try:
            request = await caller.next_request()
            if request is None:
                return False
            method = request.method.decode("ascii")
            if request.method == b"CONNECT":
                endpoint = _connect_target(request)
                return await self._connect(caller, seat, endpoint)
            asked = asked_for_url(request)
            endpoint = asked.endpoint
            if asked.scheme == "https":
                raise BadRequestError(HTTPStatus.BAD_REQUEST, "is for an https URL, which must come with CONNECT")
            await self._forwarder.handle(caller, request, asked)
        except BadRequestError as error:
            await self._forwarder.reject(caller, endpoint, method, error)
        return True

    async def _connect(self, caller: Caller, seat: Seat, endpoint: Endpoint) -> bool:
        """Make a tunnel, to the server or to what stands in for it; return True when there is none after all."""
        if self._policy.routes.covers(*endpoint):
            await self._interception.serve(await _switched(caller), seat, endpoint)
            return False
        if not self._policy.allow.allows(*endpoint):
            await self._forwarder.refuse(caller, endpoint, "CONNECT", "")
            return True
        try:
            server = await self._policy.upstream.open_tunnel(endpoint)
        except AddressRefusedError as error:
            await self._forwarder.refuse(caller, endpoint, "CONNECT", "", str(error))
            return True
        except UnreachableError as error:
            await self._forwarder.fail(caller, endpoint, "CONNECT", "", str(error))
            return True
        try:
            self._forwarder.record("allow", endpoint, "CONNECT")
            await self._tunnel(await _switched(caller), server, endpoint)
        finally:
            server.close()
        return False

    async def _tunnel(self, client: Wire, server: Wire, endpoint: Endpoint) -> None:
        guarded = _Guarded(client, endpoint.host)
        try:
            await Tunnel(guarded, server, self._policy.bounds.tunnel_seconds).run()
        except OSError:
            client.abort()
        if guarded.refused is not None:
            client.abort()
            why = f"asked for in a tunnel to {endpoint}, by the name in the TLS handshake"
            self._forwarder.record("refuse", Endpoint(guarded.refused.lower(), endpoint.port), "", reason=why)


def _connect_target(request: h11.Request) -> Endpoint:
    if any(name in (b"content-length", b"transfer-encoding") for name, _ in request.headers):
        raise BadRequestError(HTTPStatus.BAD_REQUEST, "is a CONNECT with a body")
    try:
        endpoint = parse_authority(request.target.decode("ascii"))
    except MalformedError as error:
        raise BadRequestError(HTTPStatus.BAD_REQUEST, f"names a host that {error}") from error
    if named_host(request, endpoint.port) not in (None, endpoint):
        raise BadRequestError(HTTPStatus.MISDIRECTED_REQUEST, "has a Host header that is not the host it connects to")
    return endpoint


async def _switched(caller: Caller) -> Wire:
    """Tell the client that its tunnel stands; what it sent ahead comes first."""
    try:
        await caller.send(h11.Response(status_code=200, headers=[], reason=b"Connection established"))
    except OSError as error:
        raise GoneError from error
    ahead = caller.http.trailing_data[0]
    if ahead:
        caller.wire.unread(ahead)
    return caller.wire


class _Guarded:
    """A client's side of a tunnel that ends when the TLS handshake in it is for another host than the tunnel."""

    def __init__(self, wire: Wire, host: str) -> None:
        self._wire = wire
        self._host = host
        self._is_first = True
        self.refused: str | None = None

    async def recv(self) -> bytes:
        """Return what the client sends; raise ssl.SSLError instead of a handshake for another host."""
        data = await self._wire.recv()
        if not self._is_first or not data:
            return data
        self._is_first = False
        if data[0] != 0x16:
            return data
        hello = await read_hello(self._wire, data)
        if hello.name is not None and not same_host(hello.name, self._host):
            self.refused = hello.name
            raise ssl.SSLError("another host")
        return hello.data

    async def send(self, data: bytes) -> None:
        """Send to the client."""
        await self._wire.send(data)

    async def send_eof(self) -> None:
        """Say that nothing more will be sent."""
        await self._wire.send_eof()

    def unread(self, data: bytes) -> None:
        """Put bytes back."""
        self._wire.unread(data)

    def close(self) -> None:
        """Close the connection."""
        self._wire.close()

    def abort(self) -> None:
        """Abort the connection."""
        self._wire.abort()

"""The servers that a profile answers for: TLS with the universe's own authority, then every request by its route."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Sequence
from http import HTTPStatus

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.services.allow import AllowList
from amplifier_digital_twin.services.authority import Authority
from amplifier_digital_twin.services.bounds import Bounds
from amplifier_digital_twin.services.caller import BadRequestError, Caller, GoneError, Seat
from amplifier_digital_twin.services.decisions import Decisions
from amplifier_digital_twin.services.endpoints import Endpoint, MalformedError, parse_host
from amplifier_digital_twin.services.exchange import BrokenError
from amplifier_digital_twin.services.forwarding import Forwarder, Policy, asked_for
from amplifier_digital_twin.services.hello import NameRefusedError, accept
from amplifier_digital_twin.services.http_wire import SocketWire, Wire, is_tls
from amplifier_digital_twin.services.listener import Listener
from amplifier_digital_twin.services.rewrites import Routes, Scheme
from amplifier_digital_twin.services.upstream import Upstream


class Interception:
    """Plays the server on connections that were meant for one; `service` is the name in the log."""

    def __init__(self, service: str, policy: Policy, authority: Authority) -> None:
        self.forwarder = Forwarder(service, policy)
        self._policy = policy
        self._authority = authority

    async def serve(self, wire: Wire, seat: Seat, endpoint: Endpoint | None) -> None:
        """Answer what comes on a connection to `endpoint`, or (None) to whichever server the client names."""
        seat.idle_since = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(self._policy.bounds.idle_seconds):
                is_encrypted = await is_tls(wire)
        except OSError:
            return None
        finally:
            seat.idle_since = None
        if is_encrypted:
            return await self._serve_tls(wire, seat, endpoint)
        return await self.converse(Caller(wire, seat, self._policy.bounds), "http", endpoint)

    async def _serve_tls(self, wire: Wire, seat: Seat, expected: Endpoint | None) -> None:
        port = expected.port if expected else 443
        chosen = expected.host if expected else ""

        def choose(name: str | None) -> ssl.SSLContext | None:
            nonlocal chosen
            try:
                host = parse_host(name) if name else chosen
            except MalformedError:
                return None
            if (expected and host != expected.host) or not self._policy.routes.covers(host, port):
                return None
            chosen = host
            return self._authority.context_for(host)

        try:
            async with asyncio.timeout(self._policy.bounds.head_seconds):
                tls = await accept(wire, choose)
        except NameRefusedError as error:
            why = "the TLS handshake names a host that is not answered for here"
            self.forwarder.record("refuse", Endpoint(error.name.lower(), port), "", reason=why)
        except OSError as error:
            why = "the TLS handshake failed"
            if isinstance(error, ssl.SSLError) and error.reason:
                why += f": {error.reason}: does the program trust the universe's certificates?"
            self.forwarder.record("error", Endpoint(chosen, port), "", reason=why)
        else:
            await self.converse(Caller(tls, seat, self._policy.bounds), "https", Endpoint(chosen, port))

    async def converse(self, caller: Caller, scheme: Scheme, endpoint: Endpoint | None) -> None:
        """Answer requests until there are no more; the connection is over then."""
        nowhere = endpoint or Endpoint("", 0)
        method = ""
        try:
            while True:
                method = ""
                try:
                    request = await caller.next_request()
                    if request is None:
                        break
                    method = request.method.decode("ascii")
                    if method == "CONNECT":
                        raise BadRequestError(HTTPStatus.METHOD_NOT_ALLOWED, "asks a server to be a proxy")
                    await self.forwarder.handle(caller, request, asked_for(request, scheme, endpoint))
                except BadRequestError as error:
                    await self.forwarder.reject(caller, nowhere, method, error)
            await caller.finish()
        except GoneError:
            caller.wire.close()
        except BrokenError:
            caller.wire.abort()
        except TwinError as error:
            await unwritten(caller, error)


async def unwritten(caller: Caller, error: TwinError) -> None:
    """Refuse what cannot be written down."""
    try:
        await caller.answer(HTTPStatus.SERVICE_UNAVAILABLE, f"{error.message}\nNext: {error.remedy}\n")
        await caller.finish()
    except GoneError:
        caller.wire.close()


class Interceptor:
    """Listens where the names that a profile answers for lead to, for programs that use no proxy.

    Encrypted connections are told from plain ones by their first byte, so any socket will do.
    """

    def __init__(
        self,
        allow: AllowList,
        decisions: Decisions,
        routes: Routes,
        authority: Authority,
        upstream: Upstream,
        bounds: Bounds | None = None,
    ) -> None:
        policy = Policy(allow, decisions, routes, upstream, bounds or Bounds())
        self._interception = Interception("interceptor", policy, authority)
        self._listener = Listener(self._serve, self._interception.forwarder.failed, policy.bounds.connections)

    async def serve(self, sockets: Sequence[socket.socket]) -> None:
        """Begin to answer on listening sockets and return; they are closed by `close`."""
        self._listener.start(sockets)

    async def close(self) -> None:
        """End every connection and stop listening; a second time does nothing."""
        await self._listener.close()

    async def _serve(self, wire: SocketWire, seat: Seat) -> None:
        await self._interception.serve(wire, seat, None)

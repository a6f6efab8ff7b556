"""Requests decided upon, written down, and carried to whoever answers them; every message is read and written anew."""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple

import h11

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.services.allow import WEB_PORTS, AllowList
from amplifier_digital_twin.services.bounds import Bounds
from amplifier_digital_twin.services.caller import BadRequestError, Caller
from amplifier_digital_twin.services.decisions import Decisions, Verdict
from amplifier_digital_twin.services.endpoints import Endpoint, MalformedError, bracketed, parse_authority
from amplifier_digital_twin.services.exchange import Exchange, end_to_end, length_of
from amplifier_digital_twin.services.http_wire import Peer
from amplifier_digital_twin.services.rewrites import Destination, Routes, Scheme, authority, origin
from amplifier_digital_twin.services.upstream import AddressRefusedError, Line, UnreachableError, Upstream
from amplifier_digital_twin.value import Value


class Asked(NamedTuple):
    """What a request asks for, in its one form."""

    method: str
    scheme: Scheme
    endpoint: Endpoint
    path: str
    #: With its `?`, or empty.
    query: str


class Policy(Value):
    """What a universe may reach, what is answered for, and where that is written down."""

    allow: AllowList
    decisions: Decisions
    routes: Routes
    upstream: Upstream
    bounds: Bounds


class Forwarder:
    """Answers requests of one service (`service` is its name in the log)."""

    def __init__(self, service: str, policy: Policy) -> None:
        self._service = service
        self._policy = policy

    def record(self, verdict: Verdict, endpoint: Endpoint, method: str, path: str = "", reason: str = "") -> None:
        """Write a decision down; raise TwinError when that cannot be done."""
        self._policy.decisions.record(self._service, verdict, endpoint.host, endpoint.port, method, path, reason)

    async def handle(self, caller: Caller, request: h11.Request, asked: Asked) -> None:
        """Answer one request: from elsewhere, from the server itself, or with a refusal.

        Raises BadRequestError, GoneError, BrokenError, and TwinError when the decision cannot be written down.
        """
        if b"websocket" in _header(request, b"upgrade").lower():
            raise BadRequestError(
                HTTPStatus.NOT_IMPLEMENTED, "asks for a websocket, which only tunnels (CONNECT) carry"
            )
        destination = self._route(asked)
        verdict: Verdict = "rewrite" if destination else "allow"
        if destination is None:
            if not self._policy.allow.allows(*asked.endpoint):
                return await self.refuse(caller, asked.endpoint, asked.method, asked.path)
            destination = Destination(asked.scheme, asked.endpoint, asked.path)
        line = await self._open(caller, asked, destination)
        if line is None:
            return None
        try:
            reason = f"goes to {destination}" if verdict == "rewrite" else ""
            self.record(verdict, asked.endpoint, asked.method, asked.path, reason)
            head = _request_head(request, asked, destination, line)
            await Exchange(caller, Peer(line.wire, h11.CLIENT, self._policy.bounds), line).run(head)
        finally:
            line.wire.close()

    def _route(self, asked: Asked) -> Destination | None:
        try:
            return self._policy.routes.find(asked.endpoint.host, asked.endpoint.port, asked.path)
        except MalformedError as error:
            raise BadRequestError(HTTPStatus.BAD_REQUEST, str(error)) from error

    async def _open(self, caller: Caller, asked: Asked, destination: Destination) -> Line | None:
        """Return a connection, or None after the client was told why there is none."""
        upstream = self._policy.upstream
        try:
            if destination.mock:
                return await upstream.open_inside(destination.endpoint)
            return await upstream.open_http(destination.scheme, destination.endpoint)
        except AddressRefusedError as error:
            await self.refuse(caller, asked.endpoint, asked.method, asked.path, f"{destination.endpoint.host}: {error}")
        except UnreachableError as error:
            await self.fail(caller, asked.endpoint, asked.method, asked.path, f"{destination}: {error}")
        return None

    async def refuse(self, caller: Caller, endpoint: Endpoint, method: str, path: str, why: str = "") -> None:
        """Write a refusal down and tell the client how the profile would have to be changed."""
        self.record("refuse", endpoint, method, path, why or "not in network.allow")
        phrase = "Refused for its address" if why else "Refused by network.allow of the profile"
        await caller.answer(HTTPStatus.FORBIDDEN, _refusal(endpoint, why), phrase)

    async def fail(self, caller: Caller, endpoint: Endpoint, method: str, path: str, why: str) -> None:
        """Write down that a server could not be reached, and tell the client."""
        self.record("error", endpoint, method, path, why)
        await caller.answer(HTTPStatus.BAD_GATEWAY, f"{endpoint}: cannot be reached: {why}\n")

    def failed(self, error: Exception) -> None:
        """Write down that a connection ended by a fault of ours."""
        try:
            self.record("error", Endpoint("", 0), "", reason=f"the service failed: {_place(error)}")
        except TwinError:
            pass  # the log cannot be written, which every further request will be told

    async def reject(self, caller: Caller, endpoint: Endpoint, method: str, error: BadRequestError) -> None:
        """Write down that a request made no sense, and tell the client."""
        self.record("refuse", endpoint, method, "", f"the request {error.reason}")
        await caller.answer(error.status, f"The request {error.reason}.\n")


def _place(error: Exception) -> str:
    """Return where a fault of ours happened: its text could hold what the client sent, which is nobody's business."""
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    return f"{type(error).__name__} at {Path(frames[-1].filename).name}:{frames[-1].lineno}"


def asked_for(request: h11.Request, scheme: Scheme, endpoint: Endpoint | None) -> Asked:
    """Return what a request on its own connection to a server asks for; `endpoint` is the server where that is known.

    Raises BadRequestError: 421 when the request is for another server than the connection.
    """
    target = request.target.decode("ascii")
    if not target.startswith("/"):
        absolute = asked_for_url(request)
        if (scheme, endpoint or absolute.endpoint) != (absolute.scheme, absolute.endpoint):
            raise BadRequestError(HTTPStatus.MISDIRECTED_REQUEST, "is for another host than its connection")
        return absolute
    named = named_host(request, {"http": 80, "https": 443}[scheme] if endpoint is None else endpoint.port)
    if endpoint is not None and named is not None and named != endpoint:
        raise BadRequestError(HTTPStatus.MISDIRECTED_REQUEST, "is for another host than its connection")
    if (meant := endpoint or named) is None:
        raise BadRequestError(HTTPStatus.BAD_REQUEST, "does not say for which host it is")
    return _asked(request, scheme, meant, target)


def asked_for_url(request: h11.Request) -> Asked:
    """Return what a request for a whole URL asks for; raise BadRequestError, 421 when its Host header disagrees."""
    target = request.target.decode("ascii")
    scheme, separator, rest = target.partition("://")
    if not separator or scheme.lower() not in ("http", "https"):
        said = "is not one for a proxy: its target must be a whole URL, or come with CONNECT"
        raise BadRequestError(HTTPStatus.BAD_REQUEST, said)
    known: Scheme = "https" if scheme.lower() == "https" else "http"
    end = min((at for at in map(rest.find, "/?#") if at >= 0), default=len(rest))
    default = 443 if known == "https" else 80
    try:
        endpoint = parse_authority(rest[:end], default)
    except MalformedError as error:
        raise BadRequestError(HTTPStatus.BAD_REQUEST, f"names a host that {error}") from error
    if named_host(request, default) not in (None, endpoint):
        raise BadRequestError(HTTPStatus.MISDIRECTED_REQUEST, "has a Host header that is not the host of its URL")
    path = rest[end:]
    return _asked(request, known, endpoint, path if path.startswith("/") else f"/{path}")


def named_host(request: h11.Request, default_port: int) -> Endpoint | None:
    """Return what the Host header names, None without one; raise BadRequestError."""
    text = _header(request, b"host").decode("latin-1")
    if not text:
        return None
    try:
        return parse_authority(text, default_port)
    except MalformedError as error:
        raise BadRequestError(HTTPStatus.BAD_REQUEST, f"has a Host header that {error}") from error


def _asked(request: h11.Request, scheme: Scheme, endpoint: Endpoint, target: str) -> Asked:
    if "#" in target:
        raise BadRequestError(HTTPStatus.BAD_REQUEST, "has a fragment in its target")
    path, mark, query = target.partition("?")
    return Asked(request.method.decode("ascii"), scheme, endpoint, path, mark + query)


def _header(request: h11.Request, name: bytes) -> bytes:
    return b", ".join(value for found, value in request.headers if found == name)


def _request_head(request: h11.Request, asked: Asked, destination: Destination, line: Line) -> h11.Request:
    # A mock answers for public names, so it sees them; any other server is called by its own.
    host = asked.endpoint if destination.mock else destination.endpoint
    name = authority(asked.scheme if destination.mock else destination.scheme, host)
    headers = [(b"Host", name.encode()), *end_to_end(request), *length_of(request), (b"Connection", b"close")]
    if line.proxy_authorization:
        headers.append((b"Proxy-Authorization", line.proxy_authorization.encode()))
    target = destination.path + asked.query
    if line.is_proxied:
        target = origin(destination.scheme, destination.endpoint) + target
    return h11.Request(method=request.method, target=target, headers=headers)


def _refusal(endpoint: Endpoint, why: str) -> str:
    if why:
        return (
            f"{endpoint}: refused by the universe's gateway: {why}.\n"
            "Next: name it by `@package-index` or `@apt` if it is one of those; no other host may be there.\n"
        )
    if endpoint.host == "localhost" or endpoint.host.startswith("127.") or endpoint.host == "::1":
        return f"{endpoint}: refused: this is the universe itself, which programs reach without a proxy (NO_PROXY).\n"
    entry = bracketed(endpoint.host) if endpoint.port in WEB_PORTS else str(endpoint)
    return (
        f"{endpoint}: refused by the universe's gateway: it is not in `network.allow` of the profile.\n"
        f'Next: add "{entry}" to `network: {{allow: [...]}}`, or answer for it with `rewrites` or `mocks`.\n'
    )

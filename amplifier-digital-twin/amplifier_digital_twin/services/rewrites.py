"""Where requests for the hosts that a profile answers for go instead."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, NoReturn
from urllib.parse import unquote, urlsplit

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import Mock, Rewrite
from amplifier_digital_twin.services.addresses import INTERCEPTED_PORTS
from amplifier_digital_twin.services.endpoints import Endpoint, MalformedError, bracketed, parse_authority

Scheme = Literal["http", "https"]

_DEFAULT_PORTS: Final[dict[str, int]] = {"http": 80, "https": 443}
_ESCAPED: Final = re.compile(r"%[0-9A-Fa-f]{2}")
_UNRESERVED: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


class Destination(NamedTuple):
    """Where one request goes: `mock` names the service inside the universe, else it is a server of the world."""

    scheme: Scheme
    endpoint: Endpoint
    path: str
    mock: str | None = None

    def __str__(self) -> str:
        """Return the destination in words, without the path."""
        return f"mock:{self.mock}" if self.mock else origin(self.scheme, self.endpoint)


class _Target(NamedTuple):
    scheme: Scheme
    endpoint: Endpoint
    #: None where the path of the request is kept as it is, else what takes the place of the part that matched.
    path: str | None
    mock: str | None


class Routes:
    """Finds the destination of a request by host and path; the longest path that matches wins.

    `match` is `host[:port][/path]`; without a port the web's two are meant. A path matches itself and what is below
    it: `/v1` and `/v1/x`, never `/v10`. A target without a path (`http://host`, `mock:name`) gets the path of the
    request as it is; that of one with a path (`http://host/`, `http://host/base`) takes the place of what matched.
    Raises TwinError `rewrite_invalid`.
    """

    def __init__(self, rewrites: Sequence[Rewrite], mocks: Sequence[Mock]) -> None:
        self._targets: dict[Endpoint, dict[str, _Target]] = {}
        by_name = {mock.name: mock for mock in mocks}
        for rewrite in rewrites:
            self._add(rewrite.match, _target(rewrite, by_name))
        for mock in mocks:
            for domain in mock.domains:
                self._add(domain, _mock_target(mock))

    def _add(self, match: str, target: _Target) -> None:
        endpoints, path = _parse_match(match)
        for endpoint in endpoints:
            if self._targets.setdefault(endpoint, {}).setdefault(path, target) != target:
                _fail(f"{match!r} is given two targets", "keep one of them")

    @property
    def hosts(self) -> frozenset[str]:
        """Return every host that is answered for."""
        return frozenset(endpoint.host for endpoint in self._targets)

    def covers(self, host: str, port: int) -> bool:
        """Tell whether any path of this host and port goes elsewhere."""
        return Endpoint(host, port) in self._targets

    def find(self, host: str, port: int, path: str) -> Destination | None:
        """Return where a request goes, None when nothing matches; `path` comes without a query.

        Raises MalformedError for a path that servers read differently, where the host is answered for.
        """
        targets = self._targets.get(Endpoint(host, port))
        if targets is None:
            return None
        plain = plain_path(path)
        prefix = plain.rstrip("/")
        while prefix not in targets:
            if not prefix:
                return None
            prefix = prefix.rpartition("/")[0]
        target = targets[prefix]
        if target.path is not None:
            path = target.path.rstrip("/") + plain[len(prefix) :] or "/"
        return Destination(target.scheme, target.endpoint, path, target.mock)


def origin(scheme: str, endpoint: Endpoint) -> str:
    """Return scheme and authority of a URL, the port where it is not the scheme's own."""
    return f"{scheme}://{authority(scheme, endpoint)}"


def authority(scheme: str, endpoint: Endpoint) -> str:
    """Return what a Host header says of an endpoint."""
    return bracketed(endpoint.host) if endpoint.port == _DEFAULT_PORTS[scheme] else str(endpoint)


def plain_path(path: str) -> str:
    """Return a request's path in its one form; raise MalformedError when a server could read it as another one."""
    if not path.startswith("/"):
        raise MalformedError("has no path")
    if any(part in (".", "..") for part in re.split(r"[/\\]", unquote(path))):
        raise MalformedError("has a path that leads upwards")
    return _ESCAPED.sub(_unescaped, path)


def _unescaped(escaped: re.Match[str]) -> str:
    character = unquote(escaped[0])
    return character if character in _UNRESERVED else escaped[0].upper()


def _parse_match(match: str) -> tuple[list[Endpoint], str]:
    scheme, separator, rest = match.rpartition("://")
    if separator and scheme not in _DEFAULT_PORTS:
        _fail(f"{match!r} is not a host", "write host, host:port or host/path")
    ports = (_DEFAULT_PORTS[scheme],) if separator else INTERCEPTED_PORTS
    host, slash, path = rest.partition("/")
    try:
        endpoints = [parse_authority(host, port) for port in ports]
        found = plain_path(slash + path).rstrip("/") if path else ""
        if "?" in found or "#" in found:
            raise MalformedError("has a query")
    except MalformedError as error:
        _fail(f"{match!r} {error}", "write host, host:port or host/path, exactly: patterns are not taken")
    return list(dict.fromkeys(endpoints)), found


def _target(rewrite: Rewrite, mocks: dict[str, Mock]) -> _Target:
    if rewrite.target.startswith("mock:"):
        name = rewrite.target.removeprefix("mock:")
        if name not in mocks:
            _fail(f"{rewrite.target!r} is not one of the profile's mocks", f"name one of {sorted(mocks)}")
        return _mock_target(mocks[name])
    parts = urlsplit(rewrite.target)
    if parts.scheme not in _DEFAULT_PORTS or parts.query or parts.fragment:
        _fail(f"{rewrite.target!r} is not a target", "write http://…, https://… or mock:name")
    scheme: Scheme = "https" if parts.scheme == "https" else "http"
    try:
        endpoint = parse_authority(parts.netloc, _DEFAULT_PORTS[scheme])
        path = plain_path(parts.path) if parts.path else None
    except MalformedError as error:
        _fail(f"{rewrite.target!r} {error}", "write http://host/path or https://host/path")
    return _Target(scheme, endpoint, path, None)


def _mock_target(mock: Mock) -> _Target:
    return _Target("http", Endpoint("127.0.0.1", mock.port), None, mock.name)


def _fail(message: str, remedy: str) -> NoReturn:
    raise TwinError("rewrite_invalid", f"rewrites: {message}", remedy)

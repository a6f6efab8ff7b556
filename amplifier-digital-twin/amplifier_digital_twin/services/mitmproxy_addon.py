"""Runs inside mitmproxy, in an environment of its own: rewrites, mocks and the allow list of one universe.

Loaded by `mitmdump -s`, which finds `request_log.py` beside it; no other code of ours is there, as mitmproxy pins
libraries that clash with ours. `TWIN_PROXY` names a JSON file written by `proxy.py`. mitmproxy listens on no port:
clients come through the unix socket.

A request is decided by the address it is sent to, never by its Host header.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import os
import re
import socket
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from mitmproxy import ctx, http
from mitmproxy.proxy import mode_servers, server_hooks
from mitmproxy.tls import ClientHelloData
from request_log import RequestLog  # type: ignore[import-not-found]

_CONFIG = Path(os.environ["TWIN_PROXY"])
_PORTS = {"http": 80, "https": 443}
#: Public by their form, but addresses of other networks, or where clouds hand out credentials.
_SPECIAL = tuple(
    ipaddress.ip_network(text)
    for text in ("168.63.129.16/32", "100.64.0.0/10", "192.88.99.0/24", "64:ff9b::/96", "2002::/16", "2001::/23")
)
_NOT_ALLOWED = "not in `network.allow` of the profile"


class _Stream:
    """A stream writer of a socket without a peer's address, which mitmproxy wants of all of them."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return an address on loopback for both ends."""
        return ("127.0.0.1", 0) if name in ("peername", "sockname") else self._writer.get_extra_info(name, default)


class Addon:
    """Decides what happens to every connection and request."""

    def __init__(self) -> None:
        content = json.loads(_CONFIG.read_bytes())
        self._log = RequestLog(Path(content["log"]))
        self._allowed = {_authority(item, port) for item in content["allow"] for port in (80, 443)}
        # The longest path decides.
        rules = ((_match(rule["match"]), rule["target"], rule["is_mock"]) for rule in content["rules"])
        self._rewrites = sorted(rules, key=lambda rule: -len(rule[0][1]))
        self._rewritten = {authority for (authorities, _), _, _ in self._rewrites for authority in authorities}
        # Named by the profile itself, so they may be of this machine or network.
        parts = [urlsplit(target) for _, target, _ in self._rewrites]
        self._targets = {(part.hostname, part.port or _PORTS[part.scheme]) for part in parts}

    async def running(self) -> None:
        """Listen on the inherited socket, and end with the process that holds the other end of stdin."""
        listening = socket.socket(fileno=int(os.environ["TWIN_PROXY_FD"]))
        instance = mode_servers.ServerInstance.make("regular", ctx.master.addons.get("proxyserver"))

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await instance.handle_stream(reader, _Stream(writer))

        self._server = await asyncio.start_unix_server(connected, sock=listening)
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._input)
        (_CONFIG.parent / "ready").write_text("", encoding="utf-8")

    def _input(self) -> None:
        if not os.read(sys.stdin.fileno(), 4096):
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
            ctx.master.shutdown()

    def http_connect(self, flow: http.HTTPFlow) -> None:
        """Refuse a tunnel to a host that is neither allowed nor rewritten."""
        if (_host(flow.request.host), flow.request.port) not in self._allowed | self._rewritten:
            self._refuse(flow, _NOT_ALLOWED)

    def tls_clienthello(self, data: ClientHelloData) -> None:
        """Look into the tunnels to rewritten hosts only."""
        host, port = data.context.server.address or ("", 0)
        if (_host(host), port) not in self._rewritten:
            self._log.record("proxy", host, f"CONNECT {host}:{port}", 200, allowed=True)
            data.ignore_connection = True

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        """Rewrite, allow or refuse a request."""
        request = flow.request
        place = (_host(request.host), request.port)
        flow.metadata["asked"] = _asked(request)
        flow.metadata["host"] = place[0]
        try:
            path = _plain_path(request.path)
        except ValueError as error:
            return self._refuse(flow, str(error))
        plain = path.partition("?")[0]
        for (authorities, prefix), target, is_mock in self._rewrites:
            if place in authorities and (not prefix or plain == prefix or plain.startswith(f"{prefix}/")):
                parts = urlsplit(target)
                request.scheme, request.host = parts.scheme, parts.hostname
                request.port = parts.port or _PORTS[parts.scheme]
                request.path = (parts.path.rstrip("/") + path[len(prefix) :] or "/") if parts.path else path
                # A mock sees the address that was asked for, as behind any proxy.
                request.host_header = place[0] if is_mock else parts.netloc
                return None
        if place in self._allowed:
            return None
        reason = "no rewrite of the profile covers this path, and its host is not allowed"
        return self._refuse(flow, reason if place in self._rewritten else _NOT_ALLOWED)

    def response(self, flow: http.HTTPFlow) -> None:
        """Log the answer."""
        if "refused" not in flow.metadata and flow.response is not None:
            self._record(flow, flow.response.status_code, allowed=True)

    def error(self, flow: http.HTTPFlow) -> None:
        """Log a failure."""
        if "refused" not in flow.metadata:
            self._record(flow, 502, allowed=True, reason=flow.error.msg if flow.error else "")

    async def server_connect(self, data: server_hooks.ServerConnectionHookData) -> None:
        """Connect to the address that was checked: only the profile itself may name private ones."""
        host, port = data.server.address
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            data.server.error = f"the name cannot be resolved: {error}"
            return
        addresses = [str(item[4][0]) for item in found]
        if (host, port) not in self._targets:
            addresses = [address for address in addresses if _is_public(address)]
        if not addresses:
            data.server.error = "refused: its address is of a private or special network, or of this machine"
            self._log.record("proxy", host, f"CONNECT {host}:{port}", 403, allowed=False, reason=data.server.error)
            return
        data.server.sni = data.server.sni or host
        data.server.address = (addresses[0], port)

    def _refuse(self, flow: http.HTTPFlow, reason: str) -> None:
        flow.metadata |= {"refused": True, "host": _host(flow.request.host), "asked": _asked(flow.request)}
        said = f"{flow.metadata['host']} is refused in this universe: {reason}\n"
        flow.response = http.Response.make(403, said.encode(), {"Content-Type": "text/plain; charset=utf-8"})
        self._record(flow, 403, allowed=False, reason=reason)

    def _record(self, flow: http.HTTPFlow, status: int, *, allowed: bool, reason: str = "") -> None:
        metadata = flow.metadata
        self._log.record("proxy", metadata["host"], metadata["asked"], status, allowed=allowed, reason=reason)


def _match(text: str) -> tuple[set[tuple[str, int]], str]:
    """Return the authorities, for both schemes, and the path of a rule."""
    authority, slash, path = text.partition("/")
    return {_authority(authority, port) for port in _PORTS.values()}, _plain_path(slash + path).rstrip("/")


def _authority(text: str, port: int) -> tuple[str, int]:
    parts = urlsplit(f"//{text}")
    return _host(parts.hostname or ""), parts.port or port


def _host(text: str) -> str:
    return text.lower().strip("[]").removesuffix(".")


def _asked(request: http.Request) -> str:
    return f"{request.method} {request.scheme}://{_host(request.host)}:{request.port}{request.path.partition('?')[0]}"


def _plain_path(path: str) -> str:
    """Return a path in its one form; raises ValueError when a server could read it as another one."""
    plain, question, query = path.partition("?")
    if any(part in (".", "..") for part in re.split(r"[/\\]", unquote(plain))):
        raise ValueError("its path leads upwards")

    def unescaped(escaped: re.Match[str]) -> str:
        character = unquote(escaped[0])
        return character if re.fullmatch(r"[A-Za-z0-9._~-]", character) else escaped[0].upper()

    return re.sub("%[0-9a-fA-F]{2}", unescaped, plain) + question + query


def _is_public(address: str) -> bool:
    parsed = ipaddress.ip_address(address.partition("%")[0])
    parsed = getattr(parsed, "ipv4_mapped", None) or parsed
    if not parsed.is_global or parsed.is_multicast or any(parsed in network for network in _SPECIAL):
        return False
    with socket.socket(socket.AF_INET6 if parsed.version == 6 else socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((str(parsed), 9))
        except OSError:
            return True  # not reachable at all, which connecting will find out
        return bool(probe.getsockname()[0] != str(parsed))


addons = [Addon()]

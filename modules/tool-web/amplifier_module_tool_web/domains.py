"""The lists of hosts that a bundle allows and blocks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from amplifier_kit.guard.network import Endpoint, MalformedError, is_address, meant, parse_authority, parse_host
from amplifier_kit.named_tuple import NamedTuple
from amplifier_module_tool_web.call import Failure

#: The start of an IPv4 address, as in `192.168.`.
_ADDRESS_START: Final = re.compile(r"([0-9]{1,3}\.){1,3}")
#: What can be a piece of a host with its port.
_PIECE: Final = re.compile(r"[a-z0-9._:\[\]-]+")


class _Entry(NamedTuple):
    """One entry of a list: a host with a port (0: any), the start of an address, or a piece of a name."""

    text: str
    host: str = ""
    port: int = 0
    is_below_only: bool = False
    start: str = ""

    def names(self, endpoint: Endpoint) -> bool:
        """Tell whether the entry means this host."""
        if self.text == "*":
            return True
        if self.start:
            return is_address(endpoint.host) and str(meant(endpoint.host)).startswith(self.start)
        if not self.host or (self.port and self.port != endpoint.port):
            return False
        is_below = not is_address(self.host) and endpoint.host.endswith(f".{self.host}")
        return is_below or (endpoint.host == self.host and not self.is_below_only)

    def blocks(self, endpoint: Endpoint) -> bool:
        """Tell whether the entry means this host, or is a piece of its name."""
        is_whole = self.start or "." in self.host or ":" in self.host
        return self.names(endpoint) or (not is_whole and self.text in str(endpoint))


class Domains:
    """Tells whether a host is one that the bundle lets be fetched from.

    An entry is a host and stands for its subdomains too; with `:port` for that port only; after `*.` or `.` for the
    subdomains only; `192.168.` is the start of an address. Any other text blocks whatever contains it, as it always
    did, and allows only the host of that name: a piece of a name is in the names of strangers as well.
    """

    def __init__(self, allowed: Iterable[str] = (), blocked: Iterable[str] = ()) -> None:
        """Raise ValueError for an entry that would never mean anything."""
        self._allowed = tuple(_entry("allowed_domains", text) for text in allowed)
        self._blocked = tuple(_entry("blocked_domains", text) for text in blocked)
        self._starts = tuple(entry.start for entry in self._blocked if entry.start)

    def check(self, endpoint: Endpoint) -> None:
        """Raise Failure for a host that is blocked, or not allowed where only some are."""
        entry = next((entry for entry in self._blocked if entry.blocks(endpoint)), None)
        if entry is not None:
            raise Failure("blocked_domain", f"{endpoint.host} is blocked: blocked_domains has {entry.text!r}")
        if self._allowed and not any(entry.names(endpoint) for entry in self._allowed):
            known = ", ".join(entry.text for entry in self._allowed)
            raise Failure("blocked_domain", f"{endpoint.host} is not among the hosts of allowed_domains: {known}")

    def is_refused(self, address: str) -> bool:
        """Tell whether an address that a name leads to is blocked."""
        return bool(self._starts) and str(meant(address)).startswith(self._starts)


def _entry(key: str, text: str) -> _Entry:
    if text == "*":
        return _Entry(text)
    if _ADDRESS_START.fullmatch(text):
        return _Entry(text, start=text)
    bare = text.removeprefix("*").removeprefix(".")
    try:
        host, port = _read(bare)
    except MalformedError as error:
        if key == "blocked_domains" and _PIECE.fullmatch(text):
            return _Entry(text)
        raise ValueError(
            f"tool-web: config key {key!r}: {text!r}: {error}: write a host, without scheme or path"
        ) from None
    return _Entry(text, host, port, is_below_only=bare != text)


def _read(entry: str) -> tuple[str, int]:
    """Return host and port of an entry, port 0 for any."""
    if entry.endswith("."):
        raise MalformedError("it is a piece of a name")
    if entry.count(":") > 1 and not entry.startswith("["):
        return parse_host(f"[{entry}]"), 0
    if ":" not in entry or entry.endswith("]"):
        return parse_host(entry), 0
    endpoint = parse_authority(entry)
    return endpoint.host, endpoint.port

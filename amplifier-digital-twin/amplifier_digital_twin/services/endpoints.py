"""Hosts and ports as requests name them: read strictly, written one way, and judged by the address behind them."""

from __future__ import annotations

import ipaddress
import re
import socket
from ipaddress import IPv4Address, IPv6Address, ip_network
from typing import Final, NamedTuple

_LABEL: Final = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
#: What some resolvers read as (a part of) an address: `2130706433`, `0x7f000001`, `0177`.
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
#: IPv6 addresses that stand for the IPv4 address in their last 32 bits.
_TRANSLATED: Final = tuple(map(ip_network, ("64:ff9b::/96", "::ffff:0:0/96", "::ffff:0:0:0/96")))
#: The only IPv6 addresses that the internet has given out.
_UNICAST: Final = ip_network("2000::/3")
#: Networks with a special meaning, in full: what the standard library knows of them differs between its versions.
_SPECIAL: Final = tuple(
    map(
        ip_network,
        (
            *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
            *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15"),
            *("198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
            # Public by its form, and where one cloud hands out credentials.
            "168.63.129.16/32",
            # Relays into other networks, documentation, protocol assignments.
            *("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"),
        ),
    )
)


class MalformedError(ValueError):
    """A host or authority cannot be read one way only."""


class Endpoint(NamedTuple):
    """A host (lower case, no trailing dot, addresses without brackets) and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        """Return the endpoint as an authority."""
        return f"{bracketed(self.host)}:{self.port}"


def bracketed(host: str) -> str:
    """Return a host as an authority writes it."""
    return f"[{host}]" if ":" in host else host


def parse_host(text: str) -> str:
    """Return a host name or address in its one form; raise MalformedError for whatever has several readings."""
    if text.startswith("[") and text.endswith("]"):
        return str(_ipv6(text[1:-1]))
    name = text.lower().removesuffix(".")
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return _ipv4(name)
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise MalformedError("is not a host name")
    return name


def parse_authority(text: str, default_port: int | None = None) -> Endpoint:
    """Return the endpoint of `host` or `host:port`; raise MalformedError, also where no port is given nor implied."""
    if "@" in text:
        raise MalformedError("carries a user name")
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        if default_port is None:
            raise MalformedError("has no port")
        return Endpoint(parse_host(text), default_port)
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) < 65536):
        raise MalformedError("has a port that is none")
    return Endpoint(parse_host(host), int(port))


def _ipv4(text: str) -> str:
    try:
        return str(ipaddress.IPv4Address(text))
    except ValueError:
        raise MalformedError("is an address in a form that programs read differently") from None


def _ipv6(text: str) -> IPv6Address:
    try:
        address = ipaddress.IPv6Address(text)
    except ValueError:
        raise MalformedError("is not an address") from None
    if address.scope_id is not None:
        raise MalformedError("is an address of one network card")
    return address


def is_address(host: str) -> bool:
    """Tell whether a host in its one form is an address and not a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def meant(address: str) -> IPv4Address | IPv6Address:
    """Return the address that packets to this one end up at, as far as its form tells."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    if any(parsed in network for network in _TRANSLATED):
        return ipaddress.IPv4Address(int(parsed) & 0xFFFFFFFF)
    return parsed


def is_public(address: str) -> bool:
    """Tell whether an address is one of the internet's, in none of the ranges with a private or special meaning."""
    parsed = meant(address)
    if parsed.version == 6 and parsed not in _UNICAST:
        return False
    return not any(parsed in network for network in _SPECIAL)


def is_ordinary(address: str) -> bool:
    """Tell whether an address is public, a neighbour's or the machine's own: what a host may ask for by name.

    Link-local ones are not: they are where clouds hand out credentials.
    """
    parsed = meant(address)
    return not (parsed.is_link_local or parsed.is_multicast or parsed.is_unspecified)


def is_own(address: str) -> bool:
    """Tell whether an address belongs to this machine (no packet is sent)."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((address, 9))
        except OSError:
            return False  # not reachable at all, which connecting will find out
        return bool(meant(probe.getsockname()[0]) == meant(address))

"""Kinds of addresses: public, private, this machine's, or never to be contacted."""

from __future__ import annotations

import ipaddress
import socket
from ipaddress import IPv4Address, IPv6Address, ip_network
from typing import Final

#: IPv6 addresses that embed an IPv4 address in their last 32 bits, and lead to it.
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
            # Relays into other networks, documentation, protocol assignments.
            *("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"),
        ),
    )
)
#: Where clouds hand out credentials, besides the link-local networks; some of these are public by their form.
_CREDENTIALS: Final = tuple(
    map(ip_network, ("168.63.129.16/32", "100.100.100.200/32", "192.0.0.192/32", "fd00:ec2::/32", "fd20:ce::254/128"))
)


def meant(address: str) -> IPv4Address | IPv6Address:
    """Return the address that packets to this one end up at, as far as its form tells; ValueError if it is not one."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    if _is_in(parsed, _TRANSLATED):
        return IPv4Address(int(parsed) & 0xFFFFFFFF)
    return parsed


def is_public(address: str) -> bool:
    """Return whether an address is one of the internet's, in none of the ranges with a private or special meaning."""
    parsed = meant(address)
    if parsed.version == 6 and parsed not in _UNICAST:
        return False
    return not _is_in(parsed, _SPECIAL) and not _is_in(parsed, _CREDENTIALS)


def is_ordinary(address: str) -> bool:
    """Return whether an address is public, a neighbour's or the machine's own: what a person may ask for by name.

    Link-local ones are not, nor a few others: they are where clouds hand out credentials.
    """
    parsed = meant(address)
    if parsed.is_link_local or parsed.is_multicast or parsed.is_unspecified:
        return False
    return not _is_in(parsed, _CREDENTIALS)


def is_own(address: str) -> bool:
    """Return whether an address belongs to this machine (no packet is sent)."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((address, 9))
            own = str(probe.getsockname()[0])
    except OSError:
        return False  # not reachable at all, which connecting will find out
    return meant(own) == meant(address)


def _is_in(
    address: IPv4Address | IPv6Address, networks: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]
) -> bool:
    return any(address in network for network in networks)

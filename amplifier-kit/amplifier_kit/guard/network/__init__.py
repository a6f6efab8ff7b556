"""Reach the network on behalf of others: hosts read one way only, addresses judged, and those connected to.

| Name | What |
|---|---|
| `parse_host`, `parse_authority`, `parse_url` | one form for every host; what programs read differently is refused |
| `is_public`, `is_ordinary`, `is_own`, `meant` | what an address is |
| `Guard` | resolves a name, judges its addresses and connects to exactly those |
| `proxy_for` | the proxy that an environment names for a URL |
"""

from amplifier_kit.guard.network.addresses import is_ordinary, is_own, is_public, meant
from amplifier_kit.guard.network.guard import AddressRefusedError, Guard, Judge
from amplifier_kit.guard.network.hosts import (
    Endpoint,
    MalformedError,
    bracketed,
    is_address,
    parse_authority,
    parse_host,
)
from amplifier_kit.guard.network.proxies import proxy_for
from amplifier_kit.guard.network.resolver import Resolve, resolve
from amplifier_kit.guard.network.urls import Target, parse_url

__all__ = [
    "AddressRefusedError",
    "Endpoint",
    "Guard",
    "Judge",
    "MalformedError",
    "Resolve",
    "Target",
    "bracketed",
    "is_address",
    "is_ordinary",
    "is_own",
    "is_public",
    "meant",
    "parse_authority",
    "parse_host",
    "parse_url",
    "proxy_for",
    "resolve",
]

"""Requests to hosts that a model or a user names: hosts and URLs have one parser, and addresses are checked.

| Name | Subject |
|---|---|
| `parse_host`, `parse_authority`, `parse_url` | one form for every host; ambiguous ones are refused |
| `canonical_host`, `canonical_url_host` | the same for rules, which refuse unusual spellings too |
| `is_public`, `is_ordinary`, `is_own`, `meant` | kinds of addresses |
| `Guard` | resolves a name, checks its addresses and connects to exactly those |
| `proxy_for` | the proxy that an environment names for a URL |
"""

from amplifier_kit.guard.network.addresses import is_ordinary, is_own, is_public, meant
from amplifier_kit.guard.network.guard import AddressRefusedError, Guard, Judge, Resolve, resolve
from amplifier_kit.guard.network.hosts import (
    Endpoint,
    MalformedError,
    bracketed,
    canonical_host,
    is_address,
    parse_authority,
    parse_host,
)
from amplifier_kit.guard.network.urls import Target, canonical_url_host, parse_url, proxy_for

__all__ = [
    "AddressRefusedError",
    "Endpoint",
    "Guard",
    "Judge",
    "MalformedError",
    "Resolve",
    "Target",
    "bracketed",
    "canonical_host",
    "canonical_url_host",
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

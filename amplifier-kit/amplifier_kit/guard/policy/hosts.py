"""Hosts as rules compare them: the parser of `guard.network`, with a distrust of unusual spellings."""

from __future__ import annotations

import unicodedata

from amplifier_kit.guard.network.hosts import MalformedError, parse_authority, parse_host, split_port
from amplifier_kit.guard.network.hosts import is_address as is_parsed_address

#: Characters that older programs read as others, or as nothing.
_DEVIATIONS = frozenset("ßς\u200c\u200d")
_INVISIBLE = ("Cc", "Cf", "Zs", "Zl", "Zp", "Cs")


class HostError(ValueError):
    """A host that no rule may allow: invalid, or in an unusual spelling. `meant` is what it stands for, if known."""

    code = "policy.host"

    def __init__(self, message: str, meant: str | None = None) -> None:
        super().__init__(message)
        self.meant = meant


def host_of(url: str) -> str:
    """Return the host of an http or https URL in its normal form; a user name before it does not count.

    Raises:
        HostError: When it has none, or when programs may disagree about which it is.
    """
    from amplifier_kit.guard.network.urls import authority_of

    if "\\" in url or any(unicodedata.category(character) in _INVISIBLE for character in url):
        raise HostError(f"{url!r} contains blanks, backslashes or characters that cannot be seen")
    try:
        authority = authority_of(url).rpartition("@")[2]
    except MalformedError as error:
        raise HostError(str(error), error.meant) from error
    return _without_port(authority)


def normal_host(text: str) -> str:
    """Return a host as rules compare it: a name or an address, with or without a port, IPv6 also without brackets.

    Raises:
        HostError: When it is no host, or in an unusual spelling; `meant` is the host that it stands for.
    """
    return _usual(f"[{text}]") if text.count(":") > 1 and not text.startswith("[") else _without_port(text)


def is_address(host: str) -> bool:
    """Return whether a host is an address and not a name. Raises HostError as `normal_host` does."""
    return is_parsed_address(normal_host(host))


def _without_port(authority: str) -> str:
    host, port = split_port(authority)
    if port is not None:
        try:
            parse_authority(authority)
        except MalformedError as error:
            raise HostError(str(error), error.meant) from error
    return _usual(host)


def _usual(text: str) -> str:
    """Return a host that is spelled as usual."""
    try:
        host = parse_host(text)
    except MalformedError as error:
        raise HostError(str(error), error.meant) from error
    if ":" in host:
        from ipaddress import IPv6Address

        meant = str(IPv6Address(host).ipv4_mapped or host)
        if meant != text.strip("[]").lower():
            raise HostError(f"{text!r} is an unusual form of the address {meant}", meant)
    elif _DEVIATIONS & set(text.lower()) or unicodedata.normalize("NFC", text) != text:
        raise HostError(f"{text!r} contains characters that programs read in different ways", host)
    return host

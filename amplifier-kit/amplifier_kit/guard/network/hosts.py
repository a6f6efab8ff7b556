"""Hosts and ports as requests name them: read strictly, and written one way."""

from __future__ import annotations

import ipaddress
import re
import socket
import unicodedata
from typing import Final, NamedTuple

_LABEL: Final = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
#: What some resolvers read as (a part of) an address: `2130706433`, `0x7f000001`, `0177`.
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
#: Kinds of characters that names in other scripts are made of: letters, their marks, digits.
_SCRIPT: Final = frozenset({"Ll", "Lo", "Lm", "Mn", "Mc", "Nd"})


class MalformedError(ValueError):
    """A host, authority or URL cannot be read one way only."""


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
    """Return a host name or address in its one form; raise MalformedError for whatever has several readings.

    Names in other scripts become their ASCII form (`xn--…`), so that no look-alike equals a name in plain letters.
    """
    if text.startswith("[") and text.endswith("]"):
        return _ipv6(text[1:-1])
    name = text.removesuffix(".")
    name = name.lower() if name.isascii() else ".".join(_ascii_label(label) for label in name.split("."))
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


def is_address(host: str) -> bool:
    """Tell whether a host in its one form is an address and not a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _ascii_label(label: str) -> str:
    if label.isascii():
        return label.lower()
    text = unicodedata.normalize("NFC", label).lower()
    # Full-width digits, ligatures, circled letters: some programs read them as the plain characters they look like.
    if unicodedata.normalize("NFKC", text) != text:
        raise MalformedError("has characters that stand for others")
    if not all(char == "-" or unicodedata.category(char) in _SCRIPT for char in text):
        raise MalformedError("is not a host name")
    return f"xn--{text.encode('punycode').decode('ascii')}"


def _ipv4(text: str) -> str:
    try:
        return str(ipaddress.IPv4Address(text))
    except ValueError:
        pass
    try:
        read = f": {socket.inet_ntoa(socket.inet_aton(text))} for some"
    except (OSError, ValueError):
        read = ""
    raise MalformedError(f"is an address in a form that programs read differently{read}")


def _ipv6(text: str) -> str:
    try:
        address = ipaddress.IPv6Address(text)
    except ValueError:
        raise MalformedError("is not an address") from None
    if address.scope_id is not None:
        raise MalformedError("is an address of one network card")
    return str(address)

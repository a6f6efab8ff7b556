"""The one parser of hosts and ports, for requests and for rules: strict, and with one form for every host.

A request accepts every host that all programs read alike. A rule is stricter (`canonical_host`): it also distrusts
spellings that all programs accept but a person may misread.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import unicodedata
from typing import Final, NamedTuple

_LABEL: Final = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
#: What the C library reads as (a part of) an address: `2130706433`, `0x7f000001`, `0177`.
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
#: Kinds of characters that names in other scripts are made of: letters, their marks, digits.
_SCRIPT: Final = frozenset({"Ll", "Lo", "Lm", "Mn", "Mc", "Nd"})
#: Characters that older programs read as others, or drop.
_DEVIATIONS: Final = frozenset("ßς\u200c\u200d")
_MAX_NAME: Final = 253


class MalformedError(ValueError):
    """A host, authority or URL that is invalid or that programs read in different ways.

    `meant` is the host that some programs read in it, for rules that deny that host.
    """

    def __init__(self, message: str, meant: str | None = None) -> None:
        super().__init__(message)
        self.meant = meant


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
    """Return a host name or address in its one form: lower case, ASCII, no trailing dot, no brackets.

    Names in other scripts become their ASCII form (`xn--…`), so that no look-alike equals a name in plain letters.

    Raises:
        MalformedError: When it is neither, or an IPv4 address in a form that programs read in different ways.
    """
    if text.startswith("[") and text.endswith("]"):
        return _ipv6(text[1:-1])
    if text.startswith("["):
        message = f"invalid address {_shown(text)}: nothing follows the bracket"
        raise MalformedError(message, _meant(f"{text.partition(']')[0]}]"))
    name = text.removesuffix(".")
    name = name.lower() if name.isascii() else ".".join(_ascii_label(label, text) for label in name.split("."))
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return _ipv4(name)
    if len(name) > _MAX_NAME:
        raise MalformedError(f"invalid host {_shown(text)}: a name has at most {_MAX_NAME} characters")
    if not all(_LABEL.fullmatch(label) for label in labels):
        raise MalformedError(f"invalid host {_shown(text)}: expected a name as 'example.com' or an address")
    return name


def parse_authority(text: str, default_port: int | None = None) -> Endpoint:
    """Return the endpoint of `host` or `host:port`.

    Raises:
        MalformedError: When the host or the port is invalid, when it has a user name, or when it has neither a port
            nor a default.
    """
    if "@" in text:
        # The text before it may be a password.
        raise MalformedError(
            f"invalid host: a user name before {_shown(text.rpartition('@')[2])}: write the host alone"
        )
    host, port = _split_port(text)
    if port is None:
        if default_port is None:
            raise MalformedError(f"{_shown(text)} has no port: expected 'host:port'")
        return Endpoint(parse_host(text), default_port)
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) < 65536):
        message = f"invalid port {port!r} in {_shown(text)}: expected a number from 1 to 65535"
        raise MalformedError(message, _meant(host))
    return Endpoint(parse_host(host), int(port))


def canonical_host(text: str) -> str:
    """Return a host as rules compare it: a name or an address, with or without a port, IPv6 also without brackets.

    Raises:
        MalformedError: When it is invalid, or in an unusual spelling; `meant` is the host that it means.
    """
    if text.count(":") > 1 and not text.startswith("["):
        text = f"[{text}]"
    spelled, port = _split_port(text)
    host = parse_authority(text).host if port is not None else parse_host(spelled)
    if ":" in host:
        meant = str(ipaddress.IPv6Address(host).ipv4_mapped or host)
        if meant != spelled.strip("[]").lower():
            raise MalformedError(f"{spelled!r} is an unusual form of the address {meant}", meant)
    elif _DEVIATIONS & set(spelled.lower()) or unicodedata.normalize("NFC", spelled) != spelled:
        raise MalformedError(f"{spelled!r} contains characters that programs read in different ways", host)
    return host


def is_address(host: str) -> bool:
    """Return whether a host in its one form is an address and not a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _split_port(text: str) -> tuple[str, str | None]:
    """Return host and port of an authority as they are written; the port is None when missing."""
    end = text.find("]") + 1 if text.startswith("[") else 0
    rest, colon, port = text[end:].rpartition(":")
    return (text[:end] + rest, port) if colon else (text, None)


def _meant(host: str) -> str | None:
    """Return the host that part of an invalid text means."""
    try:
        found = parse_host(host)
    except MalformedError as error:
        return error.meant
    return str(ipaddress.IPv6Address(found).ipv4_mapped or found) if ":" in found else found


def _ascii_label(label: str, host: str) -> str:
    if label.isascii():
        return label.lower()
    text = unicodedata.normalize("NFC", label).lower()
    # Full-width digits, ligatures, circled letters: some programs read them as the plain characters they look like.
    if unicodedata.normalize("NFKC", text) != text:
        raise MalformedError(f"invalid host {_shown(host)}: it has characters that some programs read as others")
    if not all(char == "-" or unicodedata.category(char) in _SCRIPT for char in text):
        raise MalformedError(f"invalid host {_shown(host)}: a name is made of letters, digits and hyphens")
    return f"xn--{text.encode('punycode').decode('ascii')}"


def _ipv4(text: str) -> str:
    try:
        return str(ipaddress.IPv4Address(text))
    except ValueError:
        pass
    meant = _as_c_library(text)
    if meant is None:
        raise MalformedError(f"invalid host {_shown(text)}: it ends in a number and is not an address")
    raise MalformedError(f"{_shown(text)} is an unusual form of the address {meant}: write {meant}", meant)


def _as_c_library(text: str) -> str | None:
    """Return the address that `inet_aton` reads in up to four decimal, octal or hexadecimal numbers."""
    parts = text.split(".")
    if not all(map(_NUMBER.fullmatch, parts)):
        return None
    # Browsers read a bare `0x` as zero, `inet_aton` only on some systems.
    numbers = ("0" if part == "0x" else part for part in parts)
    try:
        return socket.inet_ntoa(socket.inet_aton(".".join(numbers)))
    except OSError:
        return None


def _ipv6(text: str) -> str:
    address, percent, _ = text.partition("%")
    try:
        parsed = ipaddress.IPv6Address(address)
    except ValueError:
        raise MalformedError(f"invalid address {_shown(f'[{text}]')}: expected IPv6, as '[2001:db8::1]'") from None
    if percent:
        meant = str(parsed.ipv4_mapped or parsed)
        raise MalformedError(f"{_shown(f'[{text}]')} is an address of one network interface: leave out the zone", meant)
    return str(parsed)


def _shown(text: str) -> str:
    return repr(text if len(text) <= 200 else f"{text[:200]}…")

"""Hosts, addresses and URLs of requests and of rules: one strict parser, and one form for every host.

A request accepts every host that all programs read alike (`parse_host`, `parse_authority`, `parse_url`). A rule is
stricter (`canonical_host`, `canonical_url_host`): it also distrusts spellings that all programs accept but a person may
misread. `is_public`, `is_ordinary` and `meant` judge addresses, `proxy_for` finds the proxy for a URL.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import unicodedata
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_network
from typing import Final
from urllib.parse import quote, urljoin

from amplifier_kit.guard.invisible_characters import INVISIBLE
from amplifier_kit.struct import FrozenStruct

_LABEL: Final = r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?"
#: What the C library reads as (a part of) an address: `2130706433`, `0x7f000001`, `0177`.
_NUMBER: Final = r"[0-9]+|0x[0-9a-f]*"
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


class Endpoint(FrozenStruct):
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
    if re.fullmatch(_NUMBER, labels[-1]):
        return _ipv4(name)
    if len(name) > _MAX_NAME:
        raise MalformedError(f"invalid host {_shown(text)}: a name has at most {_MAX_NAME} characters")
    if not all(re.fullmatch(_LABEL, label) for label in labels):
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
    if not all(re.fullmatch(_NUMBER, part) for part in parts):
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


# --- URLs ---

_PORTS: Final = {"http": 80, "https": 443}
_URL: Final = r"(?i)(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<authority>[^/?#]*)(?P<rest>[^#]*)"
#: Characters that programs drop, or read as others: no URL contains them.
_FORBIDDEN: Final = r"[\x00-\x20\x7f-\xa0\\]"
#: What may stand in a path or query as it is; `%` is left alone, as escapes are there already.
_KEPT: Final = "!$&'()*+,-./:;=?@_~%[]"
_LONGEST: Final = 8192
_ODD_CHARACTERS: Final = "invalid URL: it has blanks, backslashes or control characters"


class Target(FrozenStruct):
    """What one request asks for: `path` is never empty and carries the query."""

    scheme: str
    endpoint: Endpoint
    path: str

    @property
    def host(self) -> str:
        """Return the host in its one form."""
        return self.endpoint.host

    @property
    def port(self) -> int | None:
        """Return the port, None for the scheme's own."""
        return None if self.endpoint.port == _PORTS[self.scheme] else self.endpoint.port

    @property
    def authority(self) -> str:
        """Return host and port as the `Host` header writes them: without the scheme's own port."""
        return bracketed(self.host) if self.port is None else str(self.endpoint)

    def __str__(self) -> str:
        """Return the URL, in which nothing is left that another program could read differently."""
        return f"{self.scheme}://{self.authority}{self.path}"

    def joined(self, location: str) -> Target:
        """Return what a redirect from here leads to; raise MalformedError."""
        location = location.strip(" \t").replace(" ", "%20")  # servers forget to; in a host it is refused
        if re.search(_FORBIDDEN, location):
            raise MalformedError(_ODD_CHARACTERS)
        try:
            return parse_url(urljoin(str(self), location))
        except MalformedError:
            raise
        except ValueError as error:
            raise MalformedError(f"invalid URL: {error}") from error


def parse_url(text: str) -> Target:
    """Return what an http or https URL asks for, without its fragment.

    Raises:
        MalformedError: When programs may read it in different ways: a user name, backslashes, blanks and control
            characters, invalid ports, and addresses in unusual forms.
    """
    if len(text) > _LONGEST:
        raise MalformedError(f"invalid URL: it is longer than {_LONGEST} characters")
    scheme, authority, rest = _split(text)
    endpoint = parse_authority(authority, _PORTS[scheme])
    try:
        path = quote(rest if rest.startswith("/") else f"/{rest}", safe=_KEPT)
    except UnicodeEncodeError:
        raise MalformedError(_ODD_CHARACTERS) from None
    return Target(scheme, endpoint, path)


def canonical_url_host(url: str) -> str:
    """Return the host of a URL as rules compare it; a user name before it does not count.

    Raises:
        MalformedError: As `canonical_host`, and when the URL has no host or contains invisible characters.
    """
    if not url.isascii() and any(unicodedata.category(character) in INVISIBLE for character in url):
        raise MalformedError(f"{url!r} contains blanks or invisible characters")
    scheme, authority, _ = _split(url)
    authority = authority.rpartition("@")[2]
    parse_authority(authority, _PORTS[scheme])  # which, in a URL, refuses an IPv6 address without brackets
    return canonical_host(authority)


def proxy_for(target: Target, environ: Mapping[str, str]) -> str | None:
    """Return the URL of the proxy that the environment names for a request, None for no proxy.

    `http_proxy`, `https_proxy` and `all_proxy` are read in small letters first, then in capitals; `no_proxy` lists
    hosts, domains, addresses and networks that are reached directly, or `*`.
    """
    names = (f"{target.scheme}_proxy", f"{target.scheme.upper()}_PROXY", "all_proxy", "ALL_PROXY")
    proxy = next((environ[name] for name in names if environ.get(name)), None)
    exempt = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    if proxy is None or any(_covers(item.strip().lower(), target) for item in exempt.split(",")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _split(text: str) -> tuple[str, str, str]:
    """Return scheme, authority, and path with query."""
    if re.search(_FORBIDDEN, text):
        raise MalformedError(_ODD_CHARACTERS)
    match = re.match(_URL, text)
    if match is None:
        raise MalformedError("invalid URL: expected one that starts with http:// or https://")
    scheme = match["scheme"].lower()
    if scheme not in _PORTS:
        raise MalformedError(f"invalid URL: the scheme is {scheme!r}, only http and https are fetched")
    if not match["authority"]:
        raise MalformedError("invalid URL: it names no host")
    return scheme, match["authority"], match["rest"]


def _covers(item: str, target: Target) -> bool:
    name, _, port = item.rpartition(":") if item.count(":") == 1 else (item, "", "")
    if not name or (port and port != str(target.endpoint.port)):
        return False
    if name == "*":
        return True
    name = name.strip("[]").removeprefix("*")
    try:
        return ipaddress.ip_address(target.host) in ipaddress.ip_network(name, strict=False)
    except ValueError:
        bare = name.strip(".")
        return bool(bare) and (target.host == bare or target.host.endswith(f".{bare}"))


# --- kinds of addresses ---

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
    """Return the address that packets to this one end up at, as far as its form shows; ValueError if it is invalid."""
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


def _is_in(
    address: IPv4Address | IPv6Address, networks: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]
) -> bool:
    return any(address in network for network in networks)

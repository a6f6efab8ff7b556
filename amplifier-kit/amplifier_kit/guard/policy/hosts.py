"""Names of hosts, in the one form in which they are compared."""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import urlsplit

_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)", re.ASCII)
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+", re.ASCII)
#: Characters that older programs read as others, or as nothing.
_DEVIATIONS = frozenset("ßς\u200c\u200d")


class HostError(ValueError):
    """A host that cannot be named with certainty."""

    code = "policy.host"

    def __init__(self, message: str, meant: str | None = None) -> None:
        super().__init__(message)
        self.meant = meant


def host_of(url: str) -> str:
    """Return the host of an http or https URL in its normal form.

    Raises:
        HostError: When it has none, or when programs may disagree about which it is.
    """
    if any(character in url for character in "\\ \t\r\n") or any(
        unicodedata.category(character) in ("Cc", "Cf", "Zs", "Zl", "Zp", "Cs") for character in url
    ):
        raise HostError(f"{url!r} contains blanks, backslashes or characters that cannot be seen")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise HostError(f"{url!r} is no URL: {error}") from error
    if parts.scheme not in ("http", "https") or not host:
        raise HostError(f"{url!r} is no http or https URL with a host")
    return normal_host(host)


def normal_host(host: str) -> str:
    """Return a host as it is compared: lower case, no final dot, no port, IDNA, addresses in their usual form.

    Raises:
        HostError: When it is no host, or an address in an unusual form; `meant` is the address then.
    """
    host = re.sub(r"^([^:]+|\[[^\]]*\]):[0-9]{1,5}\Z", r"\1", host)
    text = host.strip("[]") if host.startswith("[") and host.endswith("]") else host
    text = text.lower().removesuffix(".")
    address = _address(text)
    if address is not None:
        if address != text:
            raise HostError(f"{host!r} is an unusual form of the address {address}", address)
        return address
    labels = [_label(label, host) for label in text.split(".")]
    name = ".".join(labels)
    if len(name) > 253:
        raise HostError(f"{host[:60]!r}… is longer than a host's name can be")
    return name


def is_address(host: str) -> bool:
    """Return whether a host is an address and not a name."""
    return _address(normal_host(host)) is not None


def _label(label: str, host: str) -> str:
    if not label.isascii():
        odd = any(unicodedata.category(character)[0] not in "LMN" and character != "-" for character in label)
        if odd or _DEVIATIONS & set(label) or unicodedata.normalize("NFKC", label) != label:
            raise HostError(f"{host!r} contains characters that programs read in different ways")
        label = "xn--" + label.encode("punycode").decode("ascii")
    if not _LABEL.fullmatch(label):
        raise HostError(f"{host!r} is not the name of a host")
    return label


def _address(text: str) -> str | None:
    """Return an address in its usual form, or None when the text is a name."""
    from ipaddress import AddressValueError, IPv4Address, IPv6Address

    if ":" in text:
        try:
            # A zone only says through which interface.
            address = IPv6Address(text.partition("%")[0])
        except AddressValueError as error:
            raise HostError(f"{text!r} is not an address: {error}") from error
        if "%" in text:
            raise HostError(f"{text!r} has a zone", str(address))
        return str(address.ipv4_mapped or address)
    numbers = text.split(".")
    if not _NUMBER.fullmatch(numbers[-1]):
        return None
    # Whatever ends in a number is an address to the C library, or an error.
    try:
        values = [_number(number) for number in numbers]
        *high, low = values
        if len(values) > 4 or any(value > 255 for value in high) or low >= 256 ** (5 - len(values)):
            raise ValueError("out of range")
    except ValueError as error:
        raise HostError(f"{text!r} is neither a name nor an address: {error}") from error
    total = low + sum(value << (24 - 8 * index) for index, value in enumerate(high))
    return str(IPv4Address(total))


def _number(text: str) -> int:
    if not _NUMBER.fullmatch(text) or len(text) > 20:
        raise ValueError("a number too large, or none")
    if text.startswith("0x"):
        return int(text[2:] or "0", 16)
    return int(text, 8) if len(text) > 1 and text.startswith("0") else int(text, 10)

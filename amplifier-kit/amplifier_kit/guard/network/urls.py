"""URLs of requests: parsed once, strictly, and rebuilt from the result; and the proxy that an environment names."""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import quote, urljoin

from amplifier_kit.guard.invisible_characters import INVISIBLE
from amplifier_kit.guard.network.hosts import Endpoint, MalformedError, bracketed, canonical_host, parse_authority

_PORTS: Final = {"http": 80, "https": 443}
_URL: Final = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<authority>[^/?#]*)(?P<rest>[^#]*)", re.IGNORECASE)
#: Characters that programs drop, or read as others: no URL contains them.
_FORBIDDEN: Final = re.compile(r"[\x00-\x20\x7f-\xa0\\]")
#: What may stand in a path or query as it is; `%` is left alone, as escapes are there already.
_KEPT: Final = "!$&'()*+,-./:;=?@_~%[]"
_LONGEST: Final = 8192
_ODD_CHARACTERS: Final = "invalid URL: it has blanks, backslashes or control characters"


class Target(NamedTuple):
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
        if _FORBIDDEN.search(location):
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
    if _FORBIDDEN.search(text):
        raise MalformedError(_ODD_CHARACTERS)
    match = _URL.match(text)
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

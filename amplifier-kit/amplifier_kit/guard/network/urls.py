"""URLs as requests name them: read once, strictly, and written anew from what was read."""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from urllib.parse import quote, urljoin

from amplifier_kit.guard.network.hosts import Endpoint, MalformedError, bracketed, parse_authority

_PORTS: Final = {"http": 80, "https": 443}
_URL: Final = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<authority>[^/?#]*)(?P<rest>[^#]*)", re.IGNORECASE)
#: Characters that programs drop, or read as others: no URL contains them.
_FORBIDDEN: Final = re.compile(r"[\x00-\x20\x7f-\xa0\\]")
#: What may stand in a path or query as it is; `%` is left alone, as escapes are there already.
_KEPT: Final = "!$&'()*+,-./:;=?@_~%[]"
_LONGEST: Final = 8192


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
            raise MalformedError("has characters that programs read differently")
        try:
            return parse_url(urljoin(str(self), location))
        except MalformedError:
            raise
        except ValueError as error:
            raise MalformedError("is not a URL") from error


def parse_url(text: str) -> Target:
    """Return what an http or https URL asks for; raise MalformedError for all that has several readings.

    Refused are user names, backslashes, blanks and control characters, odd ports, and addresses in other forms than
    the usual. A fragment is dropped.
    """
    if len(text) > _LONGEST:
        raise MalformedError(f"is longer than {_LONGEST} characters")
    if _FORBIDDEN.search(text):
        raise MalformedError("has characters that programs read differently")
    match = _URL.match(text)
    if match is None:
        raise MalformedError("is not a URL: it starts with http:// or https://")
    scheme = match["scheme"].lower()
    if scheme not in _PORTS:
        raise MalformedError(f"is of the scheme {scheme!r}: only http and https are fetched")
    if not match["authority"]:
        raise MalformedError("names no host")
    endpoint = parse_authority(match["authority"], _PORTS[scheme])
    rest = match["rest"]
    try:
        path = quote(rest if rest.startswith("/") else f"/{rest}", safe=_KEPT)
    except UnicodeEncodeError:
        raise MalformedError("has characters that programs read differently") from None
    return Target(scheme, endpoint, path)

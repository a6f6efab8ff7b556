"""What a universe may reach: hosts named exactly, nothing by pattern."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.services.endpoints import MalformedError, parse_authority

#: What an entry without a port means.
WEB_PORTS: Final = (80, 443)


class AllowList:
    """Answers whether a host and port are among the entries: `host` (ports 80 and 443) or `host:port`.

    Raises TwinError `allow_invalid` for an entry that is anything else: a pattern, an address in an odd form, a URL.
    """

    def __init__(self, entries: Sequence[str]) -> None:
        self._endpoints = frozenset(endpoint for entry in entries for endpoint in _endpoints(entry))

    def allows(self, host: str, port: int) -> bool:
        """Tell whether an endpoint, its host in its one form, may be reached."""
        return (host, port) in self._endpoints


def _endpoints(entry: str) -> list[tuple[str, int]]:
    try:
        text = entry.strip().encode("ascii" if entry.isascii() else "idna").decode("ascii")
        first = parse_authority(text, WEB_PORTS[0])
        second = parse_authority(text, WEB_PORTS[1])
    except (MalformedError, UnicodeError) as error:
        why = str(error) if isinstance(error, MalformedError) else "is not a host name"
        raise TwinError(
            "allow_invalid",
            f"network.allow: {entry!r} {why}",
            "write an exact host name, host:port, @package-index or @apt; patterns and URLs are not taken",
        ) from error
    return [(first.host, first.port), (second.host, second.port)]

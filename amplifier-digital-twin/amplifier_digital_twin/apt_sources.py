"""Where the host gets its Debian packages from, read from its own apt sources (both ways of writing them)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit, urlunsplit

#: Releases a base system can be made of, by the number that profiles use.
RELEASES: Final = {"11": "bullseye", "12": "bookworm", "13": "trixie"}
#: Suites that show an entry to be Debian's own archive, whatever host the mirror has.
_SUITES: Final = frozenset({*RELEASES.values(), "stable", "oldstable", "testing", "unstable", "sid", "forky"})
_APT: Final = Path("/etc/apt")


class AptSource(NamedTuple):
    """One address that packages come from, and the suites taken from it."""

    uri: str
    suites: tuple[str, ...]


class Mirror(NamedTuple):
    """The two addresses of a Debian mirror; None where the host has no such source."""

    archive: str | None
    security: str | None

    def hosts(self) -> tuple[str, ...]:
        """Name the hosts, with a port where it is not the usual one, each once."""
        return tuple(dict.fromkeys(host for uri in (self.archive, self.security) if uri and (host := _host(uri))))

    def lines(self, suite: str, *, with_credentials: bool) -> str:
        """Write the sources of a release in one-line form; empty when there is no archive."""
        if self.archive is None:
            return ""
        places = [(self.archive, suite), (self.archive, f"{suite}-updates")]
        if self.security is not None:
            places.append((self.security, f"{suite}-security"))
        return "".join(f"deb {uri if with_credentials else without_credentials(uri)} {at} main\n" for uri, at in places)


def apt_sources(folder: Path = _APT) -> list[AptSource]:
    """Return the sources of binary packages that are switched on; raises OSError for a file that cannot be read."""
    found: list[AptSource] = []
    single = folder / "sources.list"
    parts = folder / "sources.list.d"
    files = [single] if single.is_file() else []
    files += sorted(parts.iterdir()) if parts.is_dir() else []
    for file in files:
        if file.suffix not in (".list", ".sources") or not file.is_file():
            continue
        text = file.read_text(encoding="utf-8-sig", errors="replace")
        found += _stanzas(text) if file.suffix == ".sources" else _lines(text)
    return found


def debian_mirror(sources: Sequence[AptSource]) -> Mirror:
    """Pick Debian's own archive and its security archive out of the host's sources; the first of each counts."""
    archive = security = None
    for source in sources:
        if urlsplit(source.uri).scheme not in ("http", "https"):
            continue  # a disc, a folder or ssh: nothing that the inside of a universe could ask for
        for suite in source.suites:
            release = suite.split("-")[0].split("/")[0]
            if release not in _SUITES:
                continue
            if suite.endswith(("-security", "/updates")):
                security = security or source.uri
            elif suite in (release, f"{release}-updates"):
                archive = archive or source.uri
    return Mirror(archive, security)


def without_credentials(uri: str) -> str:
    """Return an address without the name and password in it."""
    parts = urlsplit(uri)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def has_credentials(uri: str) -> bool:
    """Tell whether an address carries a name or password."""
    return "@" in urlsplit(uri).netloc


def _host(uri: str) -> str:
    parts = urlsplit(uri)
    usual = {"http": 80, "https": 443}.get(parts.scheme)
    name = parts.hostname or ""
    return name if parts.port in (None, usual) else f"{name}:{parts.port}"


def _lines(text: str) -> Iterator[AptSource]:
    """Read `deb [options] uri suite components`."""
    for line in text.splitlines():
        match = re.match(r"\s*deb\s+(?:\[[^\]]*\]\s*)?(\S+)\s+(\S+)", line)
        if match:
            yield AptSource(match[1], (match[2],))


def _stanzas(text: str) -> Iterator[AptSource]:
    """Read the `Types: / URIs: / Suites:` form: stanzas parted by empty lines, values continued by indentation."""
    kept = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    for stanza in re.split(r"\n[ \t]*\n", kept):
        fields: dict[str, str] = {}
        key = ""
        for line in stanza.splitlines():
            if line[:1] in (" ", "\t") and key:
                fields[key] += " " + line.strip()
            elif ":" in line:
                name, _, value = line.partition(":")
                key = name.strip().lower()
                fields[key] = value.strip()
        if "deb" in fields.get("types", "").split() and fields.get("enabled", "yes").lower() not in _OFF:
            suites = tuple(fields.get("suites", "").split())
            for uri in fields.get("uris", "").split():
                yield AptSource(uri, suites)


_OFF: Final = frozenset({"no", "false", "without", "off", "disable", "0"})

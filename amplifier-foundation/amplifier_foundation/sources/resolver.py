"""Resolve any address to a folder on this machine, with handlers that an app may add."""

from __future__ import annotations

from pathlib import Path

from amplifier_foundation.paths import Home
from amplifier_foundation.paths.resolution import ParsedURI, ResolvedSource, parse_uri
from amplifier_foundation.sources.protocol import SourceHandlerProtocol

__all__ = ["SimpleSourceResolver"]


class SimpleSourceResolver:
    """Resolve files, repositories, archives, downloads and installed packages; an app's own handlers are asked first.

    What is fetched is kept in `cache_dir`, else in the user's cache; relative paths start at `base_path`, else the
    current folder.
    """

    def __init__(self, cache_dir: Path | None = None, base_path: Path | None = None) -> None:
        self.cache_dir = Path(cache_dir) if cache_dir is not None else Home.find().cache
        self.base_path = Path(base_path) if base_path is not None else Path.cwd()
        self._handlers: list[SourceHandlerProtocol] = []

    def add_handler(self, handler: SourceHandlerProtocol) -> None:
        """Ask this handler before all others."""
        self._handlers.insert(0, handler)

    async def resolve(self, uri: str) -> ResolvedSource:
        """Return the part of a source that is meant, fetched if it is not cached; raises SourceError."""
        parsed = parse_uri(uri)
        for handler in self._handlers:
            if handler.can_handle(parsed):
                return await handler.resolve(parsed, self.cache_dir)
        return await fetch_parsed(parsed, self.cache_dir, base=self.base_path)


async def fetch_parsed(
    parsed: ParsedURI, cache_dir: Path, *, base: Path | None = None, refresh: bool = False
) -> ResolvedSource:
    """Fetch an address into a cache, again if `refresh`; raises SourceError."""
    from amplifier_foundation.sources.fetcher import Fetcher

    cache_dir = Path(cache_dir)
    fetcher = Fetcher(Home(cache_dir.parent, cache_dir), refresh=refresh)
    fetched = await fetcher.fetch(text_of(parsed), base=base)
    return ResolvedSource(fetched.path, fetched.root)


def text_of(parsed: ParsedURI) -> str:
    """Return an address as users write it."""
    part = f"#subdirectory={parsed.subpath}" if parsed.subpath else ""
    if parsed.is_package:
        return f"{parsed.path}/{parsed.subpath}" if parsed.subpath else parsed.path
    if parsed.is_file:
        return f"file://{parsed.path}{part}" if part else parsed.path
    ref = f"@{parsed.ref}" if parsed.ref else ""
    return f"{parsed.scheme}://{parsed.host}{parsed.path}{ref}{part}"

"""Sources as published apps resolve them, with handlers of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation import (
    SimpleSourceResolver,
    SourceHandlerProtocol,
    SourceHandlerWithStatusProtocol,
    SourceResolverProtocol,
    parse_uri,
)
from amplifier_foundation.paths.resolution import ParsedURI, ResolvedSource
from amplifier_foundation.sources.fetched import SourceError
from amplifier_foundation.sources.git import GitSourceHandler
from amplifier_foundation.sources.resolver import text_of


@pytest.mark.parametrize(
    "text",
    [
        "git+https://example.com/org/repo@v1#subdirectory=a/b",
        "git+ssh://git@example.com/org/repo@main",
        "zip+https://example.com/a.zip#subdirectory=x",
        "https://example.com/bundle.md",
        "/abs/path",
        "./relative",
        "file:///abs#subdirectory=x",
        "package",
        "package/sub/path",
    ],
)
def test_addresses_can_be_written_again(text: str) -> None:
    """What `parse_uri` takes apart can be put together to the same address."""
    assert text_of(parse_uri(text)) == text


async def test_paths_start_at_the_base(app_home: Path, tmp_path: Path) -> None:
    """Relative paths are below the base path, and the part that is meant is told apart from its source."""
    (tmp_path / "there" / "part").mkdir(parents=True)
    resolver = SimpleSourceResolver(base_path=tmp_path)
    assert isinstance(resolver, SourceResolverProtocol)
    assert (await resolver.resolve("./there")).active_path == tmp_path / "there"
    found = await resolver.resolve(f"file://{tmp_path}/there#subdirectory=part")
    assert (found.active_path, found.source_root) == (tmp_path / "there" / "part", tmp_path / "there")
    assert found.is_subdirectory
    with pytest.raises(SourceError):
        await resolver.resolve("./gone")


async def test_handlers_of_the_app_are_asked_first(app_home: Path, tmp_path: Path) -> None:
    """The handler that was added last decides first; one that cannot handle an address leaves it to the others."""

    class Shelf:
        def __init__(self, folder: Path, scheme: str) -> None:
            self.folder, self.scheme = folder, scheme

        def can_handle(self, parsed: ParsedURI) -> bool:
            return parsed.scheme == self.scheme

        async def resolve(self, parsed: ParsedURI, cache_dir: Path) -> ResolvedSource:
            assert cache_dir == tmp_path / "cache"
            return ResolvedSource(self.folder, self.folder)

    first, last = Shelf(tmp_path / "first", "file"), Shelf(tmp_path / "last", "https")
    assert isinstance(first, SourceHandlerProtocol)
    assert not isinstance(first, SourceHandlerWithStatusProtocol)
    resolver = SimpleSourceResolver(tmp_path / "cache", tmp_path)
    resolver.add_handler(first)
    resolver.add_handler(last)
    assert (await resolver.resolve("/x")).active_path == tmp_path / "first"
    assert (await resolver.resolve("https://example.com/x.md")).active_path == tmp_path / "last"
    resolver.add_handler(Shelf(tmp_path / "newest", "file"))
    assert (await resolver.resolve("/x")).active_path == tmp_path / "newest"


async def test_repositories_are_resolved_checked_and_updated(app_home: Path, upstream: Any, tmp_path: Path) -> None:
    """The handler of repositories fetches into the cache it is given, and knows what is newer."""
    first = upstream.commit({"bundle.md": "One.\n"})
    handler, parsed, cache = GitSourceHandler(), parse_uri(upstream.uri), tmp_path / "cache"
    assert isinstance(handler, SourceHandlerWithStatusProtocol)
    assert handler.can_handle(parsed)
    assert not handler.can_handle(parse_uri("/x"))
    assert not (await handler.get_status(parsed, cache)).is_cached
    found = await handler.resolve(parsed, cache)
    assert (found.active_path / "bundle.md").read_text() == "One.\n"
    second = upstream.commit({"bundle.md": "Two.\n"})
    status = await handler.get_status(parsed, cache)
    assert (status.cached_commit, status.remote_commit, status.has_update) == (first, second, True)
    updated = await handler.update(parsed, cache)
    assert (updated.active_path / "bundle.md").read_text() == "Two.\n"
    assert (await handler.get_status(parsed, cache)).has_update is False

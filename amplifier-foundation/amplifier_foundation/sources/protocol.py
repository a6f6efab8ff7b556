"""What apps that bring sources of their own implement, and what is known of a source, as published."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

if TYPE_CHECKING:
    from amplifier_foundation.paths.resolution import ParsedURI, ResolvedSource

__all__ = [
    "SourceHandlerProtocol",
    "SourceHandlerWithStatusProtocol",
    "SourceResolverProtocol",
    "SourceStatus",
]

#: A commit, or a tag with a number in it: what does not move.
_PINNED: Final = re.compile(r"[0-9a-f]{40}|v.*\d.*")


@dataclass
class SourceStatus:
    """What the cache has of a source, and what its server has now."""

    source_uri: str
    is_cached: bool
    cached_at: str | None = None
    cached_ref: str | None = None
    cached_commit: str | None = None
    remote_ref: str | None = None
    remote_commit: str | None = None
    #: None when it is unknown: not cached, not a repository, or the server did not answer.
    has_update: bool | None = None
    error: str | None = None
    summary: str = ""

    @property
    def is_pinned(self) -> bool:
        """Return whether the source names a commit or a version, which does not change."""
        return bool(_PINNED.fullmatch(self.cached_ref or self.remote_ref or ""))


@runtime_checkable
class SourceHandlerProtocol(Protocol):
    """Brings one kind of source to this machine."""

    def can_handle(self, parsed: ParsedURI) -> bool:
        """Return whether this handler is for an address."""

    async def resolve(self, parsed: ParsedURI, cache_dir: Path) -> ResolvedSource:
        """Return where the source is on this machine, fetched into `cache_dir` if need be."""


@runtime_checkable
class SourceHandlerWithStatusProtocol(SourceHandlerProtocol, Protocol):
    """Can also say whether a source has changed, and fetch it again."""

    async def get_status(self, parsed: ParsedURI, cache_dir: Path) -> SourceStatus:
        """Return what is cached and what is new."""

    async def update(self, parsed: ParsedURI, cache_dir: Path) -> ResolvedSource:
        """Fetch the source again."""


@runtime_checkable
class SourceResolverProtocol(Protocol):
    """Brings any source to this machine."""

    async def resolve(self, uri: str) -> ResolvedSource:
        """Return where the source is on this machine."""

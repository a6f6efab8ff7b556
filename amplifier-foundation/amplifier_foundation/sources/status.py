"""Compare what the cache has of a source with what its server has now."""

from __future__ import annotations

import os
from pathlib import Path

from amplifier_foundation.paths import Home
from amplifier_foundation.sources.protocol import SourceStatus


async def source_status(uri: str, cache_dir: Path) -> SourceStatus:
    """Return what is cached of a source and whether there is something newer; nothing is fetched or raised.

    Only servers of repositories are asked, and only for a ref that may move.
    """
    from amplifier_foundation.sources.fetched import SourceError
    from amplifier_foundation.sources.fetcher import Fetcher
    from amplifier_foundation.sources.git import newest_commit
    from amplifier_foundation.sources.uri import parse_source

    try:
        source = parse_source(uri)
        if source.kind in ("file", "package"):
            return SourceStatus(uri, True, summary="on this machine")
        cache_dir = Path(cache_dir)
        copy = await Fetcher(Home(cache_dir.parent, cache_dir)).cached(source)
    except SourceError as error:
        return SourceStatus(uri, False, error=str(error), summary="cannot be checked")
    status = SourceStatus(uri, copy is not None)
    if copy is not None:
        status.cached_at = copy.cached_at or None
        status.cached_ref = copy.origin.ref or None
        status.cached_commit = copy.origin.commit
    if source.kind != "git":
        status.summary = "only fetching it again can tell whether it changed"
        return status
    status.remote_ref = source.ref
    if status.is_pinned:
        status.has_update, status.summary = False, f"pinned to {source.ref}"
        return status
    status.remote_commit, status.error = await newest_commit(source, os.environ)
    if status.error is not None:
        status.summary = "cannot be checked"
    elif copy is None:
        status.summary = "not cached"
    else:
        status.has_update = status.remote_commit != status.cached_commit
        status.summary = "update available" if status.has_update else "up to date"
    return status

"""See whether the sources of a bundle have changed, and fetch them again, by the names that published apps import."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from amplifier_foundation.paths import Home
from amplifier_foundation.sources.protocol import SourceStatus

if TYPE_CHECKING:
    from amplifier_foundation.bundle import Bundle

__all__ = ["BundleStatus", "SourceStatus", "check_bundle_status", "update_bundle"]


@dataclass
class BundleStatus:
    """The state of everything that a bundle is fetched from."""

    bundle_name: str
    bundle_source: str | None = None
    sources: list[SourceStatus] = field(default_factory=list)

    @property
    def has_updates(self) -> bool:
        """Return whether something is newer than the cache."""
        return bool(self.updateable_sources)

    @property
    def updateable_sources(self) -> list[SourceStatus]:
        """Return the sources that have something newer."""
        return [one for one in self.sources if one.has_update is True]

    @property
    def up_to_date_sources(self) -> list[SourceStatus]:
        """Return the sources that have nothing newer."""
        return [one for one in self.sources if one.has_update is False]

    @property
    def unknown_sources(self) -> list[SourceStatus]:
        """Return the sources of which it is unknown."""
        return [one for one in self.sources if one.has_update is None]

    @property
    def summary(self) -> str:
        """Return the state in one line."""
        newer, current, unknown = self.updateable_sources, self.up_to_date_sources, self.unknown_sources
        parts = [f"{len(newer)} can be updated"] if newer else []
        parts += [f"{len(current)} up to date"] if current else []
        parts += [f"{len(unknown)} unknown"] if unknown else []
        return f"{self.bundle_name}: {', '.join(parts) or 'no sources'}"


async def check_bundle_status(bundle: Bundle, cache_dir: Path | None = None) -> BundleStatus:
    """Return the state of the sources of a bundle: its own, its modules', and those of what it includes.

    Servers are asked, all at once; nothing is fetched. What cannot be checked has an `error`.
    """
    import asyncio

    from amplifier_foundation.sources.status import source_status

    cache = _cache(cache_dir)
    sources = bundle_sources(bundle)
    states = await asyncio.gather(*(source_status(uri, cache) for uri in sources))
    uri = bundle._loaded.uri if bundle._loaded is not None else ""
    return BundleStatus(bundle.name, uri or None, list(states))


async def update_bundle(
    bundle: Bundle,
    cache_dir: Path | None = None,
    selective: Collection[str] | None = None,
    install_deps: bool = True,
) -> BundleStatus:
    """Fetch the sources that have something newer again, and install what their modules need; return the new state.

    `selective` are the only addresses to fetch; these are fetched whether something is newer or not. Raises
    SourceError and ModuleActivationError.
    """
    from amplifier_foundation.modules import ModuleActivator
    from amplifier_foundation.sources.fetcher import Fetcher

    cache = _cache(cache_dir)
    if selective is None:
        status = await check_bundle_status(bundle, cache)
        wanted = [one.source_uri for one in status.updateable_sources]
    else:
        wanted = [uri for uri in bundle_sources(bundle) if uri in selective]
    fetcher = Fetcher(Home(cache.parent, cache), refresh=True)
    for uri in wanted:
        await fetcher.fetch(uri, base=bundle.base_path)
    modules = [entry for entry in _modules(bundle) if entry["source"] in wanted]
    if install_deps and modules:
        await ModuleActivator(cache, base_path=bundle.base_path).activate_all(modules, strict=True)
    return await check_bundle_status(bundle, cache)


def bundle_sources(bundle: Bundle) -> list[str]:
    """Return every address that a bundle is fetched from, each once: paths and installed packages are none."""
    from amplifier_foundation.sources.fetched import SourceError
    from amplifier_foundation.sources.uri import parse_source

    loaded = bundle._loaded
    named = [loaded.uri, *loaded.sources] if loaded is not None else []
    named += [entry["source"] for entry in _modules(bundle)]
    found = []
    for uri in dict.fromkeys(named):
        try:
            if uri and parse_source(uri).kind in ("git", "zip", "http"):
                found.append(uri)
        except SourceError:
            found.append(uri)  # its status says what is wrong with it
    return found


def _modules(bundle: Bundle) -> list[dict[str, str]]:
    from amplifier_foundation.bundles.plan_modules import all_modules

    entries = all_modules(bundle.to_mount_plan())
    return [{"module": one.module, "source": one.source} for one in entries if one.source is not None]


def _cache(cache_dir: Path | None) -> Path:
    return Path(cache_dir) if cache_dir is not None else Home.find().cache

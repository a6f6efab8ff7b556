"""Find and write the locks of a bundle: its own, and the user's lock for what settings add in one project.

The lock beside a bundle of a project travels with the project. It holds what the bundle's files name. What settings and
the bundles of `bundle.app` add is in a lock in the user's home, one for each bundle and project: people who share the
bundle do not share it, and a file that others can write must not decide which state of a source is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amplifier_foundation.bundles.plan_modules import all_modules
from amplifier_foundation.bundles.shipped import shipped_uri
from amplifier_foundation.paths import Home
from amplifier_foundation.plan.composed import PinRecord
from amplifier_foundation.plan.lock_file import BundleLock, LockError, find_lock, lock_path
from amplifier_foundation.sources.fetched import Pin
from amplifier_foundation.sources.uri import without_secrets
from amplifier_foundation.trust.check import ModuleUse, ValueUse
from amplifier_kit.struct import FrozenStruct

if TYPE_CHECKING:
    from amplifier_foundation.bundles.bundle import Bundle
    from amplifier_foundation.sources.fetcher import Fetcher


class KnownPins(FrozenStruct):
    """The locks that earlier runs have written."""

    own: BundleLock | None = None
    added: BundleLock | None = None

    @property
    def pins(self) -> dict[str, Pin]:
        """Return all pins; those in the user's home win, because no other user can write them."""
        return {**_sources(self.own), **_sources(self.added)}

    def chosen_by_project(self, added: Iterable[str], home: Home) -> list[ValueUse]:
        """Return the sources that settings add and that only a lock of the project pins.

        A commit of a fork can be had at the address of the original: who chooses the commit chooses the code.
        """
        own, known = self.own, _sources(self.added)
        if own is None or own.path.parent == home.locks:
            return []
        return [ValueUse("pin", uri, str(own.path)) for uri in sorted(added) if uri in own.sources and uri not in known]


class LockPaths(FrozenStruct):
    """The paths of a bundle's locks."""

    own: Path
    added: Path

    @classmethod
    def of(cls, bundle: Bundle, home: Home, project: Path) -> LockPaths:
        """Return the paths for a bundle that was read."""
        uri = shipped_uri(bundle.uri)
        own = lock_path(bundle.file, bundle.name, uri, home, project)
        return cls(own, lock_path(None, bundle.name, _here(uri, project), home, project))

    def write(self, name: str, pins: Mapping[str, PinRecord], added: Iterable[str], *, keep: bool) -> list[str]:
        """Record what was fetched, and return warnings for the user, such as a lock that cannot be written.

        With `keep`, unused pins stay: a run that may skip missing sources cannot know that they are obsolete.
        """
        usable = {without_secrets(uri): Pin(pin["commit"], pin["sha256"]) for uri, pin in pins.items() if pin["sha256"]}
        others = {*added}
        warnings = []
        for path, part in (
            (self.own, {uri: pin for uri, pin in usable.items() if uri not in others}),
            (self.added, {uri: pin for uri, pin in usable.items() if uri in others}),
        ):
            try:
                known = BundleLock.read(path) if keep else None
                BundleLock(path, name, {**_sources(known), **part}).write()
            except LockError as error:
                warnings.append(f"{error}; what was fetched is not pinned")
        return warnings


def known_pins(file: Path | None, uri: str, home: Home, project: Path) -> KnownPins:
    """Return the locks that a bundle has from earlier, found before it is read; raises LockError."""
    uri = shipped_uri(uri)
    own, added = find_lock(file, uri, home, project), find_lock(None, _here(uri, project), home, project)
    return KnownPins(
        BundleLock.read(own) if own is not None else None, BundleLock.read(added) if added is not None else None
    )


def added_sources(bundle: Bundle, agents: Mapping[str, Any], used: Iterable[str]) -> set[str]:
    """Return those of the used sources that no file of the bundle names, as locks name them: without passwords.

    `agents` are the definitions of all agents.
    """
    defined = {name: agents[name] for name in bundle.agents if name in agents}
    entries = all_modules({**bundle.mount_plan(), "agents": defined})
    own = {_address(entry.source) for entry in entries if entry.source is not None}
    own |= {_address(layer.uri) for layer in bundle.layers}
    return {without_secrets(uri) for uri in used if _address(uri) not in own}


def used_pins(known: KnownPins, fetcher: Fetcher, uses: Iterable[ModuleUse]) -> dict[str, PinRecord]:
    """Return the known states of the sources that a bundle uses: fetched now, or named by a lock."""
    wanted = {without_secrets(use.source) for use in uses}
    locked = {uri: PinRecord(commit=pin.commit, sha256=pin.sha256) for uri, pin in known.pins.items() if uri in wanted}
    return locked | fetched_pins(fetcher)


def fetched_pins(fetcher: Fetcher) -> dict[str, PinRecord]:
    """Return commit and content of everything that was fetched; a lock holds no password."""
    return {
        without_secrets(uri): PinRecord(commit=fetched.commit, sha256=fetched.sha256)
        for uri, fetched in fetcher.fetched.items()
    }


def _sources(lock: BundleLock | None) -> dict[str, Pin]:
    return lock.sources if lock is not None else {}


def _here(uri: str, project: Path) -> str:
    """Return the key that identifies the additions to a bundle in one project."""
    return f"{uri}\n{project.resolve()}"


def _address(uri: str) -> str:
    """Return a source without its subdirectory: all parts of a source share one state."""
    return without_secrets(uri).partition("#")[0]

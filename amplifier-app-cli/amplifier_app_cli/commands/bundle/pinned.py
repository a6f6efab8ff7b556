"""Read what the locks of a bundle pin, as one: its own, and the user's for what settings add to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amplifier_foundation.plan.lock_file import BundleLock
    from amplifier_foundation.plan.locks import LockPaths


def read_pinned(locks: LockPaths, name: str) -> BundleLock:
    """Return all pins of a bundle, none when it has no lock; addresses are without passwords. Raises LockError."""
    from amplifier_foundation.plan.lock_file import BundleLock
    from amplifier_foundation.sources.uri import without_secrets

    pins = {}
    for path in (locks.own, locks.added):
        lock = BundleLock.read(path)
        pins.update({} if lock is None else {without_secrets(uri): pin for uri, pin in lock.sources.items()})
    return BundleLock(locks.own, name, pins)

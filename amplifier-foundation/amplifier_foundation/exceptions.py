"""The errors of bundles, by the names that published apps catch."""

from __future__ import annotations

from typing import ClassVar

from amplifier_foundation.bundles.bundle import BundleError, BundleNotFoundError
from amplifier_foundation.bundles.bundle import IncludeError as BundleDependencyError

__all__ = [
    "BundleDependencyError",
    "BundleError",
    "BundleLoadError",
    "BundleNotFoundError",
    "BundleValidationError",
]


class BundleLoadError(BundleError):
    """A bundle exists and cannot be read."""

    code: ClassVar[str] = "bundle_unreadable"


class BundleValidationError(BundleError):
    """A bundle is not of the form that a session needs."""

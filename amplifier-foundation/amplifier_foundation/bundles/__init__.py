"""Bundles: what a session is made of, as text files."""

from amplifier_foundation.bundles.bundle import Bundle, BundleError
from amplifier_foundation.bundles.file import load_bundle_file

__all__ = ["Bundle", "BundleError", "load_bundle_file"]

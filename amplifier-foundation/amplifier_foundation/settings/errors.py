"""The faults of settings and keys; no text of theirs ever holds a secret."""

from __future__ import annotations

from typing import ClassVar

from amplifier_foundation.errors import FoundationError


class SettingsError(FoundationError):
    """A settings file cannot be read, understood or written; the text starts with the file, and its line if known."""

    code: ClassVar[str] = "settings_invalid"


class KeysError(FoundationError):
    """A key cannot be read or kept; the text names the file and line, or the key, and never a value."""

    code: ClassVar[str] = "keys_invalid"

"""Keep keys out of everything that leaves a provider: errors, events, raw payloads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["Scrubber"]

_MASK: Final = "[REDACTED]"
_SHORTEST: Final = 6


class Scrubber:
    """Mask known secrets, and values under secret names."""

    def __init__(self, *secrets: str | None) -> None:
        """Take the secrets; very short ones are skipped, since they would mask ordinary words."""
        self._secrets = [secret for secret in secrets if secret and len(secret) >= _SHORTEST]

    def add(self, secret: str | None) -> None:
        """Add a secret."""
        if secret and len(secret) >= _SHORTEST and secret not in self._secrets:
            self._secrets.append(secret)

    def text(self, text: str) -> str:
        """Return a text without the secrets."""
        for secret in self._secrets:
            text = text.replace(secret, _MASK)
        return text

    def data(self, value: Any) -> Any:
        """Return a copy of a payload without secrets; values that JSON cannot hold become text."""
        from amplifier_core.utils import redact_secrets

        return self._copied(redact_secrets(value))

    def _copied(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(key)): self._copied(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._copied(item) for item in value]
        return value if value is None or isinstance(value, bool | int | float) else self.text(str(value))

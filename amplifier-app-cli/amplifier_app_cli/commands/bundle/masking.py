"""Show values of settings and bundles without the secrets in them."""

from __future__ import annotations

import json
from typing import Any


def safe(key: str, value: Any) -> Any:
    """Return a value as it may be shown under a dotted key: secrets in clear and passwords in addresses are masked."""
    from amplifier_foundation.settings.secrets import masked

    return masked(tuple(key.split(".")), _without_passwords(value))


def safe_text(key: str, value: Any) -> str:
    """Return the same as one line of text."""
    shown = safe(key, value)
    return shown if isinstance(shown, str) and "\n" not in shown else json.dumps(shown, ensure_ascii=False, default=str)


def _without_passwords(value: Any) -> Any:
    from amplifier_foundation.sources.uri import without_secrets

    if isinstance(value, str):
        return without_secrets(value) if "://" in value else value
    if isinstance(value, dict):
        return {key: _without_passwords(item) for key, item in value.items()}
    return [_without_passwords(item) for item in value] if isinstance(value, list) else value

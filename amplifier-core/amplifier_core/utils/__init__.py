"""Small helpers for module authors; each name is imported when first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amplifier_core.utils.retry import RetryConfig, classify_error_message, retry_with_backoff
    from amplifier_core.utils.truncate import SENSITIVE_KEYS, redact_secrets, truncate_values

__all__ = [
    "SENSITIVE_KEYS",
    "RetryConfig",
    "classify_error_message",
    "redact_secrets",
    "retry_with_backoff",
    "truncate_values",
]

_HOMES = {
    "RetryConfig": "retry",
    "classify_error_message": "retry",
    "retry_with_backoff": "retry",
    "SENSITIVE_KEYS": "truncate",
    "redact_secrets": "truncate",
    "truncate_values": "truncate",
}


def __getattr__(name: str) -> Any:
    """Import the submodule that holds `name`, so that redaction alone never pays for asyncio."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

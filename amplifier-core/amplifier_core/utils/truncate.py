"""Shortening and redaction of nested data before it is shown or written."""

from __future__ import annotations

from collections.abc import Container
from typing import Any, Final

from amplifier_core.data import Copy, copy_tree

__all__ = ["SENSITIVE_KEYS", "redact_secrets", "truncate_values"]

#: Keys, in lower case, whose values are secrets. Which keys are is policy; this list is published, and `raw` plans on
#: lifecycle events are masked by it. Apps and the log mask far more (`amplifier_kit.guard.redaction`).
SENSITIVE_KEYS: Final = frozenset(
    {
        "api_key",
        "apikey",
        "api-key",
        "secret",
        "password",
        "token",
        "credential",
        "credentials",
        "private_key",
        "privatekey",
        "auth",
        "authorization",
    }
)

_REDACTED: Final = "[REDACTED]"


def truncate_values(obj: Any, max_length: int = 180) -> Any:
    """Return a copy in which every string longer than `max_length` is cut and says by how much.

    Dicts, lists and tuples are followed to any depth; keys stay whole; a container inside itself becomes `[CIRCULAR]`.
    """
    limit = max(0, max_length)

    def shorten(copy: Copy) -> None:
        for key, value in copy.items() if isinstance(copy, dict) else enumerate(copy):
            if isinstance(value, str) and len(value) > limit:
                copy[key] = f"{value[:limit]}... (truncated {len(value) - limit} chars)"

    return copy_tree(obj, shorten)


def redact_secrets(obj: Any, sensitive_keys: Container[str] = SENSITIVE_KEYS) -> Any:
    """Return a copy in which the value of every sensitive key is `[REDACTED]`.

    A key is sensitive when its lower-case form equals one of `sensitive_keys`, which are given in lower case: a key
    that merely contains one (`input_tokens`) is untouched. Dicts, lists and tuples are followed to any depth; a
    container inside itself becomes `[CIRCULAR]`. Other objects come back as they are, unread.
    """

    def redact(copy: Copy) -> None:
        if isinstance(copy, dict):
            for key in copy:
                if isinstance(key, str) and key.lower() in sensitive_keys:
                    copy[key] = _REDACTED

    return copy_tree(obj, redact)

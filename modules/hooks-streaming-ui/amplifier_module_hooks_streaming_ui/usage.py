"""Format the usage of an answer as a line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from amplifier_kit.engine.usage import as_cost, money

_COUNTS: Final = (
    ("input_tokens", "in"),
    ("cache_read_tokens", "from cache"),
    ("cache_write_tokens", "to cache"),
    ("output_tokens", "out"),
    ("reasoning_tokens", "reasoning"),
)


def usage_text(usage: Any) -> str | None:
    """Return the known numbers, None when there are none; an unknown price is left out, it is not zero."""
    if not isinstance(usage, Mapping):
        return None
    parts = [f"{usage[key]:,} {name}" for key, name in _COUNTS if _is_count(usage.get(key), key)]
    if not parts:
        return None
    cost = _cost(usage.get("cost_usd"))
    return f"tokens: {' · '.join([*parts, cost] if cost else parts)}"


def _is_count(value: Any, key: str) -> bool:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return is_number and (value > 0 or (value == 0 and key in ("input_tokens", "output_tokens")))


def _cost(value: Any) -> str | None:
    cost = as_cost(value)
    return None if cost is None else money(cost)

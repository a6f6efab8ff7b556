"""Estimate how many tokens messages take, without knowing the model's tokenizer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

__all__ = ["CHARACTERS_PER_TOKEN", "estimate_all", "estimate_tokens"]

CHARACTERS_PER_TOKEN: Final = 4


def estimate_tokens(message: Any) -> int:
    """Return about how many tokens one message takes: a quarter of the characters of `str(message)`.

    The time is proportional to the message, so estimate once and keep the number.
    """
    return len(str(message)) // CHARACTERS_PER_TOKEN


def estimate_all(messages: Iterable[Any]) -> int:
    """Return the sum of the estimates of all messages."""
    return sum(map(estimate_tokens, messages))

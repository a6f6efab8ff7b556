"""Estimate how many tokens messages take, without knowing the model's tokenizer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

CHARACTERS_PER_TOKEN: Final = 4
#: The most that models charge for an image of usual size, however many characters encode it.
IMAGE_TOKENS: Final = 1600


def estimate_tokens(message: Any) -> int:
    """Return about how many tokens one message takes: a quarter of the characters of `str(message)`.

    An image counts IMAGE_TOKENS at most: its encoded bytes are not read as text. The time is proportional to the
    message, so estimate once and keep the number.
    """
    content = message.get("content") if isinstance(message, dict) else None
    images = [block for block in content if is_image(block)] if isinstance(content, list) else ()
    if not images:
        return len(str(message)) // CHARACTERS_PER_TOKEN
    rest = {**message, "content": [block for block in content or () if not is_image(block)]}
    pictured = sum(min(len(str(image)) // CHARACTERS_PER_TOKEN, IMAGE_TOKENS) for image in images)
    return len(str(rest)) // CHARACTERS_PER_TOKEN + pictured


def is_image(block: Any) -> bool:
    """Return whether a content block is an image."""
    return isinstance(block, dict) and block.get("type") in ("image", "image_url")


def estimate_all(messages: Iterable[Any]) -> int:
    return sum(map(estimate_tokens, messages))

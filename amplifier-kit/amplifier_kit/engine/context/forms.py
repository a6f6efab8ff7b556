"""Make the shorter forms that messages take in a view; the messages themselves stay as they are."""

from __future__ import annotations

import json
from typing import Any, Final

from amplifier_kit.engine.context.clip import SMALLEST_LIMIT, clip_text
from amplifier_kit.engine.context.intake import Message
from amplifier_kit.engine.tokens import CHARACTERS_PER_TOKEN, estimate_tokens, is_image

__all__ = ["fitted", "stubbed", "text_of", "truncated"]

#: User messages up to this many characters are short enough as they are.
_LONGEST_WHOLE: Final = 80
_KEPT: Final = 50
_TEXT_KEYS: Final = ("text", "output", "content", "thinking")


def text_of(content: Any) -> str:
    """Return a content as one text; images are only named, other blocks without text give their JSON."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(map(_block_text, content))
    return "" if content is None else str(content)


def truncated(message: Message, characters: int, tokens: int) -> Message:
    """Return a tool result with the first `characters` of its text, marked as truncated from `tokens` tokens."""
    text = text_of(message["content"])
    note = f"... [truncated: {min(characters, len(text))} of {len(text)} characters, about {tokens} tokens before]"
    return {**message, "content": text[:characters] + note, "_truncated": True, "_original_tokens": tokens}


def fitted(message: Message, tokens: int, original: int, shortest: int) -> Message:
    """Return a tool result cut to about `tokens` tokens, keeping its beginning and its end.

    `original` is what it took before; when not even `shortest` characters would fit, those are kept all the same.
    """
    text = text_of(message["content"])
    room = tokens * CHARACTERS_PER_TOKEN
    while room > max(shortest, SMALLEST_LIMIT):
        form = {**message, "content": clip_text(text, room), "_truncated": True, "_original_tokens": original}
        if estimate_tokens(form) <= tokens:
            return form
        room = room * 3 // 4  # escapes and metadata count too: try again with less
    return truncated(message, shortest, original)


def stubbed(message: Message) -> Message | None:
    """Return a user message with its first words only and without images, or None when it is short anyway."""
    content = message["content"]
    text = text_of(content)
    if len(text) > _LONGEST_WHOLE:
        stub = f"{text[:_KEPT]}... [shortened from {len(text)} characters]"
    elif isinstance(content, list) and any(map(is_image, content)):
        stub = text
    else:
        return None
    return {**message, "content": stub, "_stubbed": True, "_original_length": len(text)}


def _block_text(block: Any) -> str:
    if isinstance(block, str):
        return block
    if is_image(block):
        return "[image]"
    if isinstance(block, dict):
        for key in _TEXT_KEYS:
            if isinstance(text := block.get(key), str):
                return text
    return json.dumps(block, ensure_ascii=False, default=str)

"""Shorten texts and messages for the ledger and for views; the originals are not changed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from amplifier_kit.engine.tokens import CHARACTERS_PER_TOKEN, estimate_tokens, is_image

if TYPE_CHECKING:
    from amplifier_kit.engine.context.messages import Message

__all__ = ["SMALLEST_LIMIT", "clip_content", "clip_text", "fitted", "stubbed", "text_of", "truncated"]

#: Below this many bytes a clipped text would be hardly more than its own marker.
SMALLEST_LIMIT: Final = 256

#: Where a block of a message keeps its text, by the block's type.
_BLOCK_TEXT_KEYS: Final = {"text": ("text",), "tool_result": ("output", "content")}


def clip_text(text: str, limit: int) -> str:
    """Return `text`, or its beginning and end with a marker between them, in at most `limit` UTF-8 bytes.

    The marker states the original size. `limit` is at least SMALLEST_LIMIT.
    """
    if len(text) * 4 <= limit:  # no character takes more than four bytes
        return text
    data = text.encode()
    if len(data) <= limit:
        return text
    marker, head, tail = _cut(len(data), limit)
    return f"{_text(data[:head])}{marker}{_text(data[-tail:])}"


def clip_content(content: Any, limit: int) -> Any:
    """Return a message's content with at most `limit` bytes of direct text; other content comes back as it is.

    The texts of several blocks count as one long text. Blocks that lie in its middle are left out, blocks without text
    stay. A content that is short enough is returned itself.
    """
    if isinstance(content, str):
        return clip_text(content, limit)
    if not isinstance(content, list):
        return content
    texts = [_text_of(block).encode() for block in content]
    size = sum(map(len, texts))
    return content if size <= limit else _clip_blocks(content, texts, size, limit)


def _clip_blocks(blocks: list[Any], texts: list[bytes], size: int, limit: int) -> list[Any]:
    marker, head, tail = _cut(size, limit)
    resume = size - tail
    clipped: list[Any] = []
    start = 0
    for block, data in zip(blocks, texts, strict=True):
        end = start + len(data)
        if not data or end <= head or start >= resume:
            clipped.append(block)
        else:
            before = _text(data[: max(head - start, 0)])
            between = marker if start <= head else ""
            after = _text(data[resume - start :]) if end > resume else ""
            if kept := f"{before}{between}{after}":
                clipped.append(_with_text(block, kept))
        start = end
    return clipped


def _cut(size: int, limit: int) -> tuple[str, int, int]:
    """Return the marker for a text of `size` bytes and how many bytes stay before and after it."""
    marker = f"\n\n[... clipped: the whole result has {size} bytes, {limit} are kept ...]\n\n"
    room = limit - len(marker)
    return marker, room - room // 2, room // 2


def _text(data: bytes) -> str:
    return data.decode(errors="ignore")  # a character that the cut splits is dropped


def _text_key(block: Any) -> str | None:
    if not isinstance(block, dict):
        return None
    keys = _BLOCK_TEXT_KEYS.get(str(block.get("type")), ())
    return next((key for key in keys if isinstance(block.get(key), str)), None)


def _text_of(block: Any) -> str:
    if isinstance(block, str):
        return block
    key = _text_key(block)
    return block[key] if key is not None else ""


def _with_text(block: Any, text: str) -> Any:
    key = _text_key(block)
    return text if key is None else {**block, key: text}


# -- messages of a view --

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

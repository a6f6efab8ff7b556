"""Shorten texts and messages for the ledger and for views; the originals are not changed."""

from __future__ import annotations

import json
from typing import Any, Final

from amplifier_kit.engine.context.token_budget import CHARACTERS_PER_TOKEN, SMALLEST_LIMIT, estimate_tokens, is_image

Message = dict[str, Any]

#: Where a block of a message keeps its text, by the block's type.
_TEXT_KEYS_BY_TYPE: Final = {"text": ("text",), "tool_result": ("output", "content")}
_TEXT_KEYS: Final = ("text", "output", "content", "thinking")
#: User messages up to this many characters are not stubbed; a stub keeps the first ones.
_SHORT_PROMPT: Final = 80
_STUB: Final = 50


def clip_text(text: str, limit: int) -> str:
    """Return `text`, or its beginning and end with a marker between them, in at most `limit` UTF-8 bytes.

    The marker states the original size. `limit` is at least SMALLEST_LIMIT.
    """
    if len(text) * 4 <= limit:  # no character takes more than four bytes
        return text
    data = text.encode()
    if len(data) <= limit:
        return text
    marker, head, tail = _marker(len(data), limit)
    return f"{_decode(data[:head])}{marker}{_decode(data[-tail:])}"


def clip_content(content: Any, limit: int) -> Any:
    """Return a message's content with at most `limit` bytes of direct text; other content is returned as it is.

    The texts of several blocks count as one long text. Blocks in its middle are left out, blocks without text stay. A
    content that is short enough is returned itself.
    """
    if isinstance(content, str):
        return clip_text(content, limit)
    if not isinstance(content, list):
        return content
    texts = [_direct_text(block).encode() for block in content]
    size = sum(map(len, texts))
    if size <= limit:
        return content
    marker, head, tail = _marker(size, limit)
    tail_start = size - tail
    clipped: list[Any] = []
    start = 0
    for block, data in zip(content, texts, strict=True):
        end = start + len(data)
        if not data or end <= head or start >= tail_start:
            clipped.append(block)
        else:
            before = _decode(data[: max(head - start, 0)])
            between = marker if start <= head else ""
            after = _decode(data[tail_start - start :]) if end > tail_start else ""
            if text := f"{before}{between}{after}":
                key = _text_key(block)
                clipped.append(text if key is None else {**block, key: text})
        start = end
    return clipped


def truncate_result(message: Message, characters: int, tokens: int) -> Message:
    """Return a tool result with the first `characters` of its text, marked as truncated from `tokens` tokens."""
    text = _content_text(message["content"])
    note = f"... [truncated: {min(characters, len(text))} of {len(text)} characters, about {tokens} tokens before]"
    return {**message, "content": text[:characters] + note, "_truncated": True, "_original_tokens": tokens}


def clip_result(message: Message, tokens: int, original: int, shortest: int) -> Message:
    """Return a tool result of `original` tokens clipped to about `tokens`, with its beginning and its end.

    At least `shortest` characters are kept, even when they do not fit.
    """
    text = _content_text(message["content"])
    size = tokens * CHARACTERS_PER_TOKEN
    while size > max(shortest, SMALLEST_LIMIT):
        clipped = {**message, "content": clip_text(text, size), "_truncated": True, "_original_tokens": original}
        if estimate_tokens(clipped) <= tokens:
            return clipped
        size = size * 3 // 4  # escapes and metadata count too: try again with less
    return truncate_result(message, shortest, original)


def stub_user_message(message: Message) -> Message | None:
    """Return a user message with its first characters only and without images, None when it is short anyway."""
    content = message["content"]
    text = _content_text(content)
    if len(text) > _SHORT_PROMPT:
        stub = f"{text[:_STUB]}... [shortened from {len(text)} characters]"
    elif isinstance(content, list) and any(map(is_image, content)):
        stub = text
    else:
        return None
    return {**message, "content": stub, "_stubbed": True, "_original_length": len(text)}


def _marker(size: int, limit: int) -> tuple[str, int, int]:
    """Return the marker for a text of `size` bytes and how many bytes stay before and after it."""
    marker = f"\n\n[... clipped: the whole result has {size} bytes, {limit} are kept ...]\n\n"
    kept = limit - len(marker)
    return marker, kept - kept // 2, kept // 2


def _decode(data: bytes) -> str:
    return data.decode(errors="ignore")  # a character that the cut splits is dropped


def _text_key(block: Any) -> str | None:
    keys = _TEXT_KEYS_BY_TYPE.get(str(block.get("type")), ()) if isinstance(block, dict) else ()
    return next((key for key in keys if isinstance(block.get(key), str)), None)


def _direct_text(block: Any) -> str:
    if isinstance(block, str):
        return block
    key = _text_key(block)
    return block[key] if key is not None else ""


def _content_text(content: Any) -> str:
    """Return a content as one text; images are only named, other blocks without text give their JSON."""
    return content if isinstance(content, str) else "\n".join(map(_block_text, content))


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

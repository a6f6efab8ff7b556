"""Cut the middle out of texts that are too long for the ledger, and say how long they were."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["SMALLEST_LIMIT", "clip_content", "clip_text"]

#: Below this many bytes a clipped text would be hardly more than its own marker.
SMALLEST_LIMIT: Final = 256

#: Where a block of a message keeps its text, by the block's type.
_TEXT_KEYS: Final = {"text": ("text",), "tool_result": ("output", "content")}


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
    return data.decode(errors="ignore")  # a character that the cut went through is left out


def _text_key(block: Any) -> str | None:
    if not isinstance(block, dict):
        return None
    keys = _TEXT_KEYS.get(str(block.get("type")), ())
    return next((key for key in keys if isinstance(block.get(key), str)), None)


def _text_of(block: Any) -> str:
    if isinstance(block, str):
        return block
    key = _text_key(block)
    return block[key] if key is not None else ""


def _with_text(block: Any, text: str) -> Any:
    key = _text_key(block)
    return text if key is None else {**block, key: text}

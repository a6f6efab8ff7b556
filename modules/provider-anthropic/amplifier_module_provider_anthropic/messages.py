"""Write a conversation the way Anthropic takes it, the same way every time.

Content is always a list of blocks, whether or not a cache mark stands on it, and neither the order nor the form of what
was said depends on what is said later: so the beginning of a request is that of the request before.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from amplifier_kit.llm import (
    Call,
    Conversation,
    Image,
    Part,
    Redacted,
    Result,
    Text,
    Thinking,
    Turn,
    as_reminder,
    safe_id,
)

__all__ = ["ORIGIN", "RAW_CONTENT", "mark_for_cache", "messages_of", "system_of"]

ORIGIN: Final = "anthropic"
#: Where a message keeps its blocks as they came, when it used tools that run at Anthropic's.
RAW_CONTENT: Final = "anthropic:content"

_MARK: Final = {"type": "ephemeral"}
_EMPTY: Final = "(empty)"

Block = dict[str, Any]


def system_of(conversation: Conversation) -> list[Block]:
    """Return the system prompt as blocks."""
    return [{"type": "text", "text": text} for text in conversation.system]


def messages_of(conversation: Conversation) -> list[dict[str, Any]]:
    """Return the messages: user and assistant in turns, beginning with the user."""
    messages: list[dict[str, Any]] = []
    for turn in conversation.turns:
        role = "assistant" if turn.role == "assistant" else "user"
        blocks = _blocks(turn)
        if not blocks:
            continue
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"] += blocks
        else:
            messages.append({"role": role, "content": blocks})
    if messages and messages[0]["role"] == "assistant":
        messages.insert(0, {"role": "user", "content": [{"type": "text", "text": _EMPTY}]})
    return messages


def mark_for_cache(messages: list[dict[str, Any]], marks: int = 2) -> None:
    """Put cache marks on the last user messages: the end of this request, and where the one before it ended.

    What hooks add for one request only stands at the very end of it and is gone from the next; so the older mark is the
    one that is found again.
    """
    for message in [message for message in reversed(messages) if message["role"] == "user"][:marks]:
        block = next((block for block in reversed(message["content"]) if block["type"] in _MARKABLE), None)
        if block is not None:
            block["cache_control"] = dict(_MARK)


_MARKABLE: Final = frozenset({"text", "image", "tool_result"})


def _blocks(turn: Turn) -> list[Block]:
    if turn.role == "assistant":
        return _assistant(turn)
    if turn.role == "system":
        return [{"type": "text", "text": as_reminder(turn.text)}] if turn.text.strip() else []
    if turn.role == "developer":
        text = turn.text
        return [{"type": "text", "text": f"<context_file>\n{text}\n</context_file>"}] if text.strip() else []
    # Results come first in a message, whatever else is in it: the service insists.
    return _written(sorted(turn.parts, key=lambda part: not isinstance(part, Result)))


def _assistant(turn: Turn) -> list[Block]:
    raw = turn.metadata.get(RAW_CONTENT)
    calls = [part.id for part in turn.parts if isinstance(part, Call)]
    if isinstance(raw, list) and [block.get("id") for block in raw if block.get("type") == "tool_use"] == calls:
        return [dict(block) for block in raw]
    blocks = _written(turn.of_origin(ORIGIN).parts)
    # Thinking cannot stand alone, and a last text must not end in a blank.
    return blocks if any(block["type"] in ("text", "tool_use") for block in blocks) else []


def _written(parts: Iterable[Part]) -> list[Block]:
    blocks = [_block(part) for part in parts]
    return [block for block in blocks if block is not None]


def _block(part: Part) -> Block | None:
    match part:
        case Text():
            return {"type": "text", "text": part.text} if part.text.strip() else None
        case Image():
            return _image(part)
        case Thinking():
            return {"type": "thinking", "thinking": part.text, "signature": part.signature} if part.signature else None
        case Redacted():
            return {"type": "redacted_thinking", "data": part.data}
        case Call():
            return {"type": "tool_use", "id": safe_id(part.id), "name": part.name, "input": part.arguments}
        case Result():
            content = _written(part.parts) or [{"type": "text", "text": _EMPTY}]
            return {"type": "tool_result", "tool_use_id": safe_id(part.call_id), "content": content}


def _image(image: Image) -> Block:
    if image.data is None:
        return {"type": "image", "source": {"type": "url", "url": image.url}}
    source = {"type": "base64", "media_type": image.media_type, "data": image.data}
    return {"type": "image", "source": source}

"""Write a conversation as the items that the Responses API takes, the same way every time.

How a turn is written depends on the turn alone: so the beginning of a request is that of the request before.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable
from typing import Any, Final

from amplifier_kit.llm.conversation import safe_id
from amplifier_kit.llm.parts import Call, Conversation, Image, Result, Text, Thinking, Turn

__all__ = ["PATCH_CALL", "PATCH_TOOL", "Item", "items_of", "origin_key", "output_key", "reasoning_ids"]

PATCH_TOOL: Final = "apply_patch"
PATCH_CALL: Final = "apply_patch_call"

_APPLIED: Final = re.compile(r"^[AMD] \S")

Item = dict[str, Any]


def origin_key(origin: str) -> str:
    """Return the key under which a block keeps what the service calls it."""
    return f"{origin}:item"


def output_key(origin: str) -> str:
    """Return the key under which a message keeps its items as they came, when tools of the service's own ran."""
    return f"{origin}:output"


def items_of(conversation: Conversation, origin: str, unreadable: Collection[str] = ()) -> list[list[Item]]:
    """Return the items of each turn; reasoning whose id is in `unreadable` is left out."""
    patches = {
        part.id
        for turn in conversation.turns
        for part in turn.parts
        if isinstance(part, Call) and _is_patch(part, origin)
    }
    return [_written(turn, origin, unreadable, patches) for turn in conversation.turns]


def reasoning_ids(items: Iterable[Item]) -> set[str]:
    """Return the ids of the reasoning among items."""
    return {str(item.get("id")) for item in items if item.get("type") == "reasoning"}


def _written(turn: Turn, origin: str, unreadable: Collection[str], patches: set[str]) -> list[Item]:
    if turn.role == "assistant":
        return _assistant(turn, origin, unreadable)
    if turn.role == "tool":
        return [_result(part, patches) for part in turn.parts if isinstance(part, Result)]
    content = [_shown(part) for part in turn.parts if isinstance(part, Text | Image)]
    # Instructions that stand later stay where they are, under the name that the service has for them.
    role = "user" if turn.role == "user" else "developer"
    return [{"type": "message", "role": role, "content": content}] if content else []


def _assistant(turn: Turn, origin: str, unreadable: Collection[str]) -> list[Item]:
    raw = turn.metadata.get(output_key(origin))
    items = [dict(item) for item in raw] if isinstance(raw, list) and _says_the_same(raw, turn) else []
    if not items:
        items = _blocks(turn.of_origin(origin), origin)
    kept = [item for item in items if item["type"] != "reasoning" or item.get("id") not in unreadable]
    # Reasoning is refused without what it led to.
    while kept and kept[-1]["type"] == "reasoning":
        kept.pop()
    return kept


def _blocks(turn: Turn, origin: str) -> list[Item]:
    items: list[Item] = []
    for part in turn.parts:
        match part:
            case Text():
                _add_text(items, part, part.extra.get(origin_key(origin)))
            case Thinking(content=[{"type": "reasoning"} as item]):
                items.append(dict(item))
            case Call():
                items.append(_call(part, origin))
    return items


def _add_text(items: list[Item], part: Text, known: Any) -> None:
    content = {"type": "output_text", "text": part.text, "annotations": []}
    facts = known if isinstance(known, dict) else {}
    if items and facts and items[-1].get("id") == facts.get("id"):
        items[-1]["content"].append(content)
        return
    if not facts:
        content.pop("annotations")
    items.append({"type": "message", "role": "assistant", "content": [content], **facts})


def _call(part: Call, origin: str) -> Item:
    known = part.extra.get(origin_key(origin))
    facts = known if isinstance(known, dict) else {}
    if _is_patch(part, origin):
        return {"call_id": safe_id(part.id), "operation": part.arguments, "status": "completed", **facts}
    # Without blanks, as models write it: what is sent back is then what was cached.
    arguments = json.dumps(part.arguments, ensure_ascii=False, separators=(",", ":"))
    return {
        "type": "function_call",
        "call_id": safe_id(part.id),
        "name": part.name,
        "arguments": arguments,
        **facts,
    }


def _is_patch(part: Call, origin: str) -> bool:
    known = part.extra.get(origin_key(origin))
    return isinstance(known, dict) and known.get("type") == PATCH_CALL


def _result(part: Result, patches: set[str]) -> Item:
    call_id = safe_id(part.call_id)
    if part.call_id in patches:
        # A tool message does not say whether it went well; a patch that was applied lists its files.
        status = "completed" if _APPLIED.match(part.text) else "failed"
        return {"type": "apply_patch_call_output", "call_id": call_id, "status": status, "output": part.text}
    output: Any = [_shown(inner) for inner in part.parts] if part.images else part.text
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def _shown(part: Text | Image) -> Item:
    if isinstance(part, Text):
        return {"type": "input_text", "text": part.text}
    return {"type": "input_image", "image_url": part.data_url, "detail": "auto"}


def _says_the_same(raw: list[Any], turn: Turn) -> bool:
    """Tell whether kept items are still those of the turn: what was edited since goes by its blocks."""
    if not all(isinstance(item, dict) and "type" in item for item in raw):
        return False
    calls = [item.get("call_id") for item in raw if item["type"] in ("function_call", PATCH_CALL)]
    texts = [
        content.get("text", "")
        for item in raw
        if item["type"] == "message"
        for content in item.get("content") or ()
        if content.get("type") == "output_text"
    ]
    said = [part.text for part in turn.parts if isinstance(part, Text)]
    return calls == [part.id for part in turn.parts if isinstance(part, Call)] and "".join(texts) == "".join(said)

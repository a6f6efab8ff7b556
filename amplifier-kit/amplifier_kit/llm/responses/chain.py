"""Go on from a response that the service keeps, when what it keeps is what we would send.

A message notes the response it came from and a mark of everything up to its end. Only while the history still gives
that mark is the response's id sent in its place: what a hook added for one request, a compaction, another model or
another address change the mark, and then everything is sent.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from amplifier_kit.llm.parts import Call, Conversation, Part, Text
from amplifier_kit.llm.responses.items import Item

__all__ = ["Link", "chain_key", "find_link", "mark_of", "said_in", "tail_of"]


class Link(NamedTuple):
    """The response to go on from, and the number of the turns that it stands for."""

    response_id: str
    turns: int


def chain_key(prefix: str) -> str:
    """Return the key under which a message notes its mark."""
    return f"{prefix}:chain"


def mark_of(place: str, before: Iterable[Item], said: Any) -> str:
    """Return the mark of a history: where it was sent, the items in front of an answer, and what the answer said."""
    from hashlib import sha256

    whole = json.dumps([place, list(before), said], sort_keys=True, ensure_ascii=False, default=str)
    return sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def said_in(content: Iterable[Any]) -> Any:
    """Return what a response said, in the form that `find_link` reads from a turn."""
    blocks = list(content)
    text = "".join(block.text for block in blocks if block.type == "text")
    return [text, [[block.id, block.name, block.input] for block in blocks if block.type == "tool_call"]]


def find_link(
    conversation: Conversation, items: Sequence[list[Item]], place: str, prefix: str, broken: set[str]
) -> Link | None:
    """Return what can be gone on from, None when the history has to be sent; `items` are those of the turns."""
    turns = conversation.turns
    at = next((index for index in reversed(range(len(turns))) if turns[index].role == "assistant"), None)
    if at is None or not any(items[at + 1 :]):
        return None
    response_id, mark = (turns[at].metadata.get(key) for key in (f"{prefix}:response_id", chain_key(prefix)))
    if not isinstance(response_id, str) or not isinstance(mark, str) or response_id in broken:
        return None
    before = [item for turn in items[:at] for item in turn]
    return Link(response_id, at + 1) if mark_of(place, before, _said(turns[at].parts)) == mark else None


def tail_of(items: Sequence[list[Item]], link: Link | None) -> list[Item]:
    """Return the items that the service does not have yet."""
    return [item for turn in items[link.turns if link else 0 :] for item in turn]


def _said(parts: Iterable[Part]) -> Any:
    known = list(parts)
    text = "".join(part.text for part in known if isinstance(part, Text))
    return [text, [[part.id, part.name, part.arguments] for part in known if isinstance(part, Call)]]

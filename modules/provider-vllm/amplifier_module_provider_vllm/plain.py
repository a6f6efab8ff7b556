"""Adapt conversations to chat templates.

vLLM puts every request through the model's chat template, which knows neither instructions in the middle of a
conversation nor images in results, and checks more than OpenAI's own service does.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from amplifier_kit.llm.request import Conversation, Image, Result, Text, Turn, instruction_text


def plain_turns(conversation: Conversation, *, keeps_roles: bool) -> Conversation:
    """Return a conversation with images in user turns, and late instructions as well, unless `keeps_roles`."""
    turns: list[Turn] = []
    images: list[Text | Image] = []
    for turn in conversation.turns:
        if turn.role == "tool":
            turns.append(_without_images(turn, images))
            continue
        if images:
            turns.append(Turn("user", tuple(images)))
            images = []
        if not keeps_roles and turn.role in ("system", "developer"):
            turn = Turn("user", (Text(instruction_text(turn)),))
        turns.append(turn)
    if images:
        turns.append(Turn("user", tuple(images)))
    return replace(conversation, turns=tuple(turns))


def plain_items(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the items with assistant messages of other services as plain text, as vLLM requires without an id."""
    return [
        {**item, "content": "".join(part.get("text", "") for part in item["content"])}
        if item.get("role") == "assistant" and "id" not in item
        else item
        for item in items
    ]


def _without_images(turn: Turn, images: list[Text | Image]) -> Turn:
    parts = []
    for part in turn.parts:
        if isinstance(part, Result) and part.images:
            images += [Text(f"Images from {part.name or 'the tool'}:"), *part.images]
            part = part._replace(parts=tuple(inner for inner in part.parts if isinstance(inner, Text)))
        parts.append(part)
    return replace(turn, parts=tuple(parts))

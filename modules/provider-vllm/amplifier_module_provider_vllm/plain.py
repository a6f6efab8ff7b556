"""Write a conversation so that vLLM takes it, whichever model it serves.

What comes in over its Responses API goes through the model's chat template: that knows neither instructions in the
middle of a conversation nor images in results, and checks more than OpenAI's own service does.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from amplifier_kit.llm import Conversation, Image, Result, Text, Turn, as_reminder

__all__ = ["plain_items", "plain_turns"]


def plain_turns(conversation: Conversation, *, keeps_roles: bool) -> Conversation:
    """Return a conversation whose images are the user's; and whose late instructions too, unless `keeps_roles`."""
    turns: list[Turn] = []
    images: list[Text | Image] = []
    for turn in conversation.turns:
        if turn.role == "tool":
            turns.append(_without_images(turn, images))
            continue
        if images:
            turns.append(Turn("user", tuple(images)))
            images = []
        turns.append(turn if keeps_roles else _of_the_user(turn))
    if images:
        turns.append(Turn("user", tuple(images)))
    return replace(conversation, turns=tuple(turns))


def plain_items(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the items with what an assistant said elsewhere as plain text: without an id, vLLM takes nothing else."""
    return [_said(item) if item.get("role") == "assistant" and "id" not in item else item for item in items]


def _said(item: dict[str, Any]) -> dict[str, Any]:
    return {**item, "content": "".join(part.get("text", "") for part in item["content"])}


def _of_the_user(turn: Turn) -> Turn:
    if turn.role == "system":
        return Turn("user", (Text(as_reminder(turn.text)),))
    if turn.role == "developer":
        return Turn("user", (Text(f"<context_file>\n{turn.text}\n</context_file>"),))
    return turn


def _without_images(turn: Turn, images: list[Text | Image]) -> Turn:
    parts = []
    for part in turn.parts:
        if isinstance(part, Result) and part.images:
            images += [Text(f"What {part.name or 'the tool'} showed:"), *part.images]
            part = replace(part, parts=tuple(inner for inner in part.parts if isinstance(inner, Text)))
        parts.append(part)
    return replace(turn, parts=tuple(parts))

"""Put what was said before into the words and looks it had."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from amplifier_app_cli.chat.layout import one_line, wrapped
from amplifier_app_cli.chat.markdown import rendered
from amplifier_app_cli.chat.screen import Screen
from amplifier_app_cli.ui.plain import plain

_BAR = "│ "


class Piece(NamedTuple):
    """Lines that were said together."""

    text: str
    #: When, in seconds; None when that is not known.
    at: float | None = None


def recap(
    messages: Sequence[dict[str, Any]], screen: Screen, turns: int | None, *, with_thinking: bool = False
) -> Iterator[Piece]:
    """Yield the last turns, all of them for None, message by message; nothing when there are none."""
    from amplifier_foundation.sessions.turns import turn_boundaries

    starts = turn_boundaries(messages)
    if not starts or turns == 0:
        return
    first = starts[0] if turns is None or turns >= len(starts) else starts[-turns]
    hidden = sum(start < first for start in starts)
    if hidden:
        yield Piece(screen.ink("dim", f"… {hidden} earlier turns"))
    for message in messages[first:]:
        lines = [_thought(message, screen)] if with_thinking else []
        if text := "\n".join(part for part in (*lines, _said(message, screen)) if part):
            yield Piece(text, _moment(message))


def _said(message: Mapping[str, Any], screen: Screen) -> str:
    from amplifier_foundation.sessions.turns import message_text

    text = plain(_without_files(message_text(message))).strip()
    role = message.get("role")
    if role == "user" and text:
        return f"{screen.ink('bold', '>')} {text}"
    if role == "assistant" and text:
        return rendered(text, screen.width - 1) if screen.ink.is_styled else text
    if role == "tool":
        return screen.ink("dim", one_line(f"· {message.get('name') or 'tool'}", screen.width - 1))
    return ""


def _thought(message: Mapping[str, Any], screen: Screen) -> str:
    """Return what the model thought before it said something, dimmed and with a bar before it."""
    content = message.get("content")
    blocks = [block for block in content if isinstance(block, Mapping)] if isinstance(content, list) else []
    thoughts = [str(block.get("thinking") or "") for block in blocks if block.get("type") == "thinking"]
    text = plain("\n".join(thoughts)).strip()
    if message.get("role") != "assistant" or not text:
        return ""
    lines = wrapped(text, max(screen.width - 1 - len(_BAR), 1))
    return "\n".join(screen.ink("dim", _BAR + line.rstrip()) for line in lines)


def _moment(message: Mapping[str, Any]) -> float | None:
    metadata = message.get("metadata")
    stamped = metadata.get("timestamp") if isinstance(metadata, Mapping) else None
    try:
        return datetime.fromisoformat(str(stamped)).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def _without_files(text: str) -> str:
    """Leave out the files that mentions brought along."""
    import re

    return re.sub(r"\s*<context_file\b.*?</context_file>", "", text, flags=re.DOTALL)

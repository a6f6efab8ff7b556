"""Show the past turns of a resumed session, at once or at the pace they had."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from amplifier_app_cli.chat.answer import render_markdown
from amplifier_app_cli.chat.screen import Screen
from amplifier_app_cli.ui.layout import one_line, wrap_text
from amplifier_app_cli.ui.plain import plain
from amplifier_kit.named_tuple import NamedTuple

#: Turns that are shown of a resumed session.
RECENT_TURNS: Final = 3
#: The longest pause between two messages, in seconds.
LONGEST_PAUSE: Final = 3.0
_BAR: Final = "│ "


class Recap(NamedTuple):
    """How much of the past is shown, and how."""

    #: The number of turns, counted from the last; None for all.
    turns: int | None = RECENT_TURNS
    #: How much faster than the original; None for at once.
    speed: float | None = None
    with_thinking: bool = False

    async def show(self, messages: Sequence[dict[str, Any]], screen: Screen, hurry: asyncio.Event) -> None:
        """Show the messages; once `hurry` is set, the rest is shown at once."""
        before: float | None = None
        for piece in _pieces(messages, screen, self.turns, with_thinking=self.with_thinking):
            if self.speed is not None:
                await _pause(pause(before, piece.at, self.speed), hurry)
            screen.show(piece.text)
            before = before if piece.at is None else piece.at


def pause(before: float | None, at: float | None, speed: float) -> float:
    """Return the seconds to wait between two messages; 0 if the time of one is unknown."""
    if before is None or at is None:
        return 0.0
    return min(max(at - before, 0.0) / speed, LONGEST_PAUSE)


async def _pause(seconds: float, hurry: asyncio.Event) -> None:
    if seconds <= 0 or hurry.is_set():
        await asyncio.sleep(0)  # let the screen draw
        return
    try:
        await asyncio.wait_for(hurry.wait(), seconds)
    except TimeoutError:
        pass


class _Piece(NamedTuple):
    """The lines of one message."""

    text: str
    #: When it was sent, in seconds; None if unknown.
    at: float | None = None


def _pieces(
    messages: Sequence[dict[str, Any]], screen: Screen, turns: int | None, *, with_thinking: bool = False
) -> Iterator[_Piece]:
    """Yield the messages of the last turns; of all turns for None."""
    from amplifier_foundation.sessions.turns import turn_boundaries

    starts = turn_boundaries(messages)
    if not starts or turns == 0:
        return
    first = starts[0] if turns is None or turns >= len(starts) else starts[-turns]
    hidden = sum(start < first for start in starts)
    if hidden:
        yield _Piece(screen.ink("dim", f"… {hidden} earlier turns"))
    for message in messages[first:]:
        lines = [_thought(message, screen)] if with_thinking else []
        if text := "\n".join(part for part in (*lines, _said(message, screen)) if part):
            yield _Piece(text, _moment(message))


def _said(message: Mapping[str, Any], screen: Screen) -> str:
    from amplifier_foundation.sessions.turns import message_text

    text = plain(_without_files(message_text(message))).strip()
    role = message.get("role")
    if role == "user" and text:
        return f"{screen.ink('bold', '>')} {text}"
    if role == "assistant" and text:
        return render_markdown(text, screen.width - 1) if screen.ink.is_styled else text
    if role == "tool":
        return screen.ink("dim", one_line(f"· {message.get('name') or 'tool'}", screen.width - 1))
    return ""


def _thought(message: Mapping[str, Any], screen: Screen) -> str:
    """Return the thinking of a message, dimmed, with a bar before it."""
    content = message.get("content")
    blocks = [block for block in content if isinstance(block, Mapping)] if isinstance(content, list) else []
    thoughts = [str(block.get("thinking") or "") for block in blocks if block.get("type") == "thinking"]
    text = plain("\n".join(thoughts)).strip()
    if message.get("role") != "assistant" or not text:
        return ""
    lines = wrap_text(text, max(screen.width - 1 - len(_BAR), 1))
    return "\n".join(screen.ink("dim", _BAR + line.rstrip()) for line in lines)


def _moment(message: Mapping[str, Any]) -> float | None:
    metadata = message.get("metadata")
    stamped = metadata.get("timestamp") if isinstance(metadata, Mapping) else None
    try:
        return datetime.fromisoformat(str(stamped)).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def _without_files(text: str) -> str:
    """Leave out the files that @mentions added."""
    import re

    return re.sub(r"\s*<context_file\b.*?</context_file>", "", text, flags=re.DOTALL)

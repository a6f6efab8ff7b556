"""Show what was said before a session is taken up again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amplifier_app_cli.chat.layout import one_line
from amplifier_app_cli.chat.markdown import rendered
from amplifier_app_cli.chat.screen import Screen
from amplifier_app_cli.ui.plain import plain


def recap(messages: Sequence[dict[str, Any]], screen: Screen, turns: int | None) -> str:
    """Return the last turns, all of them for None, as they looked; empty when there are none."""
    from amplifier_foundation.sessions.turns import message_text, starts_turn

    starts = [position for position, message in enumerate(messages) if starts_turn(message)]
    if not starts or turns == 0:
        return ""
    first = starts[0] if turns is None or turns >= len(starts) else starts[-turns]
    hidden = sum(start < first for start in starts)
    lines = [screen.ink("dim", f"… {hidden} earlier turns")] if hidden else []
    for message in messages[first:]:
        text = plain(_without_files(message_text(message))).strip()
        role = message.get("role")
        if role == "user" and text:
            lines.append(f"{screen.ink('bold', '>')} {text}")
        elif role == "assistant" and text:
            lines.append(rendered(text, screen.width - 1) if screen.ink.is_styled else text)
        elif role == "tool":
            lines.append(screen.ink("dim", one_line(f"· {message.get('name') or 'tool'}", screen.width - 1)))
    return "\n".join(lines)


def _without_files(text: str) -> str:
    """Leave out the files that mentions brought along."""
    import re

    return re.sub(r"\s*<context_file\b.*?</context_file>", "", text, flags=re.DOTALL)

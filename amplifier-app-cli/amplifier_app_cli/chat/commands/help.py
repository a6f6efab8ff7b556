"""`/help`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amplifier_app_cli.chat.conversation import Conversation

_STOP = "stop the turn after its step; again: at once; at an empty prompt, twice: leave"
_KEYS = (
    ("Enter", "send"),
    ("Ctrl-J", "new line"),
    ("@path", "bring a file along"),
    ("Ctrl-R", "search what was typed before"),
    ("Ctrl-C", _STOP),
    ("Ctrl-D", "leave, as exit and quit do"),
)
#: The same for a terminal that reads lines and no single keys.
_LINE_KEYS = (
    ("Enter", "send; a line that ends in \\ goes on with the next"),
    ("@path", "bring a file along"),
    ("Ctrl-C", _STOP),
    ("Ctrl-D", "leave, as exit and quit do"),
)
#: Columns of the names, where there is room for two columns, and how wide the second one has to be.
_NAMES = 24
_LEAST = 40


async def show(chat: Conversation, words: str) -> None:
    """List commands and keys; what is typed during a turn goes to the model."""
    from amplifier_app_cli.chat.commands import NOT_YET, TABLE
    from amplifier_app_cli.ui.layout import wrap_text

    width = chat.width - 1
    lines: list[str] = []
    for command in TABLE.values():
        if command.target != NOT_YET:
            lines += _explained(command.usage, command.summary, width)
    lines.append("")
    for key, meaning in _KEYS if chat.screen.has_live_part else _LINE_KEYS:
        lines += wrap_text(f"{key}: {meaning}", width)
    lines += wrap_text("What you type while it works goes to the model before its next step.", width)
    chat.screen.show("\n".join(lines))


def _explained(usage: str, summary: str, width: int) -> list[str]:
    """Return a command with what it does: beside it where both have room, else below it."""
    from amplifier_app_cli.ui.layout import wrap_text

    indent = _NAMES if width >= _NAMES + _LEAST else 4
    below = [f"{' ' * indent}{line}" for line in wrap_text(summary, max(width - indent, 10))]
    if indent == _NAMES and len(usage) < _NAMES:
        return [usage.ljust(_NAMES) + below[0].lstrip(), *below[1:]]
    return [*wrap_text(usage, width), *below]

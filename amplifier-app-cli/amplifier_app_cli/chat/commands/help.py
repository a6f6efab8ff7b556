"""`/help`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amplifier_app_cli.chat.conversation import Conversation

_KEYS = (
    ("Enter", "send"),
    ("Ctrl-J", "new line"),
    ("@path", "bring a file along"),
    ("Ctrl-R", "search what was typed before"),
    ("Ctrl-C", "stop the turn after its step; again: at once; at an empty prompt, twice: leave"),
    ("Ctrl-D", "leave, as exit and quit do"),
)


async def show(chat: Conversation, words: str) -> None:
    """List commands and keys; what is typed during a turn goes to the model."""
    from amplifier_app_cli.chat.commands import NOT_YET, TABLE
    from amplifier_app_cli.chat.layout import wrapped

    width = chat.width - 1
    lines: list[str] = []
    for command in TABLE.values():
        if command.target == NOT_YET:
            continue
        lines += [command.usage, *(f"    {line}" for line in wrapped(command.summary, max(width - 4, 10)))]
    lines.append("")
    for key, meaning in _KEYS:
        lines += wrapped(f"{key}: {meaning}", width)
    lines += wrapped("What you type while it works goes to the model before its next step.", width)
    chat.screen.show("\n".join(lines))

"""`/fork`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplifier_app_cli.ui.plain import plain

if TYPE_CHECKING:
    from amplifier_app_cli.chat.conversation import Conversation


async def fork(chat: Conversation, words: str) -> None:
    """Copy the session, up to a turn, into one of its own; this chat stays in the original."""
    from amplifier_app_cli.chat.session_data import keep
    from amplifier_app_cli.ui.layout import counted, folded
    from amplifier_foundation.sessions.fork import fork_session

    turn, _, name = words.partition(" ")
    if turn and not turn.isdecimal():
        chat.screen.show("a turn is a number: /fork [TURN [NAME]]")
        return
    await keep(chat)
    made = fork_session(chat.runtime.folder, at_turn=int(turn) if turn else None, name=name.strip() or None)
    for warning in made.warnings:
        chat.screen.show(plain(f"note: {warning}"))
    told = f"forked: {made.session_id}, {counted(made.turns, 'turn')}; amplifier resume {made.session_id[:8]}"
    chat.screen.show(folded(told, chat.width - 1))

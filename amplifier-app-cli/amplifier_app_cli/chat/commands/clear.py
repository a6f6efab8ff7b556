"""`/clear`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amplifier_app_cli.chat.conversation import Conversation


async def clear(chat: Conversation, words: str) -> None:
    """Forget the conversation; the log and a backup of the transcript keep it."""
    from amplifier_app_cli.chat.session_data import replace

    await replace(chat, [])
    chat.preface = ""
    chat.screen.show("the conversation starts anew; what was said stays in the log")

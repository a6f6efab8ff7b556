"""`/mode` and `/modes`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amplifier_app_cli.chat.conversation import Conversation


async def absent(chat: Conversation, words: str) -> None:
    """Say that there are none."""
    chat.screen.show("modes are not in this release")

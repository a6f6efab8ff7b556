"""`/rename`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplifier_app_cli.ui.plain import plain

if TYPE_CHECKING:
    from amplifier_app_cli.chat.conversation import Conversation


async def rename(chat: Conversation, words: str) -> None:
    """Give the session a name by which it can be resumed."""
    from amplifier_foundation.sessions.store import SessionStore

    if not words:
        chat.screen.show("which name? /rename NAME")
        return
    store = SessionStore(chat.runtime.prepared.home)
    renamed = store.rename(str(chat.runtime.folder), words)
    chat.screen.show(plain(f"the session is called {renamed.name!r}"))

"""What slash commands read and change of a session: its messages and its settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amplifier_app_cli.settings_editor import SettingsEditor
from amplifier_app_cli.ui.plain import plain
from amplifier_kit.awaitable import maybe_await

if TYPE_CHECKING:
    from amplifier_app_cli.chat.conversation import Conversation

Message = dict[str, Any]


async def messages_of(chat: Conversation) -> list[Message]:
    """Return the conversation, without instructions."""
    context = chat.coordinator.get("context")
    messages: list[Message] = await maybe_await(context.get_messages()) if context is not None else []
    return [message for message in messages if message.get("role") not in ("system", "developer")]


async def replace_messages(chat: Conversation, messages: list[Message]) -> None:
    """Replace the conversation, on disk too; the previous one is kept as a backup."""
    await chat.runtime.replace_messages(messages)
    # The runtime saves the conversation around every turn; changes between turns are saved here.
    await chat.runtime.save_messages()


def session_settings(chat: Conversation) -> SettingsEditor:
    """Return the editor of the session's own settings; it reports on the screen of the chat."""
    app = chat.session.app.fresh()
    app.project = chat.runtime.prepared.project
    return SettingsEditor(app, "session", str(chat.runtime.folder), lambda text: chat.screen.show(plain(text)))

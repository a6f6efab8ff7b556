"""What slash commands read and change of a session: its messages, its name, its settings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from amplifier_kit.awaitable import maybe_await

if TYPE_CHECKING:
    from amplifier_app_cli.chat.conversation import Conversation
    from amplifier_foundation.settings.keys import KeyStore


Message = dict[str, Any]


async def messages_of(chat: Conversation) -> list[Message]:
    """Return the conversation, without instructions."""
    context = chat.coordinator.get("context")
    messages: list[Message] = await maybe_await(context.get_messages()) if context is not None else []
    return [message for message in messages if message.get("role") not in ("system", "developer")]


async def replace(chat: Conversation, messages: list[Message]) -> None:
    """Put another conversation in place, on disk too: the one before is kept as a backup."""
    await chat.runtime.replace_messages(messages)
    await keep(chat)


async def keep(chat: Conversation) -> None:
    """Write down the conversation as it is now, between two turns."""
    # The runtime keeps it around every turn; what changes it in between has to say so.
    await chat.runtime.save_messages()


def name_of(chat: Conversation) -> str | None:
    """Return the name of the session, None when it has none."""
    from amplifier_foundation.sessions.metadata import read_summary

    summary = read_summary(chat.runtime.folder)
    return summary.name if summary is not None else None


def session_file(chat: Conversation) -> Path:
    """Return the file."""
    from amplifier_foundation.settings.scopes import scope_file

    prepared = chat.runtime.prepared
    return scope_file("session", prepared.home, prepared.project, chat.runtime.folder)


def set_in_session(chat: Conversation, key: tuple[str, ...] | str, value: Any) -> None:
    """Set one key; raises SettingsError. A secret goes to the key store."""
    from amplifier_foundation.settings.edit import set_value

    edit = set_value(session_file(chat), key, value, key_store(chat))
    for moved in edit.moved:
        chat.screen.show(f"note: {moved.key} is a secret: it is kept as the key {moved.variable}")


def key_store(chat: Conversation) -> KeyStore:
    """Return where secrets go."""
    import os

    from amplifier_foundation.settings.keys import KeyStore

    return KeyStore(chat.runtime.prepared.home, os.environ)

"""The conversation that a chat is about, and its copy on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amplifier_kit.awaitable import maybe_await

if TYPE_CHECKING:
    from amplifier_app_cli.chat.conversation import Conversation

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

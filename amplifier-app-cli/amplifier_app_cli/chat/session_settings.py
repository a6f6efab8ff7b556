"""The settings of one session: they are laid over everything else when it is resumed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amplifier_app_cli.chat.conversation import Conversation
    from amplifier_foundation.settings import KeyStore


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

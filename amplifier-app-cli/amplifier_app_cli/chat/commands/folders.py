"""`/allowed-dirs` and `/denied-dirs`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplifier_app_cli.ui.plain import plain

if TYPE_CHECKING:
    from pathlib import Path

    from amplifier_app_cli.chat.conversation import Conversation

_PLACE = ("overrides", "tool-filesystem", "config")


async def allowed(chat: Conversation, words: str) -> None:
    """List the folders that files may be written to, or change them for this session."""
    _change(chat, words, "allowed_write_paths", "allowed")


async def denied(chat: Conversation, words: str) -> None:
    """List the folders that files must not be written to, or change them for this session."""
    _change(chat, words, "denied_write_paths", "denied")


def _change(chat: Conversation, words: str, kind: str, word: str) -> None:
    from amplifier_app_cli.chat.session_data import key_store, session_file
    from amplifier_foundation.settings.edit import append_value, remove_item

    verb, _, given = words.partition(" ")
    if verb in ("", "list"):
        _list(chat, kind, word)
        return
    if verb not in ("add", "remove") or not given.strip():
        chat.screen.show(f"/{word}-dirs [list|add PATH|remove PATH]")
        return
    path = _absolute(chat.runtime.prepared.project, given.strip())
    edit = append_value if verb == "add" else remove_item
    done = edit(session_file(chat), (*_PLACE, kind), str(path), key_store(chat))
    if not done.changed:
        chat.screen.show(plain(f"{path} is {word} already" if verb == "add" else f"{path} was not {word} here"))
        return
    state = word if verb == "add" else f"not {word} any more"
    chat.screen.show(plain(f"{path} is {state} for this session, from when it is resumed"))


def _list(chat: Conversation, kind: str, word: str) -> None:
    from amplifier_foundation.settings.scopes import find
    from amplifier_foundation.settings.settings import Settings

    prepared = chat.runtime.prepared
    settings = Settings.load(prepared.home, prepared.project, chat.runtime.folder)
    listed = [
        f"{item} ({scope})"
        for scope, document in settings.documents
        for place in (_PLACE, ("modules", "tools", "tool-filesystem", "config"))
        for item in find(document.data, (*place, kind)) or []
    ]
    if kind == "allowed_write_paths":
        listed.insert(0, f"{prepared.project} (the project, always)")
    chat.screen.show(plain("\n".join(listed)) or f"no folders are {word}: /{word}-dirs add PATH")


def _absolute(project: Path, given: str) -> Path:
    from amplifier_foundation.paths import expanded

    return (project / expanded(given)).resolve()

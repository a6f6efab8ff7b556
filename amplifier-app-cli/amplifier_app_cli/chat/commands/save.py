"""`/save`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplifier_app_cli.ui.plain import plain

if TYPE_CHECKING:
    from pathlib import Path

    from amplifier_app_cli.chat.conversation import Conversation


async def save(chat: Conversation, words: str) -> None:
    """Write the conversation to a file, whose ending tells the format; without one, into the session's folder."""
    from datetime import datetime

    from amplifier_app_cli.chat.session_data import keep
    from amplifier_foundation.sessions.export import export
    from amplifier_foundation.sessions.metadata import read_summary

    await keep(chat)
    folder = chat.runtime.folder
    summary = read_summary(folder)
    if summary is None:
        chat.screen.show(plain(f"there is nothing to save: {folder} does not exist"))
        return
    name = f"transcript_{datetime.now():%Y%m%d_%H%M%S}.json"
    target = _target(chat.runtime.prepared.project, words) if words else folder / name
    written = export(summary, target, None if target.suffix else "md", scrub=chat.scrub)
    for warning in written.warnings:
        chat.screen.show(plain(f"note: {warning}"))
    chat.screen.show(plain(f"saved: {written.path}"))


def _target(project: Path, given: str) -> Path:
    from amplifier_foundation.paths import expanded

    return project / expanded(given)

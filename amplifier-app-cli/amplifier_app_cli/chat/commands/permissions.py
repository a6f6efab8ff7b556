"""`/permissions`: what the session does without asking, as a mode that can be changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from amplifier_app_cli.ui.layout import folded
from amplifier_app_cli.ui.menu import Option
from amplifier_app_cli.ui.plain import plain
from amplifier_foundation.policy.modes import MODES, PermissionModeError

if TYPE_CHECKING:
    from amplifier_app_cli.chat.conversation import Conversation

_RULES: Final = "`amplifier policy list` shows the rules, which hold in every mode; Shift-Tab goes to the next mode"


async def permissions(chat: Conversation, words: str) -> None:
    """Show the permission modes and let the user choose one, or change to the one that they typed."""
    now = chat.session.permission_mode
    if words and not _is_typed(chat, words):
        # A paste may come from anyone, and is one Enter away from being sent.
        chat.screen.show("a permission mode is changed by typing it: /permissions MODE, or Shift-Tab")
        return
    if not words:
        names = [mode.name for mode in MODES]
        if chat.is_working or not chat.has_menus:
            marked = (f"{'*' if mode.name == now else ' '} {mode.name}: {mode.summary}" for mode in MODES)
            chat.show(folded("\n".join([*marked, _RULES]), chat.width - 1))
            return
        options = [Option(mode.name, f"{mode.summary}{' (now)' if mode.name == now else ''}") for mode in MODES]
        chat.show(folded(_RULES, chat.width - 1))
        words = await chat.choose("Which permission mode?", options, at=names.index(now)) or now
    try:
        await chat.session.set_permission_mode(words, via="chat")
    except PermissionModeError as error:
        chat.show(chat.ink("bad", folded(plain(str(error)), chat.width - 1)))
        return
    chat.show(f"permissions: {chat.session.permission_mode}")


def _is_typed(chat: Conversation, words: str) -> bool:
    """Return whether the user typed every character of the words."""
    return chat.given.ending(words).typed == ((0, len(words)),)

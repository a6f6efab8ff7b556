"""`/tools`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amplifier_app_cli.chat.conversation import Conversation


async def show(chat: Conversation, words: str) -> None:
    """List the tools with what they need permission for."""
    from amplifier_app_cli.ui.table import table

    tools = chat.coordinator.get("tools")
    if not tools:
        chat.screen.show("the bundle has no tools")
        return
    rows = [
        (name, getattr(tool, "action", None) or f"tool.{name}", getattr(tool, "description", ""))
        for name, tool in sorted(tools.items())
    ]
    chat.screen.show(table(("TOOL", "ACTION", "DESCRIPTION"), rows, chat.width - 1))

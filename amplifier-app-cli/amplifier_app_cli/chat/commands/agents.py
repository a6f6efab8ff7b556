"""`/agents`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amplifier_app_cli.chat.conversation import Conversation


async def show(chat: Conversation, words: str) -> None:
    """List the agents that work can be handed to."""
    from amplifier_app_cli.ui.table import table

    agents = chat.runtime.session.config.get("agents")
    rows = [(name, _description(agent)) for name, agent in sorted(agents.items())] if isinstance(agents, dict) else []
    if not rows:
        chat.screen.show("the bundle has no agents")
        return
    chat.screen.show(table(("AGENT", "DESCRIPTION"), rows, chat.width - 1, whole={"AGENT"}))


def _description(agent: Any) -> str:
    if not isinstance(agent, dict):
        return ""
    meta = agent.get("meta")
    return str(agent.get("description") or (meta.get("description") if isinstance(meta, dict) else "") or "")

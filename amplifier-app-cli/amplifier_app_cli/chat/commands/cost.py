"""`/cost`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amplifier_app_cli.chat.conversation import Conversation


async def show(chat: Conversation, words: str) -> None:
    """Say what the last turn and the whole session have used; what others, as sub-agents, report is told too."""
    last, session = chat.usage.turn, chat.usage.session
    chat.screen.show(f"last turn: {last.line()}" if last.calls else "no turn yet")
    chat.screen.show(f"session: {session.line()}")
    contributed = await chat.coordinator.collect_contributions("session.cost")
    parts = [str(part["cost_usd"]) for part in contributed if isinstance(part, dict) and part.get("cost_usd")]
    if parts:
        from decimal import Decimal

        chat.screen.show(f"as reported by providers and sub-agents: ${sum(map(Decimal, parts)):.4f}")
    rows = chat.runtime.budget.spent()
    if len(rows) > 1:
        from amplifier_app_cli.ui.spending import spending_lines

        for line in spending_lines(rows):
            chat.screen.show(line)

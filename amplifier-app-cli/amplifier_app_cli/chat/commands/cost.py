"""`/cost`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplifier_app_cli.ui.spending import spending_lines, usage_line

if TYPE_CHECKING:
    from amplifier_app_cli.chat.conversation import Conversation


async def show(chat: Conversation, words: str) -> None:
    """Say what the last turn and the whole session have used; what others, as sub-agents, report is told too."""
    last = chat.usage.turn
    chat.screen.show(f"last turn: {usage_line(last)}" if last.answers else "no turn yet")
    chat.screen.show(f"session: {usage_line(chat.usage.session)}")
    contributed = await chat.coordinator.collect_contributions("session.cost")
    parts = [str(part["cost_usd"]) for part in contributed if isinstance(part, dict) and part.get("cost_usd")]
    if parts:
        from decimal import Decimal

        chat.screen.show(f"as reported by providers and sub-agents: ${sum(map(Decimal, parts)):.4f}")
    rows = chat.runtime.account.rows()
    if len(rows) > 1:
        for line in spending_lines(rows):
            chat.screen.show(line)

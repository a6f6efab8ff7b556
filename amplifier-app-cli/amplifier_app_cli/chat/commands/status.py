"""`/status`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplifier_app_cli.ui.plain import plain
from amplifier_app_cli.ui.spending import usage_line

if TYPE_CHECKING:
    from amplifier_app_cli.chat.conversation import Conversation


async def show(chat: Conversation, words: str) -> None:
    """Say what this session is, what it is made of, and what it has used."""
    from amplifier_app_cli.chat.session_data import messages_of, name_of
    from amplifier_app_cli.chat.start import trust_line
    from amplifier_app_cli.ui.layout import counted, folded
    from amplifier_foundation.sessions.turns import count_turns

    runtime, coordinator = chat.runtime, chat.coordinator
    composed = runtime.prepared.composed
    messages = await messages_of(chat)
    pinned = coordinator.session_state.get("pinned_provider")
    goal = coordinator.session_state.get("goal")
    facts = {
        "session": runtime.session_id,
        "name": name_of(chat),
        "bundle": f"{composed.name} {composed.version}".strip(),
        "providers": ", ".join(coordinator.get("providers")) + (f" (pinned: {pinned})" if pinned else ""),
        "tools": ", ".join(coordinator.get("tools")) or "none",
        "project": runtime.prepared.project,
        "trust": trust_line(runtime.prepared.home, runtime.prepared.project, is_trusted_now=chat.is_trusted_now),
        "conversation": f"{counted(count_turns(messages), 'turn')}, {counted(len(messages), 'message')}",
        "used": usage_line(chat.usage.session),
        "goal": goal.get("condition") if isinstance(goal, dict) else None,
        "log": runtime.log_path,
    }
    told = "\n".join(plain(f"{name}: {value}") for name, value in facts.items() if value)
    chat.screen.show(folded(told, chat.width - 1))

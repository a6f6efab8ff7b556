"""`/context` and `/compact`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amplifier_kit.awaitable import maybe_await

if TYPE_CHECKING:
    from amplifier_app_cli.chat.conversation import Conversation


async def show(chat: Conversation, words: str) -> None:
    """Say how many messages there are, and how much of the model's room the last request took."""
    from amplifier_app_cli.chat.session_data import messages_of
    from amplifier_app_cli.ui.layout import counted, folded

    lines = [counted(len(await messages_of(chat)), "message")]
    kept = await _asked(chat, "context.request_retention")
    if kept:
        lines.append(
            f"last request: {counted(kept['request_messages'], 'message')}, about {kept['request_tokens']:,} of "
            f"{kept['budget']:,} tokens ({kept['request_tokens'] / max(kept['budget'], 1):.0%})"
        )
        if kept.get("strategy_level"):
            lines.append(f"made shorter: {kept['messages_removed']} removed, {kept['messages_truncated']} truncated")
    used = await _asked(chat, "context.foreground_usage")
    if used:
        lines.append(f"measured: {used['measured_tokens']:,} tokens")
    assemble = chat.coordinator.get_capability("context.instruction_assembly")
    if callable(assemble):
        lines.append(f"instructions: {len(await maybe_await(assemble())):,} characters")
    chat.screen.show(folded("\n".join(lines), chat.width - 1))


async def compact(chat: Conversation, words: str) -> None:
    """Ask the context to compact; one that does it by itself, at every request, has nothing to do now."""
    from amplifier_app_cli.chat.session_data import keep, messages_of
    from amplifier_app_cli.ui.layout import folded

    context = chat.coordinator.get("context")
    before = len(await messages_of(chat))
    if hasattr(context, "should_compact") and await maybe_await(context.should_compact()):
        await maybe_await(context.compact())
        await keep(chat)
        chat.screen.show(f"{before} messages before, {len(await messages_of(chat))} now")
        return
    told = (
        "nothing to do: the conversation is kept whole, and what the model sees of it is made to fit at every request; "
        "/context shows how full it is, /clear starts anew"
    )
    chat.screen.show(folded(told, chat.width - 1))


async def _asked(chat: Conversation, capability: str) -> dict[str, Any] | None:
    ask = chat.coordinator.get_capability(capability)
    told = await maybe_await(ask()) if callable(ask) else None
    return told if isinstance(told, dict) else None

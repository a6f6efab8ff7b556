"""What a session that goes on brings with it: the end of its history, and what it had cost."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from amplifier_kit.awaitable import maybe_await

if TYPE_CHECKING:
    from amplifier_foundation.sessions.resume import SavedSession


async def add_what_is_missing(context: Any, messages: list[dict[str, Any]]) -> None:
    """Add the end of a history to a context that believes its own file, and whose file ends earlier.

    One whose file goes further is mended at its end. Nothing is added when the two do not say the same as far as they
    go: calls without a result are mended at every request, and a history put together from two would be nobody's.
    """
    from amplifier_foundation.sessions.history import repaired
    from amplifier_foundation.sessions.resume import conversation, says_same

    held = conversation(await maybe_await(context.get_messages()))
    if len(held) > len(messages):
        messages = repaired(held).messages
    if len(held) < len(messages) and says_same(held, messages):
        for message in messages[len(held) :]:
            await maybe_await(context.add_message(message))


def cost_before(saved: SavedSession) -> Callable[[], Any]:
    """Return what tells the cost of earlier turns; it is found out when somebody asks."""
    known = dict(saved.metadata.get("usage") or {}) if isinstance(saved.metadata.get("usage"), dict) else None
    since = datetime.now(UTC).isoformat()
    told: list[dict[str, str] | None] = []

    async def past() -> dict[str, str] | None:
        import asyncio

        from amplifier_foundation.usage.history import past_cost

        if not told:
            cost = await asyncio.to_thread(past_cost, known, saved.folder, since)
            told.append({"cost_usd": str(cost)} if cost is not None else None)
        return told[0]

    return past

"""Show what was said before a session goes on: at once, or at the pace it was said."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from amplifier_app_cli.chat.screen import Screen

#: Turns that are shown of a session that goes on.
RECENT: Final = 3
#: Seconds that nobody has to wait longer for the next message, whatever happened in between.
LONGEST_PAUSE: Final = 3.0


@dataclass(frozen=True)
class LookBack:
    """How much of a conversation is shown again, and how."""

    #: The last so many turns; None for all.
    turns: int | None = RECENT
    #: How many times as fast as it was said; None for at once.
    speed: float | None = None
    with_thinking: bool = False

    async def show(self, messages: Sequence[dict[str, Any]], screen: Screen, hurry: asyncio.Event) -> None:
        """Show the messages; when `hurry` is set, what is left comes at once."""
        from amplifier_app_cli.chat.recap import recap

        before: float | None = None
        for piece in recap(messages, screen, self.turns, with_thinking=self.with_thinking):
            if self.speed is not None:
                await _pause(pause(before, piece.at, self.speed), hurry)
            screen.show(piece.text)
            before = before if piece.at is None else piece.at


def pause(before: float | None, at: float | None, speed: float) -> float:
    """Return the seconds to wait between two messages; none where the time of one is not known."""
    if before is None or at is None:
        return 0.0
    return min(max(at - before, 0.0) / speed, LONGEST_PAUSE)


async def _pause(seconds: float, hurry: asyncio.Event) -> None:
    if seconds <= 0 or hurry.is_set():
        await asyncio.sleep(0)  # what is shown is drawn
        return
    try:
        await asyncio.wait_for(hurry.wait(), seconds)
    except TimeoutError:
        pass

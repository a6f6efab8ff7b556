"""Stop a turn by Ctrl-C: gracefully first, then at once, then whatever it takes."""

from __future__ import annotations

import asyncio
from typing import Any

#: Seconds that a loop has to drop everything when it was told to stop at once.
_GRACE = 3.0


class TurnStop:
    """Stop one turn, each time a little harder."""

    def __init__(self, token: Any, turn: asyncio.Task[Any]) -> None:
        """Stop `turn`, whose session has the cancellation token `token`."""
        self._token = token
        self._turn = turn
        self._timer: asyncio.TimerHandle | None = None
        self.count = 0

    def press(self) -> str:
        """Stop it and return what that means."""
        self.count += 1
        if self.count == 1:
            self._token.request_graceful()
            return "stopping after the current step; Ctrl-C again stops at once"
        self.at_once()
        return "stopping at once"

    def at_once(self) -> None:
        """Drop everything; a turn that does not listen is cancelled after a while, or when this is said again."""
        was_immediate = self._token.is_immediate
        self._token.request_immediate()
        if was_immediate:
            self._turn.cancel()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_GRACE, self._turn.cancel)

    def over(self) -> bool:
        """Make the session ready for its next turn; return whether this one was stopped."""
        if self._timer is not None:
            self._timer.cancel()
        was_stopped: bool = self._token.is_cancelled
        self._token.reset()
        return was_stopped

"""Input during a turn: hand it to the model, and track what it has not received yet."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from amplifier_app_cli.ui.layout import one_line
from amplifier_kit.awaitable import await_soon

logger = logging.getLogger(__name__)

if TYPE_CHECKING:
    from amplifier_foundation.prompt.user_input import UserInput

CAPABILITY = "session.steer"


class Steering:
    """Pass what is typed during a turn to the session, or queue it as the next prompt if the loop cannot take it."""

    def __init__(self, coordinator: Any) -> None:
        self._coordinator = coordinator
        self._waiting: deque[UserInput] = deque()
        #: Input before the loop started: a loop clears its queue when it starts.
        self._early: list[str] | None = None
        #: What becomes the next prompts, in order.
        self.next_prompts: deque[UserInput] = deque()

    def connect(self) -> None:
        """Listen to a session."""
        hooks = self._coordinator.hooks
        hooks.register("orchestrator:steering_injected", self._on_injected, priority=950, name="app-steering")
        hooks.register("execution:start", self._on_started, priority=950, name="app-steering")

    @property
    def count(self) -> int:
        """Return how many inputs wait."""
        return len(self._waiting) + len(self.next_prompts)

    def take(self, given: UserInput) -> str:
        """Hand over one input and return the outcome."""
        text = given.text
        steer = self._coordinator.get_capability(CAPABILITY)
        if not callable(steer):
            self.next_prompts.append(given)
            return "this loop takes no input during a turn: it is your next prompt"
        if self._early is not None:
            self._early.append(text)
        else:
            try:
                self._steer(steer, text)
            except (RuntimeError, ValueError) as error:
                return f"not taken: {error}"
        self._waiting.append(given)
        from amplifier_foundation.prompt.mentions import find_mentions

        is_bare = "; without the files that it mentions" if find_mentions(text) else ""
        return f"goes to the model before its next step{is_bare}"

    def start_turn(self) -> None:
        """Hold input back until the loop runs."""
        self._early = []

    def end_turn(self, *, is_complete: bool) -> list[str]:
        """Queue undelivered input as the next prompts; after a stop or a failure, return it instead.

        Nothing is sent automatically after a failure: the user may want to write something else.
        """
        self._early = None
        self.next_prompts.extendleft(reversed(self._waiting))
        self._waiting.clear()
        if is_complete:
            return []
        lost = [given.text for given in self.next_prompts]
        self.next_prompts.clear()
        return lost

    def badge(self) -> str:
        """Return how many inputs wait, in words; empty when none does."""
        return f"{self.count} queued" if self.count else ""

    def _on_started(self, event: str, data: dict[str, Any]) -> None:
        early, self._early = self._early or [], None
        steer = self._coordinator.get_capability(CAPABILITY)
        for text in early:
            self._steer(steer, text)

    def _steer(self, steer: Callable[[str], Any], text: str) -> None:
        """Hand a text to the loop; if it refuses later, the text stays for the next prompt."""
        await_soon(steer(text), lambda error: logger.warning("the loop refused the input: %s", error))

    def _on_injected(self, event: str, data: dict[str, Any]) -> None:
        content = data.get("content")
        delivered = next((given for given in self._waiting if given.text == content), None)
        if delivered is not None:
            self._waiting.remove(delivered)


def unsent_lines(lost: list[str], width: int) -> str:
    """Return the lines for inputs that were not sent."""
    return "\n".join(one_line(f"not sent: {text}", width) for text in lost)

"""Make the beginning of a conversation smaller, level by level, without touching the conversation itself.

The result depends on nothing but the messages, the settings and the room: the same input gives the same output.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from math import ceil
from typing import Final, NamedTuple

from amplifier_kit.engine.context.config import ContextConfig
from amplifier_kit.engine.context.conversation import SYSTEM, TOOL, USER, Conversation
from amplifier_kit.engine.context.messages import Message
from amplifier_kit.engine.context.shorten import fitted, stubbed, truncated
from amplifier_kit.engine.tokens import estimate_tokens

__all__ = ["COMPACT_SKIPPED", "LAST_RESORT", "Compacted", "compact"]

#: Emitted when a request ought to be compacted and is not; contributed on `observability.events`.
COMPACT_SKIPPED: Final = "context:compact_skipped"

#: The level beyond the eight: only what must be sent is left, for requests that could not be sent at all otherwise.
LAST_RESORT: Final = 9


class Compacted(NamedTuple):
    """Hold the compacted form of the messages before position `end`, and what was done to them."""

    end: int
    messages: list[Message]
    tokens: int
    level: int
    removed: int
    truncated: int
    stubbed: int

    @property
    def changed(self) -> bool:
        """Tell whether anything is different from the messages themselves."""
        return bool(self.removed or self.truncated or self.stubbed)


def compact(talk: Conversation, end: int, settings: ContextConfig, *, goal: int, window: int, limit: int) -> Compacted:
    """Bring the messages before `end` down to `goal` tokens, by as few levels as it takes.

    `window` is the budget that the protection of recent messages is a share of. Levels 1 to 8 may miss the goal; what
    still exceeds `limit` is then cut to what must be sent: the last words of the user and the latest exchange, its
    tool results clipped to fit. Even that may be larger than `limit`; the caller looks at `tokens`.
    """
    cutting = _Cutting(talk, end, settings, goal, window)
    cutting.run_levels()
    if cutting.total > limit:
        cutting.run_last_resort(limit)
    return cutting.result()


class _Cutting:
    """Hold the state of one compaction."""

    def __init__(self, talk: Conversation, end: int, settings: ContextConfig, goal: int, window: int) -> None:
        self._talk = talk
        self._end = end
        self._settings = settings
        self._goal = goal
        self._window = window
        self._cost = talk.tokens[:end]
        self._gone = bytearray(end)
        self._forms: dict[int, Message] = {}
        self._users = talk.users[: bisect_left(talk.users, end)]
        real = bisect_left(talk.real_users, end)
        self._last_real = talk.real_users[real - 1] if real else -1
        #: What the user said last is sent word for word, also when a hook spoke in the user's name after that.
        self._last_words = {*self._users[-1:], self._last_real}
        self._latest = self._find_latest()
        self.total = talk.total_until(end)
        self._level = 0
        self._removed = 0

    def run_levels(self) -> None:
        steps: tuple[tuple[Callable[[float], None], float], ...] = (
            (self._truncate, 0.25),
            (self._truncate, 0.50),
            (self._remove, 1.0),
            (self._truncate, 0.75),
            (self._remove, 0.6),
            (self._truncate, 1.0),
            (self._remove, 0.3),
            (self._drop_stubs, 0.3),
        )
        self._remove_doomed()
        for level, (step, share) in enumerate(steps, 1):
            if self.total <= self._goal:
                return
            self._level = level
            step(share)

    def result(self) -> Compacted:
        talk, forms, gone = self._talk, self._forms, self._gone
        left = [position for position in range(self._end) if not gone[position]]
        systems = [talk.messages[position] for position in left if talk.kinds[position] == SYSTEM]
        rest = [forms.get(position) or talk.messages[position] for position in left if talk.kinds[position] != SYSTEM]
        shortened = [position for position in forms if not gone[position]]
        truncated_results = sum(talk.kinds[position] == TOOL for position in shortened)
        return Compacted(
            self._end,
            systems + rest,
            self.total,
            self._level,
            self._removed,
            truncated_results,
            len(shortened) - truncated_results,
        )

    # -- the levels --

    def _truncate(self, share: float) -> None:
        """Truncate the oldest tool results up to `share` of all, but not the protected ones."""
        results = self._results()
        unprotected = max(len(results) - self._settings.protected_tool_results, 0)
        for position in self._left(results[: min(ceil(len(results) * share), unprotected)]):
            self._truncate_one(position)
            if self.total <= self._goal:
                return

    def _remove_doomed(self) -> None:
        """Remove at once what level 3 removes in any case: most of a long history, and truncating it first is work.

        Nothing else changes by it: what is left exceeds the goal even when all its tool results are truncated.
        """
        boundary = self._boundary(1.0)
        talk = self._talk
        for position in range(min(talk.doomed_until(self._goal, self._end), boundary)):
            removable = talk.kinds[position] not in (USER, SYSTEM) and talk.leaders[position] == position
            if removable and self._removable(position, boundary):
                self._remove_unit(position)

    def _remove(self, share: float) -> None:
        """Remove the oldest units and stub the oldest user messages outside `share` of the protection."""
        talk = self._talk
        boundary = self._boundary(share)
        spared = {*self._users[:1], *self._last_words}
        for position in self._left(range(boundary)):
            kind = talk.kinds[position]
            if kind == USER:
                if position not in spared:
                    self._stub(position)
            elif kind != SYSTEM and talk.leaders[position] == position and self._removable(position, boundary):
                self._remove_unit(position)
            if self.total <= self._goal:
                return

    def _drop_stubs(self, share: float) -> None:
        """Stub the first user message, and remove the oldest user messages that are short by now."""
        for position in self._users[:1]:
            if position not in self._last_words:
                self._stub(position)
        old = self._users[1 : bisect_left(self._users, self._boundary(share))]
        for position in self._left(old):
            if self.total <= self._goal:
                return
            if position not in self._last_words and position not in self._talk.pinned:
                self._remove_unit(position)

    # -- the last resort --

    def run_last_resort(self, limit: int) -> None:
        """Give up everything that need not be sent, the oldest first, until the rest is within `limit`."""
        self._level = LAST_RESORT
        talk = self._talk
        latest = set(talk.unit(talk.leaders[self._latest]))
        for position in self._left(self._results()):
            if self.total <= limit:
                return
            if position not in latest:
                self._truncate_one(position)
        newest = [position for position in self._left(self._results()) if position in latest]
        self._fit(newest, limit, limit // 2)
        required = latest | self._last_words
        for injected in (False, True):  # what hooks said in the system's name goes after everything else
            for position in self._left(range(self._end)):
                if self.total <= limit:
                    return
                of_kind = (talk.kinds[position] == SYSTEM) is injected
                if of_kind and talk.leaders[position] == position and self._dispensable(position, required):
                    self._remove_unit(position)
        self._fit(newest, limit, 0)

    def _find_latest(self) -> int:
        """Return the position of the last message that no hook injected, or of the last one."""
        talk = self._talk
        for position in range(self._end - 1, -1, -1):
            kind = talk.kinds[position]
            if kind not in (SYSTEM, USER) or position == self._last_real:
                return position
        return self._end - 1

    def _fit(self, results: list[int], limit: int, least: int) -> None:
        """Clip `results` in equal shares so that all is within `limit`, but leave them `least` tokens together."""
        if self.total <= limit or not results:
            return
        taken = sum(self._cost[position] for position in results)
        room = max(limit - (self.total - taken), least, 0)
        for count, position in zip(range(len(results), 0, -1), results, strict=True):
            share = room // count
            if self._cost[position] > share:
                message, original = self._talk.messages[position], self._talk.tokens[position]
                self._replace(position, fitted(message, share, original, self._settings.truncate_chars))
            room = max(room - self._cost[position], 0)

    def _dispensable(self, leader: int, required: set[int]) -> bool:
        return leader not in self._talk.pinned and required.isdisjoint(self._talk.unit(leader))

    # -- single messages and units --

    def _left(self, positions: Iterable[int]) -> Iterator[int]:
        """Yield those positions whose messages are still there when their turn comes."""
        gone = self._gone
        return (position for position in positions if not gone[position])

    def _results(self) -> list[int]:
        tools = self._talk.tools
        return tools[: bisect_left(tools, self._end)]

    def _boundary(self, share: float) -> int:
        """Return the position before which nothing is protected for being recent.

        What counts is the smaller of two shares, of the messages and of the budget: a share of a long history alone
        would outgrow every budget. The latest exchange is always protected.
        """
        protected = self._settings.protected_recent * share
        by_count = self._end - ceil(self._end * protected)
        by_tokens = self._talk.first_within_last(int(self._window * protected), self._end)
        return min(max(by_count, by_tokens), self._latest)

    def _removable(self, leader: int, boundary: int) -> bool:
        return self._talk.last_members[leader] < boundary and leader not in self._talk.pinned

    def _remove_unit(self, leader: int) -> None:
        for position in self._talk.unit(leader):
            if position < self._end and not self._gone[position]:
                self._gone[position] = 1
                self._removed += 1
                self.total -= self._cost[position]

    def _truncate_one(self, position: int) -> None:
        if position not in self._forms:
            message, tokens = self._talk.messages[position], self._talk.tokens[position]
            self._replace(position, truncated(message, self._settings.truncate_chars, tokens))

    def _stub(self, position: int) -> None:
        if position not in self._forms:
            self._replace(position, stubbed(self._talk.messages[position]))

    def _replace(self, position: int, form: Message | None) -> None:
        """Use a shorter form of a message, if it is shorter indeed."""
        if form is None:
            return
        tokens = estimate_tokens(form)
        if tokens < self._cost[position]:
            self._forms[position] = form
            self.total -= self._cost[position] - tokens
            self._cost[position] = tokens

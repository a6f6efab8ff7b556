"""Build the view of a conversation that fits a request: all of it, or a compacted beginning and the rest.

The conversation itself is never changed, and a view depends only on the messages, the settings and the budget. It is
also stable: between two compactions a longer conversation gives the same view plus the new messages, so that the
provider's prompt cache stays valid. Therefore the compacted part does not end at the end of the conversation, but at
the last mark at which the conversation, compacted each time, would have become too large.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from math import ceil
from typing import Any, Final

from amplifier_kit.engine.context.ledger import SYSTEM, TOOL, USER, Conversation, Message
from amplifier_kit.engine.context.shorten import clip_result, stub_user_message, truncate_result
from amplifier_kit.engine.context.token_budget import ContextConfig, TokenBudget, estimate_tokens
from amplifier_kit.engine.pairing import tool_call_ids
from amplifier_kit.named_tuple import NamedTuple
from amplifier_kit.reminders import reminder

#: Emitted when a request should be compacted but is not; contributed on `observability.events`.
COMPACT_SKIPPED: Final = "context:compact_skipped"
#: The level after the eight: everything but the required messages may go, so that the request can be sent at all.
LAST_RESORT: Final = 9

#: How many marks are tried before the whole conversation is compacted.
_MARKS: Final = 4
_CACHED: Final = 8
_NOTICE_SOURCE: Final = "context-compaction"


class Compacted(NamedTuple):
    """The compacted form of the messages before position `end`, and counts of the changes."""

    end: int
    messages: list[Message]
    tokens: int
    level: int
    removed: int
    truncated: int
    stubbed: int

    @property
    def has_changes(self) -> bool:
        return bool(self.removed or self.truncated or self.stubbed)

    def counts(self) -> dict[str, int]:
        """Return the counts that events and `context.request_retention` report."""
        return {
            "messages_removed": self.removed,
            "messages_truncated": self.truncated,
            "user_messages_stubbed": self.stubbed,
            "strategy_level": self.level,
        }


NOT_COMPACTED: Final = Compacted(0, [], 0, 0, 0, 0, 0)


class View(NamedTuple):
    """What a request shows of a conversation: a compacted beginning and the rest."""

    compacted: Compacted
    rest: list[Message]
    #: How many messages the conversation had, and how many tokens the view takes.
    length: int
    tokens: int

    @classmethod
    def of(cls, conversation: Conversation, compacted: Compacted) -> View:
        """Return the view of a conversation as it is now."""
        rest = conversation.total - conversation.total_until(compacted.end)
        return cls(compacted, conversation.messages[compacted.end :], len(conversation), compacted.tokens + rest)


class Compactor:
    """Find the compacted beginning of a conversation; the latest ones are cached."""

    def __init__(self, settings: ContextConfig) -> None:
        @lru_cache(maxsize=_CACHED)
        def compacted(conversation: Conversation, epoch: int, end: int, budget: TokenBudget) -> Compacted:
            return compact(conversation, end, settings, goal=budget.target, window=budget.usable, limit=budget.limit)

        self._compacted = compacted

    def clear_cache(self) -> None:
        self._compacted.cache_clear()

    def find(self, conversation: Conversation, budget: TokenBudget) -> Compacted:
        """Return the compacted beginning; NOT_COMPACTED when the conversation is below the threshold.

        When nothing makes it fit, the result with the messages after it exceeds `budget.limit`.
        """
        total, epoch = conversation.total, conversation.epoch
        if total <= budget.threshold:
            return NOT_COMPACTED
        end = _last_mark(conversation, budget)
        for _ in range(_MARKS):
            if end >= len(conversation):
                break
            found = self._compacted(conversation, epoch, end, budget)
            before = conversation.total_until(end)
            if found.tokens + total - before <= budget.threshold:
                return found
            if found.tokens > budget.threshold:
                break
            end = conversation.unit_end(conversation.first_beyond(budget.threshold - found.tokens + before))
        return self._compacted(conversation, epoch, len(conversation), budget)


def _last_mark(conversation: Conversation, budget: TokenBudget) -> int:
    """Return where the conversation last grew by the tokens that a compaction frees."""
    step = budget.threshold - budget.target
    if step <= 0:
        return len(conversation)
    steps = (conversation.total - budget.threshold - 1) // step
    return conversation.unit_end(conversation.first_beyond(budget.threshold + steps * step))


def compact(
    conversation: Conversation, end: int, settings: ContextConfig, *, goal: int, window: int, limit: int
) -> Compacted:
    """Bring the messages before `end` down to `goal` tokens, by as few levels as it takes.

    `window` is the budget that the protection of recent messages is a share of. Levels 1 to 8 may miss the goal; what
    still exceeds `limit` is then cut to the required messages: the last user message and the latest exchange, its tool
    results clipped to fit. Even that may be larger than `limit`; the caller compares `tokens`.
    """
    compaction = _Compaction(conversation, end, settings, goal, window)
    compaction.run_levels()
    if compaction.total > limit:
        compaction.run_last_resort(limit)
    return compaction.result()


class _Compaction:
    def __init__(self, conversation: Conversation, end: int, settings: ContextConfig, goal: int, window: int) -> None:
        self._conversation = conversation
        self._end = end
        self._settings = settings
        self._goal = goal
        self._window = window
        self.total = conversation.total_until(end)
        self._level = 0
        self._cost = conversation.tokens[:end]
        self._removed = bytearray(end)
        self._shortened: dict[int, Message] = {}
        self._users = conversation.users[: bisect_left(conversation.users, end)]
        self._results = conversation.tools[: bisect_left(conversation.tools, end)]
        human = bisect_left(conversation.human, end)
        last_human = conversation.human[human - 1] if human else -1
        #: The user's last message is sent whole, even when a hook wrote a user message after it.
        self._last_prompts = {*self._users[-1:], last_human}
        #: The last message that no hook injected.
        self._latest = end - 1
        for position in range(end - 1, -1, -1):
            if conversation.kinds[position] not in (SYSTEM, USER) or position == last_human:
                self._latest = position
                break

    def run_levels(self) -> None:
        steps: tuple[tuple[Callable[[float], None], float], ...] = (
            (self._truncate_results, 0.25),
            (self._truncate_results, 0.50),
            (self._remove_old, 1.0),
            (self._truncate_results, 0.75),
            (self._remove_old, 0.6),
            (self._truncate_results, 1.0),
            (self._remove_old, 0.3),
            (self._remove_stubs, 0.3),
        )
        self._remove_hopeless()
        for level, (step, share) in enumerate(steps, 1):
            if self.total <= self._goal:
                return
            self._level = level
            step(share)

    def result(self) -> Compacted:
        messages, kinds = self._conversation.messages, self._conversation.kinds
        kept = list(self._kept(range(self._end)))
        systems = [messages[position] for position in kept if kinds[position] == SYSTEM]
        others = [self._shortened.get(position) or messages[position] for position in kept if kinds[position] != SYSTEM]
        shortened = list(self._kept(self._shortened))
        truncated = sum(kinds[position] == TOOL for position in shortened)
        return Compacted(
            end=self._end,
            messages=systems + others,
            tokens=self.total,
            level=self._level,
            removed=self._end - len(kept),
            truncated=truncated,
            stubbed=len(shortened) - truncated,
        )

    # -- the levels --

    def _truncate_results(self, share: float) -> None:
        """Truncate the oldest tool results up to `share` of all, but not the protected ones."""
        unprotected = max(len(self._results) - self._settings.protected_tool_results, 0)
        for position in self._kept(self._results[: min(ceil(len(self._results) * share), unprotected)]):
            self._truncate(position)
            if self.total <= self._goal:
                return

    def _remove_hopeless(self) -> None:
        """Remove at once what level 3 removes in any case: truncating most of a long history first is wasted work.

        The result is the same: the messages after these exceed the goal even when all their results are truncated.
        """
        boundary = self._boundary(1.0)
        hopeless = self._conversation.exceeds_even_truncated(self._goal, self._end)
        for position in range(min(hopeless, boundary)):
            if self._is_removable(position, boundary):
                self._remove_unit(position)

    def _remove_old(self, share: float) -> None:
        """Remove the oldest units and stub the oldest user messages outside `share` of the protection."""
        boundary = self._boundary(share)
        spared = {*self._users[:1], *self._last_prompts}
        for position in self._kept(range(boundary)):
            if self._conversation.kinds[position] == USER:
                if position not in spared:
                    self._stub(position)
            elif self._is_removable(position, boundary):
                self._remove_unit(position)
            if self.total <= self._goal:
                return

    def _remove_stubs(self, share: float) -> None:
        """Stub the first user message, and remove the oldest user messages that are short by now."""
        for position in self._users[:1]:
            if position not in self._last_prompts:
                self._stub(position)
        for position in self._kept(self._users[1 : bisect_left(self._users, self._boundary(share))]):
            if self.total <= self._goal:
                return
            if position not in self._last_prompts and position not in self._conversation.pinned:
                self._remove_unit(position)

    def run_last_resort(self, limit: int) -> None:
        """Give up everything that is not required, the oldest first, until the rest is within `limit`."""
        self._level = LAST_RESORT
        conversation = self._conversation
        latest = set(conversation.unit(conversation.leaders[self._latest]))
        for position in self._kept(self._results):
            if self.total <= limit:
                return
            if position not in latest:
                self._truncate(position)
        newest = [position for position in self._kept(self._results) if position in latest]
        self._clip(newest, limit, limit // 2)
        required = latest | self._last_prompts
        for is_system in (False, True):  # system messages that hooks injected go after everything else
            for position in self._kept(range(self._end)):
                if self.total <= limit:
                    return
                if (
                    (conversation.kinds[position] == SYSTEM) is is_system
                    and conversation.leaders[position] == position
                    and position not in conversation.pinned
                    and required.isdisjoint(conversation.unit(position))
                ):
                    self._remove_unit(position)
        self._clip(newest, limit, 0)

    def _clip(self, results: list[int], limit: int, least: int) -> None:
        """Clip `results` in equal shares so that all is within `limit`, but leave them `least` tokens together."""
        if self.total <= limit:
            return
        taken = sum(self._cost[position] for position in results)
        free = max(limit - (self.total - taken), least, 0)
        for count, position in zip(range(len(results), 0, -1), results, strict=True):
            share = free // count
            if self._cost[position] > share:
                message, original = self._conversation.messages[position], self._conversation.tokens[position]
                self._shorten(position, clip_result(message, share, original, self._settings.truncate_chars))
            free = max(free - self._cost[position], 0)

    # -- single messages and units --

    def _kept(self, positions: Iterable[int]) -> Iterator[int]:
        """Yield the positions whose messages are not removed by the time they are reached."""
        removed = self._removed
        return (position for position in positions if not removed[position])

    def _boundary(self, share: float) -> int:
        """Return the position before which nothing is protected for being recent.

        The smaller of two shares counts, of the messages and of the budget: a share of a long history alone would
        outgrow every budget. The latest exchange is always protected.
        """
        protected = self._settings.protected_recent * share
        by_count = self._end - ceil(self._end * protected)
        by_tokens = self._conversation.first_within_last(int(self._window * protected), self._end)
        return min(max(by_count, by_tokens), self._latest)

    def _is_removable(self, position: int, boundary: int) -> bool:
        """Return whether a unit begins here that is neither protected, nor pinned, nor from the user or a hook."""
        conversation = self._conversation
        return (
            conversation.kinds[position] not in (USER, SYSTEM)
            and conversation.leaders[position] == position
            and conversation.last_members[position] < boundary
            and position not in conversation.pinned
        )

    def _remove_unit(self, leader: int) -> None:
        for position in self._conversation.unit(leader):
            if position < self._end and not self._removed[position]:
                self._removed[position] = 1
                self.total -= self._cost[position]

    def _truncate(self, position: int) -> None:
        if position not in self._shortened:
            message, tokens = self._conversation.messages[position], self._conversation.tokens[position]
            self._shorten(position, truncate_result(message, self._settings.truncate_chars, tokens))

    def _stub(self, position: int) -> None:
        if position not in self._shortened:
            stub = stub_user_message(self._conversation.messages[position])
            if stub is not None:
                self._shorten(position, stub)

    def _shorten(self, position: int, message: Message) -> None:
        """Replace a message if the replacement is shorter."""
        tokens = estimate_tokens(message)
        if tokens < self._cost[position]:
            self._shortened[position] = message
            self.total -= self._cost[position] - tokens
            self._cost[position] = tokens


# -- the notice for the model --


def compaction_notice(compacted: Compacted, budget: TokenBudget, settings: ContextConfig) -> Message | None:
    """Return the message that informs the model of a compaction, None when the settings disable it.

    It describes the compacted beginning only, so that it stays the same until the next compaction.
    """
    if not settings.compaction_notice_enabled or compacted.level < max(settings.compaction_notice_min_level, 1):
        return None
    lines = [f"Earlier parts of this conversation are shortened in this request (level {compacted.level})."]
    if settings.compaction_notice_verbosity != "minimal":
        lines.append(
            f"Left out: {compacted.removed} messages. Truncated: {compacted.truncated} tool results. "
            f"Shortened: {compacted.stubbed} user messages."
        )
        lines.append("Nothing is lost: look at files again, or ask, when something you need is not here.")
    if settings.compaction_notice_verbosity == "verbose":
        lines.append(
            f"The first {compacted.end} messages take about {compacted.tokens} tokens now; the request may take "
            f"{budget.total}, of which the instructions take {budget.system}."
        )
    metadata: dict[str, Any] = {"source": _NOTICE_SOURCE, "ephemeral": True}
    return {"role": "system", "content": reminder("\n".join(lines), _NOTICE_SOURCE), "metadata": metadata}


def insert_notice(messages: list[Message], notice: Message) -> list[Message]:
    """Return the messages with the notice at index 1, or in front when it would separate a call from its results."""
    index = 0 if not messages or tool_call_ids(messages[0]) else 1
    return [*messages[:index], notice, *messages[index:]]

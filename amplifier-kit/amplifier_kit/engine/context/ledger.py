"""The messages of a session, whole and in order, with the indexes that compaction needs."""

from __future__ import annotations

import json
import logging
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from math import isfinite
from typing import Any, Final

from amplifier_kit.engine.context.shorten import clip_content
from amplifier_kit.engine.context.token_budget import estimate_tokens
from amplifier_kit.engine.pairing import tool_call_ids
from amplifier_kit.reminders import is_reminder

logger = logging.getLogger(__name__)

Message = dict[str, Any]

SYSTEM_ROLES: Final = frozenset({"system", "developer"})
# Kinds of messages in a conversation. System messages in it were injected by hooks.
USER: Final = 0
TOOL: Final = 1
OTHER: Final = 2
SYSTEM: Final = 3
_KINDS: Final = {"user": USER, "tool": TOOL, "system": SYSTEM, "developer": SYSTEM}

#: A truncated tool result takes at least this many tokens, unless it was smaller before.
TRUNCATED_FLOOR: Final = 24
#: Messages with this metadata are never removed: the provider needs them.
_PIN: Final = "openai:tool_search_items"
_ATOMS: Final = frozenset((int, float, bool, type(None)))
_OMIT: Final = object()


class Ledger:
    """All messages of a session. Messages are added, never changed; compaction only builds views of them."""

    def __init__(self, max_tool_result_bytes: int) -> None:
        self._max_tool_result_bytes = max_tool_result_bytes
        self.clear()

    def __len__(self) -> int:
        return len(self._messages)

    def clear(self) -> None:
        self._messages: list[Message] = []
        #: System messages added as instructions; those that hooks injected are part of the conversation.
        self.instructions: list[Message] = []
        self.conversation = Conversation()

    def add(self, message: Any) -> Message:
        """Add a timestamped copy of a message and return it; raises as `normalize_message` does."""
        copy = normalize_message(message, stamp=True, max_tool_result_bytes=self._max_tool_result_bytes)
        self._append(copy)
        return copy

    def replace(self, messages: Iterable[Any]) -> None:
        """Start over with copies of `messages`; invalid ones are left out with a warning."""
        copies: list[Message] = []
        for number, message in enumerate(messages, 1):
            try:
                copies.append(
                    normalize_message(message, stamp=False, max_tool_result_bytes=self._max_tool_result_bytes)
                )
            except (TypeError, ValueError) as error:
                logger.warning("Message %d of the history is left out: %s", number, error)
        self.clear()
        for copy in copies:
            self._append(copy)

    def since(self, position: int) -> list[Message]:
        """Return copies of the messages from `position` on; nested values are shared and must not be changed."""
        return [dict(message) for message in self._messages[position:]]

    def _append(self, message: Message) -> None:
        self._messages.append(message)
        if message["role"] in SYSTEM_ROLES and _metadata(message).get("source") != "hook":
            self.instructions.append(message)
        else:
            self.conversation.append(message)


class Conversation:
    """Messages in order as parallel lists, so that a compaction of thousands of them is cheap.

    A unit is an assistant message with the results of its calls, or any other message alone: its `leader` is its first
    message. A result belongs to the nearest call of its id before it, wherever it is; one without a call is a unit of
    one message.
    """

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.tokens: list[int] = []
        #: Tokens of all messages up to and including this one.
        self.ends: list[int] = []
        self.kinds: list[int] = []
        self.leaders: list[int] = []
        #: For each leader the position of the last message of its unit.
        self.last_members: list[int] = []
        #: The units that have results: leader → positions.
        self.members: dict[int, list[int]] = {}
        self.pinned: set[int] = set()
        #: Positions of messages by role; `human` are the user messages that no hook or orchestrator wrote.
        self.users: list[int] = []
        self.human: list[int] = []
        self.tools: list[int] = []
        self.systems: list[int] = []
        #: Counts changes to units that were complete before: anything derived from them is stale.
        self.epoch = 0
        self._calls: dict[str, int] = {}
        #: Like `ends`, with every tool result counted as if it were truncated already.
        self._floors: list[int] = []

    def __len__(self) -> int:
        return len(self.messages)

    @property
    def total(self) -> int:
        return self.ends[-1] if self.ends else 0

    def total_until(self, end: int) -> int:
        """Return the tokens of the messages before position `end`."""
        return self.ends[end - 1] if end else 0

    def append(self, message: Message) -> None:
        """Add a message, in a time that does not depend on the others."""
        position = len(self.messages)
        tokens = estimate_tokens(message)
        kind = _KINDS.get(message["role"], OTHER)
        floor = min(tokens, TRUNCATED_FLOOR) if kind == TOOL else tokens
        self.ends.append(self.total + tokens)
        self._floors.append((self._floors[-1] if self._floors else 0) + floor)
        self.messages.append(message)
        self.tokens.append(tokens)
        self.kinds.append(kind)
        self.leaders.append(position)
        self.last_members.append(position)
        if kind == TOOL:
            self.tools.append(position)
            self._join_unit(position, message.get("tool_call_id"))
        elif kind == USER:
            self.users.append(position)
            if _is_human(message):
                self.human.append(position)
        elif kind == SYSTEM:
            self.systems.append(position)
        else:
            for call_id in tool_call_ids(message):
                self._calls[call_id] = position
        if _PIN in _metadata(message):
            self.pinned.add(self.leaders[position])

    def _join_unit(self, position: int, call_id: Any) -> None:
        leader = self._calls.get("" if call_id is None else str(call_id))
        if leader is None:
            return
        if self.last_members[leader] != position - 1:
            self.epoch += 1
        self.leaders[position] = leader
        self.last_members[leader] = position
        self.members.setdefault(leader, [leader]).append(position)

    def unit(self, leader: int) -> list[int]:
        return self.members.get(leader) or [leader]

    def unit_end(self, position: int) -> int:
        """Return the first position after `position` that does not split a run of tool results."""
        end = position + 1
        while end < len(self.kinds) and self.kinds[end] == TOOL:
            end += 1
        return end

    def first_beyond(self, tokens: int) -> int:
        """Return the position of the first message with which the conversation exceeds `tokens`."""
        return bisect_right(self.ends, tokens)

    def first_within_last(self, tokens: int, end: int) -> int:
        """Return the earliest position from which on the messages before `end` take at most `tokens`."""
        return bisect_left(self.ends, self.total_until(end) - tokens, hi=end) + 1 if tokens < self.ends[end - 1] else 0

    def exceeds_even_truncated(self, tokens: int, end: int) -> int:
        """Return a position from which the messages before `end` exceed `tokens`, however much is truncated."""
        return bisect_left(self._floors, self._floors[end - 1] - tokens, hi=end)


def normalize_message(message: Any, *, stamp: bool, max_tool_result_bytes: int) -> Message:
    """Return a copy of `message` for the ledger that shares no container with it.

    The content becomes text or a list of blocks, lone surrogates become U+FFFD, the text of a tool result is clipped
    to `max_tool_result_bytes`, and `stamp` adds `metadata.timestamp` unless there is one. Raises TypeError when
    `message` is not a mapping and ValueError when it has no role.
    """
    copy = _plain_copy(message)
    if not isinstance(copy, dict):
        raise TypeError(f"A message must be a dict with 'role' and 'content', got {type(message).__name__}")
    role, content = copy.get("role"), copy.get("content")
    if not isinstance(role, str) or not role:
        raise ValueError(f"A message needs a 'role' that is a non-empty string, got {role!r}; keys: {sorted(copy)}")
    if content is None:  # as some providers write an assistant message that only calls tools
        content = ""
    elif not isinstance(content, (str, list)):
        content = json.dumps(content, ensure_ascii=False, default=str)
    copy["content"] = clip_content(content, max_tool_result_bytes) if role == "tool" else content
    if stamp:
        copy["metadata"] = metadata = _metadata(copy)
        if not metadata.get("timestamp"):
            metadata["timestamp"] = datetime.now(UTC).isoformat(timespec="milliseconds")
    return copy


def sanitize_message(message: Mapping[str, Any]) -> Message:
    """Return a message as a transcript holds it.

    The text of `thinking_block` is kept as `thinking_text`, `content_blocks` is left out, and so is every None and
    everything that JSON cannot carry, at any depth.
    """
    record: Message = {}
    for key, value in message.items():
        if key == "content_blocks":
            continue
        if key == "thinking_block":
            key, value = "thinking_text", _thinking_text(value)
        if (plain := _plain(value)) is not _OMIT:
            record[str(key)] = plain
    return record


def _thinking_text(block: Any) -> Any:
    if isinstance(block, Mapping):
        return block.get("thinking") or block.get("text")
    return block if isinstance(block, str) else getattr(block, "thinking", None)


def _plain(value: Any) -> Any:
    if isinstance(value, (str, bool, int)) or (isinstance(value, float) and isfinite(value)):
        return value
    if isinstance(value, Mapping):
        fields = {str(key): _plain(item) for key, item in value.items()}
        return {key: item for key, item in fields.items() if item is not _OMIT}
    if isinstance(value, (list, tuple)):
        return [item for item in map(_plain, value) if item is not _OMIT]
    return _OMIT


def _plain_copy(value: Any) -> Any:
    """Copy containers all the way down; models become dicts and subclasses of str plain text."""
    kind = type(value)
    if kind is str:
        return value if value.isascii() else _encodable(value)
    if kind in _ATOMS:
        return value
    if kind is dict:
        return {
            key if type(key) is str and key.isascii() else _encodable(str(key)): _plain_copy(item)
            for key, item in value.items()
        }
    if isinstance(value, str):
        return _encodable(str.__str__(value))
    if isinstance(value, (list, tuple)):
        return [_plain_copy(item) for item in value]
    if isinstance(value, Mapping):
        return _plain_copy(dict(value))
    dump = getattr(value, "model_dump", None)
    return _plain_copy(dump(exclude_none=True)) if callable(dump) else value


def _encodable(text: str) -> str:
    """Replace lone surrogates, which no request and no file could carry."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return "".join("\ufffd" if "\ud800" <= character <= "\udfff" else character for character in text)
    return text


def _metadata(message: Message) -> dict[str, Any]:
    metadata = message.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _is_human(message: Message) -> bool:
    """Return whether a person wrote a user message, not a hook or an orchestrator."""
    content = message["content"]
    return not (isinstance(content, str) and is_reminder(content)) and _metadata(message).get("source") != "hook"

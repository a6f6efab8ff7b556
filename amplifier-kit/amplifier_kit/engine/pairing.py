"""Check and repair the pairing of tool calls with their results.

A history is sound when each assistant message that calls tools is followed directly by one result per call, every
result has a call, and no id is used twice. Model services reject anything else, so one unsound message would make a
session unusable. Messages are plain dicts, as `docs/contracts` describe them; nothing here changes its input.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from amplifier_kit.named_tuple import NamedTuple

Kind = Literal[
    "missing_result", "orphan_result", "duplicate_result", "misplaced_result", "duplicate_id", "unclosed_turn"
]

MISSING_RESULT_TEXT: Final = (
    "[SYSTEM ERROR: Tool result missing] The result of this call was lost, most likely because the session stopped "
    "while the call was running. It may or may not have taken effect: check before calling again."
)
_CLOSING_TEXT: Final = "The turn was interrupted here. The results above are all that is known of these calls."
#: Where an assistant message has its calls: in a list, in content blocks, or in both.
_CALL_KEYS: Final = ("tool_calls", "content")
_CALL_BLOCKS: Final = frozenset({"tool_call", "tool_use"})

Message = Mapping[str, Any]


class Violation(NamedTuple):
    """A fault of one call or result, and the position of the message."""

    kind: Kind
    tool_call_id: str
    tool_name: str
    position: int

    def __str__(self) -> str:
        tool = self.tool_name or "unknown tool"
        return f"{self.kind} of call {self.tool_call_id!r} ({tool}) at message {self.position}"


class Repair(NamedTuple):
    """A repaired violation; the id is the one that the call has now."""

    kind: Kind
    tool_call_id: str
    tool_name: str


class Repaired(NamedTuple):
    """A sound history and the repairs that it took; none when it was sound."""

    messages: list[dict[str, Any]]
    repairs: list[Repair]


# -- the calls of a message --


class _Call(NamedTuple):
    """One call of a message; calls that share an id have different numbers."""

    id: str
    number: int
    tool: str


def tool_call_ids(message: Message) -> list[str]:
    """Return the ids of the calls that an assistant message makes, in order; a call without an id gives ''.

    A call that is both in `tool_calls` and in a content block is one call.
    """
    return [call.id for call in _calls(message)]


def tool_call_names(message: Message) -> dict[str, str]:
    """Return the tool of each call that an assistant message makes, by call id; '' where it is not named."""
    return {call.id: call.tool for call in _calls(message)}


def is_tool_result(message: Message) -> bool:
    return message.get("role") == "tool"


def tool_result(tool_call_id: str, tool_name: str, content: Any, **metadata: Any) -> dict[str, Any]:
    """Build the message that answers one call; `metadata` is added only when there is some."""
    message: dict[str, Any] = {"role": "tool", "tool_call_id": tool_call_id, "name": tool_name, "content": content}
    return {**message, "metadata": metadata} if metadata else message


def rename_calls(message: Message, taken: Iterable[str]) -> dict[str, Any]:
    """Return an assistant message whose calls have ids that are neither empty, nor in `taken`, nor used twice.

    The message itself is returned when it does not have such a call.
    """
    calls = _calls(message)
    seen = set(taken) if calls else set()
    return _with_ids(message, {(call.id, call.number): _unused(call.id, seen) for call in calls})


def _calls(message: Message) -> list[_Call]:
    if message.get("role") != "assistant":
        return []
    calls: dict[tuple[str, int], _Call] = {}
    for key in _CALL_KEYS:
        for entry, call in _numbered(message, key):
            if call is not None and call not in calls:
                calls[call] = _Call(*call, _tool_of(entry))
    return list(calls.values())


def _numbered(message: Message, key: str) -> Iterator[tuple[Any, tuple[str, int] | None]]:
    """Yield the entries of a list in a message; those that are calls with their id and their number for that id."""
    entries = message.get(key)
    numbers: dict[str, int] = {}
    for entry in entries if isinstance(entries, (list, tuple)) else ():
        is_call = isinstance(entry, Mapping) and (key == "tool_calls" or entry.get("type") in _CALL_BLOCKS)
        if not is_call:
            yield entry, None
            continue
        call_id = _text(entry.get("id"))
        number = numbers[call_id] = numbers.get(call_id, -1) + 1
        yield entry, (call_id, number)


def _with_ids(message: Message, ids: Mapping[tuple[str, int], str]) -> dict[str, Any]:
    """Return a message with other ids of its calls, itself when they are the same."""
    if all(new == old for (old, _), new in ids.items()):
        return message  # type: ignore[return-value]  # any mapping is read as a dict here
    copied = dict(message)
    for key in _CALL_KEYS:
        if isinstance(message.get(key), (list, tuple)):
            copied[key] = [
                entry if call is None or ids[call] == call[0] else {**entry, "id": ids[call]}
                for entry, call in _numbered(message, key)
            ]
    return copied


def _unused(wanted: str, seen: set[str]) -> str:
    """Return an id that is not in `seen`, and add it there."""
    base = wanted or "call"
    number, candidate = 2, base
    while candidate in seen:
        candidate, number = f"{base}_{number}", number + 1
    seen.add(candidate)
    return candidate


def _tool_of(entry: Message) -> str:
    named = entry.get("tool") or entry.get("name")
    if not named and isinstance(function := entry.get("function"), Mapping):
        named = function.get("name")
    return _text(named)


def _result_id(message: Message) -> str:
    return _text(message.get("tool_call_id"))


def _text(value: Any) -> str:
    return "" if value is None else str(value)


# -- checking --


def check_pairing(messages: Sequence[Message]) -> list[Violation]:
    """Return the violations of a history, in order; an empty list means it is sound."""
    violations: list[Violation] = []
    used: set[str] = set()
    answered: set[str] = set()
    pending: dict[str, str] = {}
    opened_at = 0
    strays: list[tuple[int, str]] = []
    for index, message in enumerate(messages):
        if is_tool_result(message):
            result_id = _result_id(message)
            if pending.pop(result_id, None) is not None:
                answered.add(result_id)
            else:
                strays.append((index, result_id))
            continue
        violations += [Violation("missing_result", lost, tool, opened_at) for lost, tool in pending.items()]
        pending, opened_at = {}, index
        for call in _calls(message):
            if not call.id or call.id in used:
                violations.append(Violation("duplicate_id", call.id, call.tool, index))
            used.add(call.id)
            pending[call.id] = call.tool
    violations += [Violation("missing_result", lost, tool, opened_at) for lost, tool in pending.items()]
    for index, result_id in strays:
        kind: Kind = "duplicate_result" if result_id in answered else "misplaced_result"
        kind = kind if result_id in used else "orphan_result"
        violations.append(Violation(kind, result_id, _text(messages[index].get("name")), index))
    return sorted(violations, key=lambda violation: violation.position)


# -- repairing --


def repair_pairing(messages: Sequence[Message]) -> Repaired:
    """Return a sound history with the same content, and the repairs that it took.

    A missing result is replaced by one that says so, followed by a closing assistant message when the user speaks next;
    a result without a call, or a second one for the same call, is left out; a result elsewhere is moved behind its
    call; an id used again is renamed with its result. All other messages stay, in order. Messages that need no change
    are the very objects given; changed ones are copies. Repairing twice is repairing once.
    """
    if not check_pairing(messages):
        return Repaired(list(messages), [])  # type: ignore[arg-type]
    return _Repairer(messages).run()


def repair_report(provider: str, repairs: Sequence[Repair]) -> dict[str, Any]:
    """Return the payload of `provider:tool_sequence_repaired`."""
    calls = [
        {"tool_call_id": repair.tool_call_id, "tool_name": repair.tool_name, "kind": repair.kind}
        for repair in repairs
        if repair.kind != "unclosed_turn"
    ]
    report: dict[str, Any] = {"provider": provider, "repair_count": len(calls), "repairs": calls}
    if len(calls) < len(repairs):
        report["synthetic_assistant_count"] = len(repairs) - len(calls)
    return report


class _Slot:
    """One call of the message at `position`, its final id, and the position of its result."""

    __slots__ = ("call", "new_id", "position", "result")

    def __init__(self, position: int, call: _Call) -> None:
        self.position = position
        self.call = call
        self.new_id = ""
        self.result: int | None = None


class _Repairer:
    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages
        self._slots: dict[int, list[_Slot]] = {}
        self._repairs: list[tuple[int, Repair]] = []
        self._out: list[Any] = []

    def run(self) -> Repaired:
        self._match_results()
        # The first use of an id keeps it, so that a prefix which was sent before stays the same.
        seen: set[str] = set()
        for slots in self._slots.values():
            for slot in slots:
                slot.new_id = _unused(slot.call.id, seen)
        for position, message in enumerate(self._messages):
            if position in self._slots:
                self._put_exchange(position, self._slots[position])
            elif not is_tool_result(message):
                self._out.append(message)
        return Repaired(self._out, [repair for _, repair in sorted(self._repairs, key=lambda noted: noted[0])])

    def _match_results(self) -> None:
        """Give each result to the nearest unanswered call before it, else to the first one after it, else drop it."""
        unanswered: dict[str, list[_Slot]] = {}
        early: list[int] = []
        for position, message in enumerate(self._messages):
            if not is_tool_result(message):
                if calls := _calls(message):
                    self._slots[position] = [_Slot(position, call) for call in calls]
                    for slot in self._slots[position]:
                        unanswered.setdefault(slot.call.id, []).append(slot)
            elif slots := unanswered.get(_result_id(message)):
                # Of several calls with this id in the nearest message, the first.
                slot = next(slot for slot in slots if slot.position == slots[-1].position)
                slot.result = position
                slots.remove(slot)
            else:
                early.append(position)
        for position in early:
            result_id = _result_id(self._messages[position])
            later = next((slot for slot in unanswered.get(result_id, ()) if slot.position > position), None)
            if later is not None:
                later.result = position
                unanswered[result_id].remove(later)
            else:
                kind: Kind = "duplicate_result" if result_id in unanswered else "orphan_result"
                self._note(position, kind, result_id, _text(self._messages[position].get("name")))

    def _put_exchange(self, position: int, slots: list[_Slot]) -> None:
        """Write a message with calls and, directly after it, their results."""
        message = self._messages[position]
        self._out.append(_with_ids(message, {(slot.call.id, slot.call.number): slot.new_id for slot in slots}))
        following = position + 1
        while following < len(self._messages) and is_tool_result(self._messages[following]):
            following += 1
        for slot in slots:
            if slot.new_id != slot.call.id:
                self._note(position, "duplicate_id", slot.new_id, slot.call.tool)
        # Results in their old order, the missing ones behind them in the order of their calls.
        for slot in sorted(slots, key=lambda slot: (slot.result is None, slot.result or 0)):
            if slot.result is None:
                self._note(position, "missing_result", slot.new_id, slot.call.tool)
                self._out.append(tool_result(slot.new_id, slot.call.tool, MISSING_RESULT_TEXT, synthetic=True))
                continue
            if not position < slot.result < following:
                self._note(position, "misplaced_result", slot.new_id, slot.call.tool)
            result = self._messages[slot.result]
            self._out.append(result if slot.new_id == slot.call.id else {**result, "tool_call_id": slot.new_id})
        if any(slot.result is None for slot in slots):
            rest = (message for message in self._messages[following:] if not is_tool_result(message))
            if next(rest, {}).get("role") == "user":  # some services want an assistant message before the user's
                self._note(position, "unclosed_turn", "", "")
                self._out.append({"role": "assistant", "content": _CLOSING_TEXT, "metadata": {"synthetic": True}})

    def _note(self, position: int, kind: Kind, tool_call_id: str, tool: str) -> None:
        self._repairs.append((position, Repair(kind, tool_call_id, tool)))

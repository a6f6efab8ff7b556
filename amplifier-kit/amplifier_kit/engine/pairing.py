"""Keep every tool call paired with exactly one result, in the place where models expect it.

A history is sound when each assistant message that calls tools is followed directly by one result per call, no result
stands without its call, and no id is used twice. Model services refuse anything else, so one unsound message would end
a session for ever. Messages are plain dicts, as `docs/contracts` describe them; nothing here changes its input.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

__all__ = [
    "MISSING_RESULT_TEXT",
    "Repair",
    "Repaired",
    "Violation",
    "check_pairing",
    "is_tool_result",
    "rename_calls",
    "repair_pairing",
    "tool_call_ids",
    "tool_call_names",
    "tool_result",
]

Kind = Literal[
    "missing_result", "orphan_result", "duplicate_result", "misplaced_result", "duplicate_id", "unclosed_turn"
]

MISSING_RESULT_TEXT: Final = (
    "[SYSTEM ERROR: Tool result missing] The result of this call was lost, most likely because the session stopped "
    "while the call was running. It may or may not have taken effect: check before calling again."
)
_CLOSING_TEXT: Final = "The turn was interrupted here. What is known of the calls above stands in their results."
_CALL_BLOCKS: Final = frozenset({"tool_call", "tool_use"})
_LISTS: Final = (list, tuple)


class Violation(NamedTuple):
    """Say what is wrong with one call or result, and at which message."""

    kind: Kind
    tool_call_id: str
    tool_name: str
    position: int

    def __str__(self) -> str:
        tool = self.tool_name or "unknown tool"
        return f"{self.kind} of call {self.tool_call_id!r} ({tool}) at message {self.position}"


class Repair(NamedTuple):
    """Say what was put right: the kind of violation, and the call by the id that it has now."""

    kind: Kind
    tool_call_id: str
    tool_name: str


class Repaired(NamedTuple):
    """Hold a sound history and what had to be done for it; no repairs means it was sound."""

    messages: list[dict[str, Any]]
    repairs: list[Repair]


class _Call(NamedTuple):
    """Name one call of a message; calls that share an id are told apart by their number."""

    id: str
    number: int
    tool: str


class _Slot:
    """Follow one call through a repair: its final id and the message that answers it."""

    __slots__ = ("call", "group", "new_id", "result")

    def __init__(self, group: int, call: _Call) -> None:
        self.group = group
        self.call = call
        self.new_id = call.id
        self.result: int | None = None


def tool_call_ids(message: Mapping[str, Any]) -> list[str]:
    """Return the ids of the calls that an assistant message makes, in order; a call without an id gives ''.

    A call that stands both in `tool_calls` and in a content block is one call.
    """
    return [call.id for call in _calls(message)]


def tool_call_names(message: Mapping[str, Any]) -> dict[str, str]:
    """Return the tool of each call that an assistant message makes, by call id; '' where it is not said."""
    return {call.id: call.tool for call in _calls(message)}


def is_tool_result(message: Mapping[str, Any]) -> bool:
    """Tell whether a message is the result of a tool call."""
    return message.get("role") == "tool"


def tool_result(tool_call_id: str, tool_name: str, content: Any, **metadata: Any) -> dict[str, Any]:
    """Build the message that answers one call; `metadata` is added only when there is some."""
    message: dict[str, Any] = {"role": "tool", "tool_call_id": tool_call_id, "name": tool_name, "content": content}
    return {**message, "metadata": metadata} if metadata else message


def check_pairing(messages: Sequence[Mapping[str, Any]]) -> list[Violation]:
    """Return what is wrong with a history, in order; an empty list means it is sound."""
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
        name = str(messages[index].get("name") or "")
        violations.append(Violation(_stray_kind(result_id, used, answered), result_id, name, index))
    return sorted(violations, key=lambda violation: violation.position)


def _stray_kind(result_id: str, used: set[str], answered: set[str]) -> Kind:
    if result_id not in used:
        return "orphan_result"
    return "duplicate_result" if result_id in answered else "misplaced_result"


def repair_pairing(messages: Sequence[Mapping[str, Any]]) -> Repaired:
    """Return a sound history that says the same, and what had to be done for it.

    A missing result is replaced by one that says so, followed by a closing assistant message when the user speaks next;
    a result without a call, or a second one for the same call, is left out; a result elsewhere is moved behind its
    call; an id used again is renamed with its result. All other messages stay, in order. Messages that need no change
    are the very objects given; changed ones are copies. Repairing twice is repairing once.
    """
    if not check_pairing(messages):
        return Repaired(list(messages), [])  # type: ignore[arg-type]  # any mapping is read as a dict here
    return _Mending(messages).mend()


class _Mending:
    """Hold what one repair knows: the slot of every call, and which result fills it."""

    def __init__(self, messages: Sequence[Mapping[str, Any]]) -> None:
        self._messages = messages
        self._groups: dict[int, list[_Slot]] = {}
        self._unanswered: dict[str, list[_Slot]] = {}
        self._repairs: list[tuple[int, Repair]] = []
        self._out: list[dict[str, Any]] = []

    def mend(self) -> Repaired:
        self._match()
        self._rename()
        for index, message in enumerate(self._messages):
            if is_tool_result(message):
                continue
            slots = self._groups.get(index)
            if slots is None:
                self._out.append(message)  # type: ignore[arg-type]
            else:
                self._put_group(index, slots)
        return Repaired(self._out, [repair for _, repair in sorted(self._repairs, key=lambda noted: noted[0])])

    def _match(self) -> None:
        """Give each result to the nearest unanswered call before it, else to the first one after it, else drop it."""
        used: set[str] = set()
        early: list[int] = []
        for index, message in enumerate(self._messages):
            if is_tool_result(message):
                if not self._claim(index, _result_id(message)):
                    early.append(index)
            elif calls := _calls(message):
                slots = self._groups[index] = [_Slot(index, call) for call in calls]
                for slot in slots:
                    used.add(slot.call.id)
                    self._unanswered.setdefault(slot.call.id, []).append(slot)
        for index in early:
            result_id = _result_id(self._messages[index])
            later = [slot for slot in self._unanswered.get(result_id, ()) if slot.group > index]
            if later:
                later[0].result = index
                self._unanswered[result_id].remove(later[0])
                continue
            kind: Kind = "duplicate_result" if result_id in used else "orphan_result"
            self._note(index, kind, result_id, str(self._messages[index].get("name") or ""))

    def _claim(self, index: int, result_id: str) -> bool:
        open_slots = self._unanswered.get(result_id)
        if not open_slots:
            return False
        nearest = open_slots[-1].group
        slot = next(slot for slot in open_slots if slot.group == nearest)
        slot.result = index
        open_slots.remove(slot)
        return True

    def _rename(self) -> None:
        """Give every call an id of its own; the first use of an id keeps it, so that what is sent early stays."""
        seen: set[str] = set()
        for slots in self._groups.values():
            for slot in slots:
                slot.new_id = _unused(slot.call.id, seen)
                seen.add(slot.new_id)

    def _put_group(self, index: int, slots: list[_Slot]) -> None:
        renamed = {(slot.call.id, slot.call.number): slot.new_id for slot in slots if slot.new_id != slot.call.id}
        message = self._messages[index]
        self._out.append(_with_ids(message, renamed) if renamed else message)  # type: ignore[arg-type]
        last_direct = index
        while last_direct + 1 < len(self._messages) and is_tool_result(self._messages[last_direct + 1]):
            last_direct += 1
        for slot in slots:
            if slot.new_id != slot.call.id:
                self._note(index, "duplicate_id", slot.new_id, slot.call.tool)
        for slot in sorted(slots, key=_place):
            if slot.result is None:
                self._note(index, "missing_result", slot.new_id, slot.call.tool)
                self._out.append(tool_result(slot.new_id, slot.call.tool, MISSING_RESULT_TEXT, synthetic=True))
                continue
            if not index < slot.result <= last_direct:
                self._note(index, "misplaced_result", slot.new_id, slot.call.tool)
            result = self._messages[slot.result]
            same = slot.new_id == slot.call.id
            self._out.append(result if same else {**result, "tool_call_id": slot.new_id})  # type: ignore[arg-type]
        if any(slot.result is None for slot in slots):
            self._close_turn(index)

    def _close_turn(self, index: int) -> None:
        """Let the assistant speak between lost results and the user: some services insist on it."""
        rest = (message for message in self._messages[index + 1 :] if not is_tool_result(message))
        following = next(rest, None)
        if following is not None and following.get("role") == "user":
            self._note(index, "unclosed_turn", "", "")
            self._out.append({"role": "assistant", "content": _CLOSING_TEXT, "metadata": {"synthetic": True}})

    def _note(self, index: int, kind: Kind, tool_call_id: str, tool: str) -> None:
        self._repairs.append((index, Repair(kind, tool_call_id, tool)))


def rename_calls(message: Mapping[str, Any], taken: Iterable[str]) -> dict[str, Any]:
    """Return an assistant message whose calls have ids that are neither empty, nor in `taken`, nor used twice.

    The message itself is returned when it has no such call.
    """
    calls = _calls(message)
    seen = set(taken) if calls else set()
    renamed: dict[tuple[str, int], str] = {}
    for call in calls:
        new_id = _unused(call.id, seen)
        seen.add(new_id)
        if new_id != call.id:
            renamed[call.id, call.number] = new_id
    return _with_ids(message, renamed) if renamed else message  # type: ignore[return-value]


def _unused(wanted: str, seen: set[str]) -> str:
    base = wanted or "call"
    number, candidate = 2, base
    while candidate in seen:
        candidate, number = f"{base}_{number}", number + 1
    return candidate


def _place(slot: _Slot) -> tuple[bool, int]:
    """Sort results as they stood, and those that are missing behind them, in order of their calls."""
    return slot.result is None, slot.result or 0


def _calls(message: Mapping[str, Any]) -> list[_Call]:
    if message.get("role") != "assistant":
        return []
    listed, blocks = _listed(message), _blocks(message)
    if not listed and not blocks:
        return []
    calls: dict[tuple[str, int], _Call] = {}
    for entries in (listed, blocks):
        numbers: dict[str, int] = {}
        for entry in entries:
            call_id = _text(entry.get("id"))
            number = numbers[call_id] = numbers.get(call_id, -1) + 1
            calls.setdefault((call_id, number), _Call(call_id, number, _tool_of(entry)))
    return list(calls.values())


def _listed(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    listed = message.get("tool_calls")
    return [entry for entry in listed if isinstance(entry, Mapping)] if isinstance(listed, _LISTS) else []


def _blocks(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = message.get("content")
    if not isinstance(content, _LISTS):
        return []
    return [block for block in content if isinstance(block, Mapping) and block.get("type") in _CALL_BLOCKS]


def _with_ids(message: Mapping[str, Any], renamed: Mapping[tuple[str, int], str]) -> dict[str, Any]:
    """Copy a message with the ids of some of its calls replaced, wherever they stand."""
    copied = dict(message)
    for key, calls in (("tool_calls", _listed(message)), ("content", _blocks(message))):
        if not calls:
            continue
        numbers: Counter[str] = Counter()
        entries: list[Any] = []
        for entry in message[key]:
            if any(entry is call for call in calls):
                old = _text(entry.get("id"))
                new = renamed.get((old, numbers[old]))
                numbers[old] += 1
                entries.append(entry if new is None else {**entry, "id": new})
            else:
                entries.append(entry)
        copied[key] = entries
    return copied


def _tool_of(entry: Mapping[str, Any]) -> str:
    named = entry.get("tool") or entry.get("name")
    if not named and isinstance(function := entry.get("function"), Mapping):
        named = function.get("name")
    return _text(named)


def _result_id(message: Mapping[str, Any]) -> str:
    return _text(message.get("tool_call_id"))


def _text(value: Any) -> str:
    return "" if value is None else str(value)

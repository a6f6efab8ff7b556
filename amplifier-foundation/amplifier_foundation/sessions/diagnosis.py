"""Diagnose the conversation of a session, repair it, or rewind it to its last valid turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from amplifier_foundation.sessions.log import lock_session
from amplifier_foundation.sessions.transcript import (
    History,
    RepairedHistory,
    closing_message,
    lines_of,
    load_history,
    repair_history,
    store_history,
)
from amplifier_foundation.sessions.turns import turn_boundaries
from amplifier_kit.engine.pairing import Repair, check_pairing, tool_call_ids
from amplifier_kit.named_tuple import NamedTuple

__all__ = [
    "Diagnosis",
    "RepairResult",
    "diagnose",
    "end_of_valid_turns",
    "incomplete_turns",
    "repair",
    "repair_messages",
    "rewind",
]

Message = dict[str, Any]

_MODES: Final = {
    "missing_result": "missing_tool_results",
    "orphan_result": "orphaned_tool_results",
    "duplicate_result": "duplicate_tool_results",
    "misplaced_result": "misplaced_tool_results",
    "duplicate_id": "duplicate_tool_ids",
}
_INCOMPLETE: Final = "incomplete_turns"


@dataclass(frozen=True)
class Diagnosis:
    """Whether a provider would accept a conversation, and why not."""

    status: Literal["healthy", "broken"]
    #: The kinds of problems, in order of appearance.
    failure_modes: list[str] = field(default_factory=list)
    #: Calls without a result, and results without a call.
    orphaned_tool_ids: list[str] = field(default_factory=list)
    #: Results that do not follow their call.
    misplaced_tool_ids: list[str] = field(default_factory=list)
    #: Turns, counted from 1, that end with a tool result instead of an answer.
    incomplete_turns: list[int] = field(default_factory=list)
    recommended_action: Literal["none", "repair"] = "none"


class RepairResult(NamedTuple):
    """What was done to the transcript of a session: nothing if `actions` is empty."""

    actions: list[str]
    messages: int
    turns: int


def diagnose(messages: Sequence[Mapping[str, Any]]) -> Diagnosis:
    """Return the problems of a conversation; nothing is changed."""
    violations = check_pairing(messages)
    incomplete = list(incomplete_turns(messages))
    modes = dict.fromkeys(_MODES[violation.kind] for violation in violations)
    if incomplete:
        modes[_INCOMPLETE] = None
    if not modes:
        return Diagnosis("healthy")
    lost = ("missing_result", "orphan_result")
    return Diagnosis(
        "broken",
        list(modes),
        [violation.tool_call_id for violation in violations if violation.kind in lost],
        [violation.tool_call_id for violation in violations if violation.kind == "misplaced_result"],
        incomplete,
        "repair",
    )


def repair(folder: Path) -> RepairResult:
    """Repair the transcript of a session so that it can be resumed; the old one becomes `.backup`.

    Lines without a message are left out, every call gets a result, every turn with tools an answer. Raises
    SessionRunningError while the session runs, HistoryError or OSError when the transcript cannot be read or written.
    """
    with _lock(folder):
        history = load_history(folder)
        sound = repair_messages(history.messages)
        return _stored(folder, history, sound.messages, sound.notes)


def rewind(folder: Path) -> RepairResult:
    """Remove everything after the last valid turn; the old transcript becomes `.backup`. Raises as `repair` does."""
    with _lock(folder):
        history = load_history(folder)
        messages = history.messages
        end = end_of_valid_turns(messages)
        gone = len(messages) - end
        turns = len(turn_boundaries(messages)) - len(turn_boundaries(messages[:end]))
        done = [f"removed {gone} messages of {turns} turns"] if gone else []
        return _stored(folder, history, messages[:end], done)


def _stored(folder: Path, history: History, messages: list[Message], done: list[str]) -> RepairResult:
    actions = [*(problem for problem in history.problems if history.source != "empty"), *done]
    if actions:
        store_history(folder, lines_of(messages, history), keep_backup=history.source == "transcript")
    return RepairResult(actions, len(messages), len(turn_boundaries(messages)))


def _lock(folder: Path) -> AbstractContextManager[None]:
    return lock_session(folder, "repaired") if folder.is_dir() else nullcontext()


def repair_messages(messages: Sequence[Mapping[str, Any]]) -> RepairedHistory:
    """Return a conversation in which every call has a result and every turn with tools an answer, and the repairs.

    Messages that need no repair are the same objects.
    """
    sound = repair_history(messages)
    starts = set(turn_boundaries(sound.messages))
    out: list[Message] = []
    for position, message in enumerate(sound.messages):
        if position in starts and out and _is_open(out[-1]):
            out.append(closing_message())
            sound.repairs.append(Repair("unclosed_turn", "", ""))
        out.append(message)
    return RepairedHistory(out, sound.repairs)


def incomplete_turns(messages: Sequence[Mapping[str, Any]]) -> dict[int, int]:
    """Return the turns that end with a tool call or its result, and the position of that message.

    They are counted from 1; 0 stands for messages before the first prompt.
    """
    ends = [*turn_boundaries(messages), len(messages)]
    return {turn: end - 1 for turn, end in enumerate(ends) if end and _is_open(messages[end - 1])}


def _is_open(message: Mapping[str, Any]) -> bool:
    """Return whether a turn cannot end with this message: a tool call or a tool result."""
    return message.get("role") == "tool" or bool(tool_call_ids(message))


def end_of_valid_turns(messages: Sequence[Mapping[str, Any]]) -> int:
    """Return the position after the last turn that is valid, with all turns before it."""
    broken = min((violation.position for violation in check_pairing(messages)), default=len(messages))
    good = 0
    for end in [*turn_boundaries(messages), len(messages)]:
        if end > broken or (end and _is_open(messages[end - 1])):
            break
        good = end
    return good

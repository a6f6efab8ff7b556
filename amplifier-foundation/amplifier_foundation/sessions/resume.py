"""Take a session up again: its conversation, its notes, and what it was made of."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from amplifier_foundation.plan.composed import Composed, RecordError
from amplifier_foundation.sessions.history import BACKUP, TRANSCRIPT, load_history, load_ledger, repaired
from amplifier_foundation.sessions.keeper import RECORD, shown_prompt
from amplifier_foundation.sessions.metadata import load_metadata
from amplifier_foundation.sessions.recovery import recover
from amplifier_foundation.sessions.turns import count_turns, message_text, starts_turn
from amplifier_foundation.usage.history import current_facts
from amplifier_kit.engine.pairing import tool_call_ids

Message = dict[str, Any]

#: Instructions are derived anew; one that a transcript of another program holds is not said again.
_INSTRUCTIONS = ("system", "developer")


@dataclass(frozen=True)
class SavedSession:
    """A session on disk, ready to go on."""

    session_id: str
    folder: Path
    #: The conversation, mended where a crash cut it off: every call has one result.
    messages: list[Message]
    #: The conversation as the file has it.
    stored: list[Message]
    metadata: dict[str, Any] = field(default_factory=dict)
    #: What the session was made of; None for sessions that another program wrote, or whose record is damaged.
    recorded: Composed | None = None
    #: What was mended, and what could not be read, in readable lines.
    notes: tuple[str, ...] = ()

    @property
    def bundle(self) -> str | None:
        """Return the bundle that the session's notes name, None when they name none."""
        named = str(self.metadata.get("bundle") or "").removeprefix("bundle:")
        return named if named and named != "unknown" else None

    @property
    def project(self) -> Path | None:
        """Return the folder that the session worked in, None when it does not exist any more or is not known."""
        named = self.metadata.get("working_dir")
        return Path(named) if isinstance(named, str) and Path(named).is_dir() else None

    @property
    def turn_count(self) -> int:
        """Return how many turns there were; one that was cut off counts when its prompt is known."""
        noted, there = self.metadata.get("turn_count"), count_turns(self.messages)
        if not isinstance(noted, int) or isinstance(noted, bool) or noted < 0:
            return there
        # A turn is counted before its prompt is taken; the notes may know of turns that were cleared since.
        return min(noted, max(there, noted - 1)) if self.metadata.get("incremental") else noted

    @property
    def first_prompt(self) -> str | None:
        """Return what the session began with, None when nothing was said yet."""
        noted = self.metadata.get("first_prompt")
        if isinstance(noted, str) and noted:
            return noted
        spoken = next((message for message in self.messages if starts_turn(message)), None)
        return shown_prompt(message_text(spoken)) if spoken is not None else None


def load_session(folder: Path) -> SavedSession:
    """Return the session in `folder`, whatever state it was left in.

    A turn that was cut off is completed from the log, and calls without a result get one that says so. What is damaged
    is told in `notes`; nothing on disk is changed. Raises HistoryError for a conversation that cannot be read.
    """
    kept = load_metadata(folder)
    metadata = kept.data
    history = load_history(folder)
    notes = [*(note for note in (kept.damaged, kept.warning) if note), *history.problems]
    messages = stored = conversation(history.messages)
    # Without notes nobody knows whether a turn was running.
    if metadata.get("incremental") or not metadata or _is_cut_off(messages):
        ledger = conversation(load_ledger(folder))
        messages = ledger if len(ledger) > len(stored) and says_same(stored, ledger) else stored
        messages, recovered = recover(messages, folder)
        notes += recovered
        if used := current_facts(folder, metadata):
            metadata = {**metadata, "usage": used}
    mended = repaired(messages)
    notes += mended.notes
    notes += _emptied(folder, metadata, stored)
    recorded, problem = _recorded(folder)
    notes += [problem] if problem else []
    identity = str(metadata.get("session_id") or folder.name)
    return SavedSession(identity, folder, mended.messages, stored, metadata, recorded, tuple(notes))


def conversation(messages: Sequence[Message]) -> list[Message]:
    """Return messages without the instructions among them."""
    return [message for message in messages if message.get("role") and message["role"] not in _INSTRUCTIONS]


def says_same(messages: Sequence[Message], others: Sequence[Message]) -> bool:
    """Tell whether two histories say the same as far as both go, whatever else is noted about their messages."""
    return all(
        one.get("role") == other.get("role")
        and one.get("tool_call_id") == other.get("tool_call_id")
        and message_text(one) == message_text(other)
        for one, other in zip(messages, others, strict=False)
    )


def _is_cut_off(messages: list[Message]) -> bool:
    """Tell whether the conversation ends in the middle of a turn."""
    return bool(messages) and (messages[-1].get("role") != "assistant" or bool(tool_call_ids(messages[-1])))


def _emptied(folder: Path, metadata: dict[str, Any], stored: list[Message]) -> list[str]:
    """Return what to tell of a transcript that lost all it held; one that was cleared has left its backup."""
    turns = metadata.get("turn_count")
    if stored or not isinstance(turns, int) or turns <= bool(metadata.get("incremental")):
        return []
    path = folder / TRANSCRIPT
    if not path.exists() or (folder / BACKUP).exists():
        return []  # told already, or nothing to tell
    had = "one turn" if turns == 1 else f"{turns} turns"
    return [f"{path} is empty, though the session had {had}: what was said before is in the log alone"]


def _recorded(folder: Path) -> tuple[Composed | None, str]:
    path = folder / RECORD
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None, ""
    except (OSError, ValueError, RecursionError) as error:
        return None, f"{path}: what the session was made of cannot be read: {error}"
    if not isinstance(content, dict):
        return None, f"{path}: what the session was made of cannot be read: not a mapping"
    try:
        return Composed.from_record(content, str(path)), ""
    except RecordError as error:
        return None, str(error)

"""Fork sessions, on disk and in memory, and follow forks to their originals."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from amplifier_foundation.session.files import StrPath, existing
from amplifier_foundation.session.turns import count_turns, get_turn_summary, is_user_message, slice_to_turn
from amplifier_foundation.sessions import fork
from amplifier_foundation.sessions.metadata import load_metadata, read_summary
from amplifier_foundation.sessions.store import folder_names, lineage
from amplifier_foundation.sessions.transcript import load_history
from amplifier_foundation.sessions.turns import Orphans, settle_orphans

__all__ = [
    "ForkResult",
    "fork_session",
    "fork_session_in_memory",
    "get_fork_preview",
    "get_session_lineage",
    "list_session_forks",
]

Message = dict[str, Any]


@dataclass
class ForkResult:
    """A new session, and how much of the original it has."""

    session_id: str
    #: None for a fork in memory.
    session_dir: Path | None
    parent_id: str | None
    #: The last turn that it has.
    forked_from_turn: int
    message_count: int
    #: Of a fork in memory; others have them in their transcript.
    messages: list[Message] | None = None
    events_count: int = 0
    #: Problems of the original.
    warnings: tuple[str, ...] = ()


def fork_session(
    session_dir: StrPath,
    turn: int | None = None,
    new_session_id: str | None = None,
    target_dir: StrPath | None = None,
    include_events: bool = True,
    handle_orphaned_tools: Orphans = "complete",
) -> ForkResult:
    """Copy a session, which may be running, up to the end of a turn; all of it without one.

    The copy is beside the original, or is the folder `target_dir`, which must not exist. Its events end where the turn
    ends. For calls without a result see `slice_to_turn`. Raises FileNotFoundError without the session, ForkError for an
    id that is invalid or taken, TurnRangeError, OrphanedCallsError (the three are ValueErrors), HistoryError if the
    transcript cannot be read, and OSError; nothing is left behind then.
    """
    target = None if target_dir is None else Path(target_dir)
    made = fork.fork_session(
        existing(session_dir),
        at_turn=turn,
        new_id=target.name if target is not None and new_session_id is None else new_session_id,
        include_events=include_events,
        orphans=handle_orphaned_tools,
        target=target,
        is_start=is_user_message,
    )
    return ForkResult(
        made.session_id,
        made.folder,
        made.parent_id,
        made.turns,
        made.messages,
        events_count=made.events,
        warnings=made.warnings,
    )


def fork_session_in_memory(
    messages: Sequence[Message],
    turn: int | None = None,
    parent_id: str | None = None,
    new_session_id: str | None = None,
    handle_orphaned_tools: Orphans = "complete",
) -> ForkResult:
    """Return a fork of a conversation, up to the end of a turn; nothing is written.

    Raises TurnRangeError and OrphanedCallsError, which are ValueErrors.
    """
    kept = (
        settle_orphans(messages, handle_orphaned_tools)
        if turn is None
        else slice_to_turn(messages, turn, handle_orphaned_tools)
    )
    session_id = new_session_id or str(uuid.uuid4())
    return ForkResult(session_id, None, parent_id, count_turns(kept), len(kept), kept)


def get_fork_preview(session_dir: StrPath, turn: int) -> dict[str, Any]:
    """Return what `fork_session` would copy; nothing is written. Raises as it does.

    The keys are `parent_id`, `turn`, `max_turns`, `message_count`, `events_count`, `has_orphaned_tools`,
    `orphaned_tool_count`, `orphaned_tool_ids`, `last_user_message`, `last_assistant_message` and `warnings`.
    """
    folder = existing(session_dir)
    preview = fork.preview_fork(folder, at_turn=turn, is_start=is_user_message)
    summary = get_turn_summary(preview.conversation, turn)
    return {
        "parent_id": _id(folder),
        "turn": turn,
        # The last turn may have been recovered from the log.
        "max_turns": max(count_turns(load_history(folder).messages), turn),
        "message_count": preview.messages,
        "events_count": preview.events,
        "has_orphaned_tools": bool(preview.orphaned_tool_ids),
        "orphaned_tool_count": len(preview.orphaned_tool_ids),
        "orphaned_tool_ids": list(preview.orphaned_tool_ids),
        "last_user_message": summary["user_content"],
        "last_assistant_message": summary["assistant_content"],
        "warnings": list(preview.warnings),
    }


def list_session_forks(session_dir: StrPath) -> list[dict[str, Any]]:
    """Return the forks of a session that are beside it, the oldest first.

    Each has `session_id`, `session_dir`, `forked_from_turn`, `forked_at`, `turn_count` and `name`. Raises
    FileNotFoundError without the session, SessionsUnreadableError.
    """
    folder = existing(session_dir).absolute()
    original = _id(folder)
    found: list[dict[str, Any]] = []
    for name in folder_names(str(folder.parent)):
        facts = load_metadata(folder.parent / name).data
        if facts.get("parent_id") == original and "forked_from_turn" in facts:
            kept = {key: facts.get(key) for key in ("forked_from_turn", "forked_at", "turn_count", "name")}
            found.append({"session_id": facts.get("session_id") or name, "session_dir": folder.parent / name, **kept})
    return sorted(found, key=lambda one: (str(one["forked_at"]), one["session_id"]))


def get_session_lineage(session_dir: StrPath) -> dict[str, Any]:
    """Return where a session comes from, and its forks.

    The keys are `session_id`, `parent_id`, `forked_from_turn` (None for what is no fork), `ancestors` (ids, the parent
    first), `root_id`, `depth` (the number of ancestors) and `forks` (as `list_session_forks` has them). The line ends
    at an ancestor that was deleted. Raises as `list_session_forks` does.
    """
    folder = existing(session_dir).absolute()
    facts = load_metadata(folder).data
    summary = read_summary(folder)
    line = [] if summary is None else [one.id for one in lineage(summary)]
    ancestors = line[-2::-1]
    return {
        "session_id": _id(folder),
        "parent_id": facts.get("parent_id"),
        "forked_from_turn": facts.get("forked_from_turn"),
        "ancestors": ancestors,
        "root_id": ancestors[-1] if ancestors else _id(folder),
        "depth": len(ancestors),
        "forks": list_session_forks(folder),
    }


def _id(folder: Path) -> str:
    return str(load_metadata(folder).data.get("session_id") or folder.name)

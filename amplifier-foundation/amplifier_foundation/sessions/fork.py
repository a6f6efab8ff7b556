"""Fork a session: copy it, up to a turn or an event, into a new session.

The copy is made beside the original under a hidden name and renamed at the end, so that there is never half a session.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from amplifier_foundation.errors import FoundationError
from amplifier_foundation.sessions.log import CopiedEvents, copy_events, lines_of_messages, place_messages, read_outline
from amplifier_foundation.sessions.metadata import Metadata, default_scrub, load_metadata
from amplifier_foundation.sessions.resume import ends_inside_turn, recover
from amplifier_foundation.sessions.transcript import LEDGER, TRANSCRIPT, History, lines_of, load_history
from amplifier_foundation.sessions.turns import IsStart, Orphans, count_turns, end_of_turn, settle_orphans, starts_turn
from amplifier_kit.engine.pairing import check_pairing
from amplifier_kit.guard.private_files import append, make_private, open_private
from amplifier_kit.named_tuple import NamedTuple

__all__ = ["ForkError", "ForkPreview", "Forked", "fork_session", "preview_fork"]

Message = dict[str, Any]

#: The prefix of folders that are being made; a crash leaves one behind.
TEMPORARY: Final = ".fork-"
#: The recorded plan, and the settings of the session.
_COPIED: Final = ("record.json", "bundle.lock", "settings.yaml", "config.md")
#: Metadata that are only true of the original.
_NOT_COPIED: Final = frozenset(
    {
        *("session_id", "parent_id", "created", "turn_count", "last_updated", "incremental", "usage"),
        *("name", "description", "name_generated_at", "description_updated_at"),
        *("forked_from_turn", "forked_from_event", "forked_at", "trace_id", "child_span"),
    }
)
_LONGEST_ID: Final = 200
_LONGEST_NAME: Final = 50


class ForkError(FoundationError, ValueError):
    """A session cannot be forked in this way."""

    code = "fork"


class Forked(NamedTuple):
    """A new session, and how much of the original it has."""

    session_id: str
    folder: Path
    parent_id: str
    turns: int
    messages: int
    events: int
    #: Problems of the original, as text.
    warnings: tuple[str, ...] = ()


class ForkPreview(NamedTuple):
    """How much of the original a fork would have."""

    turns: int
    messages: int
    events: int
    #: Calls whose results come after the cut, or were lost.
    orphaned_tool_ids: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    #: The messages, as they are before their calls are paired.
    conversation: Sequence[Message] = ()


@dataclass
class _Cut:
    """The part of a session that a fork copies."""

    history: History
    messages: list[Message]
    lines: int
    warnings: list[str] = field(default_factory=list)


def fork_session(
    folder: Path,
    *,
    at_turn: int | None = None,
    at_event: int | None = None,
    new_id: str | None = None,
    name: str | None = None,
    include_events: bool = True,
    orphans: Orphans = "complete",
    target: Path | None = None,
    is_start: IsStart = starts_turn,
) -> Forked:
    """Copy a session, which may be running, into a new one beside it: all of it, or up to a turn or an event.

    Conversation and events are cut at the same point. `at_event` is the number (`seq`) of the last event that the fork
    has; in a published log, which has no numbers, its line. `orphans` says what happens to calls whose results are cut
    off. `target` is the folder of the new session, if that is not beside the original; `is_start` says where turns
    start. Raises ForkError for an invalid id or name, TurnRangeError, EventNotFoundError, HistoryError,
    OrphanedCallsError, and OSError if the copy cannot be written, and then leaves nothing behind.
    """
    session_id = _checked_id(new_id)
    target = target or folder.parent / session_id
    _refuse_taken(target, session_id)
    if name is not None and not 0 < len(name.strip()) <= _LONGEST_NAME:
        raise ForkError(f"a session's name has 1 to {_LONGEST_NAME} characters, got {len(name.strip())}")
    metadata = load_metadata(folder)
    cut = _cut(folder, metadata, at_turn, at_event, is_start)
    messages = settle_orphans(cut.messages, orphans)
    parent_id = str(metadata.data.get("session_id") or folder.name)
    turns = count_turns(messages, is_start)
    facts = _facts(metadata.data, session_id, parent_id, turns, at_event, name)
    copied = CopiedEvents()
    with _new_folder(target) as fresh:
        content = b"".join(line + b"\n" for line in lines_of(messages, cut.history))
        _write(fresh / TRANSCRIPT, content)
        if (folder / LEDGER).exists():
            _write(fresh / LEDGER, content)
        if include_events:
            copied = copy_events(folder, fresh, cut.lines, session_id=session_id, parent_id=parent_id)
        for name_of_file in _COPIED:
            if (folder / name_of_file).is_file():
                _write(fresh / name_of_file, (folder / name_of_file).read_bytes())
        _write(
            fresh / "metadata.json",
            json.dumps(facts, ensure_ascii=False, indent=2).encode("utf-8", "backslashreplace") + b"\n",
        )
    warnings = tuple(dict.fromkeys([*cut.warnings, *copied.problems]))
    return Forked(session_id, target, parent_id, turns, len(messages), copied.lines, warnings)


def preview_fork(
    folder: Path, *, at_turn: int | None = None, at_event: int | None = None, is_start: IsStart = starts_turn
) -> ForkPreview:
    """Return what `fork_session` would copy; nothing is written. Raises as `fork_session` does."""
    cut = _cut(folder, load_metadata(folder), at_turn, at_event, is_start)
    lost = [violation.tool_call_id for violation in check_pairing(cut.messages) if violation.kind == "missing_result"]
    turns = count_turns(cut.messages, is_start)
    return ForkPreview(turns, len(cut.messages), cut.lines, tuple(lost), tuple(cut.warnings), cut.messages)


# -- what is copied --


def _cut(folder: Path, metadata: Metadata, at_turn: int | None, at_event: int | None, is_start: IsStart) -> _Cut:
    if at_turn is not None and at_event is not None:
        raise ForkError("a session is forked at a turn or at an event: give one of them")
    # The conversation first: a session that runs writes the event before the message.
    history = load_history(folder)
    messages, warnings = history.messages, [text for text in (metadata.damaged, metadata.warning) if text]
    warnings += history.problems
    if metadata.data.get("incremental") or ends_inside_turn(messages):
        messages, recovered = recover(messages, folder)
        warnings += recovered
    outline = read_outline(folder)
    warnings += outline.problems
    placed = place_messages(messages, outline)
    if at_event is not None:
        place = outline.place_of(at_event)
        kept = [message for message, made in zip(messages, placed.places, strict=True) if made <= place]
        return _Cut(history, kept, place + 1, warnings)
    if at_turn is None:
        return _Cut(history, messages, placed.lines_until_next_message(outline), warnings)
    end = end_of_turn(messages, at_turn, first=1, is_start=is_start)
    lines = lines_of_messages(messages, end, placed, outline)
    if outline.lines and not lines:
        warnings.append("the log does not have this turn: the fork has no events")
    return _Cut(history, messages[:end], lines, warnings)


# -- the copy --


def _facts(
    original: dict[str, Any],
    session_id: str,
    parent_id: str,
    turns: int,
    at_event: int | None,
    name: str | None,
) -> dict[str, Any]:
    now = datetime.now(UTC).isoformat()
    facts = {
        "session_id": session_id,
        "parent_id": parent_id,
        "created": now,
        "turn_count": turns,
        **({"name": name.strip()} if name else {}),
        **{key: value for key, value in original.items() if key not in _NOT_COPIED},
        "forked_from_turn": turns,
        **({"forked_from_event": at_event} if at_event is not None else {}),
        "forked_at": now,
    }
    scrubbed: dict[str, Any] = default_scrub()(facts)
    return {**scrubbed, **{key: facts[key] for key in ("session_id", "parent_id", "working_dir") if key in facts}}


def _checked_id(new_id: str | None) -> str:
    session_id = str(uuid.uuid4()) if new_id is None else new_id
    usable = session_id.isprintable() and not session_id.startswith((".", "-")) and not set(session_id) & set("/\\:")
    if not usable or not 0 < len(os.fsencode(session_id)) <= _LONGEST_ID or session_id != session_id.strip():
        raise ForkError(
            f"invalid session id {session_id!r}: expected 1 to {_LONGEST_ID} printable characters without slashes and "
            "colons, the first not a dot or a dash"
        )
    return session_id


def _refuse_taken(target: Path, session_id: str) -> None:
    if target.exists():
        raise ForkError(f"session {session_id} exists already in {target.parent}: choose another id")


@contextmanager
def _new_folder(final: Path) -> Iterator[Path]:
    """Yield a hidden folder, which gets its name on success and is deleted on failure."""
    make_private(final.parent)
    fresh = final.with_name(f"{TEMPORARY}{uuid.uuid4().hex}")
    fresh.mkdir(mode=0o700)
    try:
        yield fresh
        try:
            os.rename(fresh, final)
        except OSError as error:
            if not final.exists():
                raise
            raise ForkError(f"session {final.name} exists already in {final.parent}: choose another id") from error
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise


def _write(path: Path, content: bytes) -> None:
    descriptor = open_private(path, os.O_WRONLY | os.O_EXCL)
    try:
        append(descriptor, content)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

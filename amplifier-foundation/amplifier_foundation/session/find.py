"""Find saved sessions, and describe one."""

from __future__ import annotations

import logging
import os
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, get_args

from amplifier_foundation.paths import Home
from amplifier_foundation.session.events import count_events
from amplifier_foundation.session.files import SessionFileError, StrPath, existing, stored_history
from amplifier_foundation.sessions.diagnosis import diagnose
from amplifier_foundation.sessions.metadata import SessionSummary, read_summary
from amplifier_foundation.sessions.store import SessionStore
from amplifier_foundation.sessions.transcript import HistoryError

logger = logging.getLogger(__name__)

__all__ = ["find_sessions", "resolve_session", "session_info"]

Status = Literal["healthy", "broken"]


def find_sessions(
    keyword: str | None = None,
    *,
    since: datetime | str | None = None,
    until: datetime | str | None = None,
    status: Status | None = None,
    project: StrPath | None = None,
    home: StrPath | None = None,
    include_children: bool = False,
    limit: int | None = None,
) -> list[dict[str, Any]]:
    """Return the sessions of a project, or of all, the most recently active first.

    Each is a mapping with the keys that `session_info` describes. Each word of `keyword` must be in the id, name,
    description, first prompt, bundle or project. `since` and `until` limit the last activity; ISO 8601 or datetime, in
    local time without a zone. `status` selects those whose conversation is healthy or broken. `home` is that of
    Amplifier. Raises ValueError for an invalid status or time, and SessionsUnreadableError; what else cannot be read is
    logged as a warning.
    """
    if status not in (None, *get_args(Status)):
        raise ValueError(f"invalid status {status!r}: expected 'healthy' or 'broken'")
    store = _store(home)
    found = store.list(
        None if project is None else Path(project).absolute(),
        all_projects=project is None,
        include_children=include_children,
        text=keyword,
        since=_moment(since),
        until=_moment(until),
    )
    _report(store)
    chosen: list[dict[str, Any]] = []
    for summary in found:
        if limit is not None and len(chosen) >= limit:
            break
        if status is None or _conversation(summary)["status"] == status:
            chosen.append(_entry(summary))
    return chosen


def resolve_session(session: StrPath, *, project: StrPath | None = None, home: StrPath | None = None) -> Path:
    """Return the folder of the session with this id, beginning of an id, name or path.

    Sessions of the project (by default the current one) come first. Raises SessionNotFoundError, and
    AmbiguousSessionError with the `candidates` if several match.
    """
    text = session if isinstance(session, str) else str(Path(os.fspath(session)).absolute())
    store = _store(home)
    folder = store.find(text, None if project is None else Path(project).absolute()).folder
    _report(store)
    return folder


def session_info(session_dir: StrPath) -> dict[str, Any]:
    """Return what is known of the session in a folder.

    The keys are those of lists (`session_id`, `session_dir`, `project`, `name`, `description`, `bundle`, `model`,
    `created`, `updated`, `turn_count`, `parent_id`, `agent_name`, `is_child`, `first_prompt`), then `message_count`,
    `event_count`, `status` and `failure_modes` of its conversation, and `problems`: what is missing or unreadable.
    Raises FileNotFoundError without the folder.
    """
    folder = existing(session_dir).absolute()
    summary = read_summary(folder)
    if summary is None:
        raise FileNotFoundError(f"there is no session in {folder} any more")
    return {**_entry(summary), **_conversation(summary), "event_count": count_events(folder)}


def _entry(summary: SessionSummary) -> dict[str, Any]:
    return {
        "session_id": summary.id,
        "session_dir": summary.folder,
        "project": summary.project,
        "name": summary.name,
        "description": summary.description,
        "bundle": summary.bundle,
        "model": summary.model,
        "created": None if summary.created is None else summary.created.isoformat(),
        "updated": summary.updated.isoformat(),
        "turn_count": summary.turn_count,
        "parent_id": summary.parent_id,
        "agent_name": summary.agent_name,
        "is_child": summary.is_child,
        "first_prompt": summary.first_prompt,
    }


def _conversation(summary: SessionSummary) -> dict[str, Any]:
    problems = [text for text in (summary.damaged, summary.warning) if text]
    try:
        history = stored_history(summary.folder)
    except (HistoryError, SessionFileError) as error:
        broken = {"message_count": 0, "status": "broken", "failure_modes": ["unreadable"]}
        return {**broken, "problems": [*problems, str(error)]}
    found = diagnose(history.messages)
    return {
        "message_count": len(history.messages),
        "status": found.status,
        "failure_modes": found.failure_modes,
        "problems": [*problems, *history.problems],
    }


def _store(home: StrPath | None) -> SessionStore:
    return SessionStore(Home.find() if home is None else Home(Path(home).absolute()))


def _report(store: SessionStore) -> None:
    for warning in store.warnings:
        logger.warning(warning)


def _moment(given: datetime | str | None) -> datetime | None:
    return datetime.fromisoformat(given) if isinstance(given, str) else given

"""The metadata of a session (`metadata.json`), the record of its plan (`record.json`), and summaries for lists.

Updates are merged into the metadata, never replace them, and keep the file before as a backup.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from amplifier_foundation.errors import FoundationError
from amplifier_foundation.files import locked, replace_file
from amplifier_kit.named_tuple import NamedTuple
from amplifier_kit.reminders import is_reminder

__all__ = [
    "Facts",
    "Metadata",
    "SessionGoneError",
    "SessionSummary",
    "current_metadata",
    "default_scrub",
    "load_metadata",
    "read_facts",
    "read_summary",
    "summary_of",
    "update_metadata",
]

NAME = "metadata.json"
BACKUP = f"{NAME}.backup"
DAMAGED = f"{NAME}.damaged"
LOCK = "metadata.lock"
#: The file with the composed plan of a session, from which it is resumed.
RECORD = "record.json"

#: Keys that sessions are found by; never masked.
_FOUND_BY = ("session_id", "parent_id", "working_dir")

Scrub = Callable[[Any], Any]


class SessionGoneError(FoundationError):
    """The session was deleted."""

    code = "session_gone"


class Metadata(NamedTuple):
    """The metadata of a session, and the problems of its file."""

    data: dict[str, Any]
    #: Why neither the file nor its backup is usable; `data` is empty then.
    damaged: str | None = None
    #: A problem that leaves the data usable.
    warning: str | None = None


def load_metadata(folder: Path | str) -> Metadata:
    """Return the metadata of a session, from the backup if the file is damaged or missing; never raises.

    A session without either file, whose first turn has not ended, has no data and a warning.
    """
    path, backup = os.path.join(folder, NAME), os.path.join(folder, BACKUP)
    data, reason = _read(path)
    if data is not None:
        return Metadata(data)
    saved, saved_reason = _read(backup)
    if saved is not None:
        what = f"{path} is missing" if reason is None else reason
        return Metadata(saved, warning=f"{what}; its backup is used")
    if reason is None and saved_reason is None:
        return Metadata({}, warning="it has no metadata.json: its first turn has not ended, or was interrupted")
    return Metadata({}, damaged=reason or saved_reason)


def current_metadata(folder: Path) -> dict[str, Any]:
    """Return the metadata with the usage of a running or interrupted turn, for which the whole log is read."""
    from amplifier_foundation.usage.history import current_facts

    facts = load_metadata(folder).data
    used = current_facts(folder, facts)
    return {**facts, "usage": used} if used else facts


def update_metadata(
    folder: Path,
    changes: Mapping[str, Any],
    *,
    scrub: Scrub | None = None,
    is_activity: bool = True,
    is_whole: bool = False,
) -> dict[str, Any]:
    """Merge `changes` into the metadata of a session and return all of it as it was written.

    A key set to None is removed; other keys are kept, so that changes of other processes are not undone. The file
    becomes `metadata.json.backup`; a damaged one becomes `metadata.json.damaged`. Secrets are masked by `scrub`, or by
    `default_scrub()`. The file's modification time is the session's last
    activity; it does not change unless `is_activity`. With `is_whole`, keys that are not in `changes` are removed.

    Raises SessionGoneError if the session does not exist, FileBusyError if another process holds the lock for too long,
    and OSError if the file cannot be written; the file is then unchanged.
    """
    if not folder.is_dir():
        raise _gone(folder)
    try:
        # Another process may delete the session right now: its folder must not be made again.
        with locked(folder / LOCK, make_folder=False):
            merged = {**({} if is_whole else load_metadata(folder).data), **changes}
            kept = _scrubbed(
                {key: value for key, value in merged.items() if value is not None}, scrub or default_scrub()
            )
            content = _encoded(kept)
            before = None if is_activity else _activity_before(folder)
            _keep_previous(folder)
            replace_file(folder / NAME, content)
            if before is not None:
                os.utime(folder / NAME, ns=(before, before))
    except FileNotFoundError as error:
        raise _gone(folder) from error
    return kept


def default_scrub() -> Scrub:
    """Return the masking for writers without a session: by key, by pattern, and by environment."""
    from amplifier_kit.guard.redaction.known_values import live_values_from_env
    from amplifier_kit.guard.redaction.redactor import Redactor, known_secrets, process_redactor

    process_redactor()  # so that all its secrets are known
    redactor = Redactor((*live_values_from_env(os.environ), *known_secrets()))
    return lambda value: redactor.scrub(value).value


def _scrubbed(data: dict[str, Any], scrub: Scrub) -> dict[str, Any]:
    scrubbed: dict[str, Any] = scrub(data)
    return {**scrubbed, **{key: data[key] for key in _FOUND_BY if key in data}}


def _encoded(data: dict[str, Any]) -> bytes:
    text = json.dumps(data, ensure_ascii=False, indent=2, default=str)
    # A path that is not UTF-8 has surrogates: their backslash form is the one of JSON, and is read back as it was.
    return text.encode("utf-8", "backslashreplace") + b"\n"


def _keep_previous(folder: Path) -> None:
    """Make the file the backup; move a damaged one aside, which must not replace a valid backup."""
    path = folder / NAME
    data, reason = _read(str(path))
    if data is not None:
        replace_file(folder / BACKUP, path.read_bytes())
    elif reason is not None:
        os.replace(path, folder / DAMAGED)


def _read(path: str) -> tuple[dict[str, Any] | None, str | None]:
    """Return the object in a file; None and the reason if it is damaged, None and None if it is missing."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # reading a pipe would block
            return None, f"{path} is not a regular file"
        with open(path, "rb") as file:
            content = file.read()
    except FileNotFoundError:
        return None, None
    except OSError as error:
        return None, f"{path} cannot be read: {error.strerror or error}"
    try:
        data = json.loads(content.decode("utf-8-sig"))
    except json.JSONDecodeError as error:
        return None, f"{path}:{error.lineno} is damaged: {error.msg if content else 'the file is empty'}"
    except (ValueError, RecursionError) as error:
        return None, f"{path} is damaged: {error}"
    if not isinstance(data, dict):
        return None, f"{path} is damaged: it is not a JSON object"
    return data, None


def _activity_before(folder: Path) -> int | None:
    try:
        return (folder / NAME).stat().st_mtime_ns
    except FileNotFoundError:
        return None


def load_record(folder: Path) -> tuple[dict[str, Any] | None, str]:
    """Return the recorded plan of a session; None without one, with the reason if it is damaged."""
    path = folder / RECORD
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None, ""
    except (OSError, ValueError, RecursionError) as error:
        return None, f"{path}: the recorded plan cannot be read: {error}"
    if not isinstance(content, dict):
        return None, f"{path}: the recorded plan cannot be read: not a mapping"
    return content, ""


def _gone(folder: Path) -> SessionGoneError:
    return SessionGoneError(
        f"there is no session {folder.name} in {folder.parent} any more: `amplifier session list` shows the others"
    )


# -- summaries for lists --


#: The first of these files that exists says when a session was active last. A turn starts and ends by writing the
#: metadata, so that a list usually needs one `stat` per session.
_ACTIVITY = ("metadata.json", "events.jsonl", "transcript.jsonl")
#: The ids of child sessions: `<16 hex>-<16 hex>_<agent>`.
_CHILD_ID = r"[0-9a-f]{16}-[0-9a-f]{16}_"
_CONTEXT_BLOCK = r"(?s)\s*<context_file\b.*?</context_file>"
_LONGEST_PROMPT = 200
_LONGEST_TEXT = 500
#: How far to look for the first prompt, in bytes per line and in lines.
_LONGEST_LINE = 1 << 20
_MOST_LINES = 20


class Facts(NamedTuple):
    """The facts of a summary that come from the files of a session."""

    project: str | None
    name: str | None
    description: str | None
    bundle: str | None
    model: str | None
    created: str | None
    turn_count: int
    parent_id: str | None
    agent_name: str | None
    is_child: bool
    first_prompt: str | None
    damaged: str | None
    warning: str | None


class SessionSummary(NamedTuple):
    """One session of a list. (A tuple, because it is created five times as fast and lists are long.)"""

    id: str
    #: The folder with the sessions of its project.
    place: Path
    #: The last activity; renaming does not count.
    updated: datetime
    #: The folder that it works in, None if unknown.
    project: str | None
    name: str | None
    description: str | None
    bundle: str | None
    #: The model of the newest answer, or the one that is configured, as `provider/model`; None if neither is known.
    model: str | None
    created: datetime | None
    turn_count: int
    #: The session that started it, or that it was forked from.
    parent_id: str | None
    agent_name: str | None
    #: Whether another session started it; False for forks.
    is_child: bool
    #: The beginning of the first prompt, on one line.
    first_prompt: str | None
    #: Why its metadata cannot be read; all facts from them are None then.
    damaged: str | None
    #: Another problem.
    warning: str | None

    @property
    def folder(self) -> Path:
        return self.place / self.id


def summary_of(session_id: str, place: Path, updated: float, facts: tuple[Any, ...]) -> SessionSummary:
    """Create a summary from `Facts`, or from a row of the index with the same fields."""
    project, name, description, bundle, model, created, turns, parent, agent, is_child, prompt, damaged, warning = facts
    return SessionSummary(
        session_id,
        place,
        datetime.fromtimestamp(updated, UTC),
        project,
        name,
        description,
        bundle,
        model,
        _moment(created),
        turns,
        parent,
        agent,
        bool(is_child),
        prompt,
        damaged,
        warning,
    )


def read_summary(folder: Path) -> SessionSummary | None:
    """Return the summary of the session in a folder, read from its files; None if the folder does not exist."""
    facts = read_facts(folder)
    updated = last_activity(str(folder))
    return None if facts is None or updated is None else summary_of(folder.name, folder.parent, updated, facts)


def last_activity(folder: str) -> float | None:
    """Return when a session was active last; None if its folder does not exist."""
    for name in _ACTIVITY:
        try:
            return os.stat(f"{folder}/{name}").st_mtime
        except OSError:
            continue
    try:
        return os.stat(folder).st_mtime
    except OSError:
        return None


def read_facts(folder: Path | str) -> Facts | None:
    """Return the facts in the files of a session; None if its folder does not exist."""
    metadata = load_metadata(folder)
    if not metadata.data and not os.path.isdir(folder):
        return None
    if metadata.warning and not metadata.data and not _has_content(folder):
        metadata = Metadata({}, damaged=f"{folder} has neither metadata nor a transcript nor events")
    data = metadata.data
    parent = _text(data.get("parent_id"))
    is_fork = any(key.startswith("forked_") for key in data)
    is_child = parent is not None and not is_fork
    agent = _text(data.get("agent_name"))
    if not data and (named := re.match(_CHILD_ID, name := os.path.basename(folder))) is not None:
        is_child, agent, parent = True, _text(name[named.end() :]), _text(_parent_by_log(folder))
    turns = data.get("turn_count")
    return Facts(
        project=_text(data.get("working_dir"), None),
        name=_text(data.get("name")),
        description=_text(data.get("description")),
        bundle=(_text(data.get("bundle")) or "").removeprefix("bundle:") or None,
        model=_text(data.get("last_model")) or _text(data.get("model")),
        created=_text(data.get("created")),
        turn_count=turns if isinstance(turns, int) and 0 <= turns < 1 << 62 else 0,
        parent_id=parent,
        agent_name=agent,
        is_child=is_child,
        first_prompt=_text(data.get("first_prompt")) or _first_prompt(f"{folder}/transcript.jsonl"),
        damaged=metadata.damaged and _encodable(metadata.damaged),
        warning=metadata.warning and _encodable(metadata.warning),
    )


def _parent_by_log(folder: Path | str) -> object:
    """Return the parent of a child without metadata, which each line of its log names; None if it has none."""
    try:
        with open(f"{folder}/events.jsonl", "rb") as file:
            record = json.loads(file.readline(_LONGEST_LINE))
    except (OSError, ValueError, RecursionError):
        return None  # no whole line
    return record.get("parent_id") if isinstance(record, dict) else None


def _has_content(folder: Path | str) -> bool:
    return any(os.path.exists(f"{folder}/{name}") for name in _ACTIVITY)


def _text(value: object, longest: int | None = _LONGEST_TEXT) -> str | None:
    """Return a shortened text, None for other types: other programs may write anything into metadata."""
    if not isinstance(value, str) or not value:
        return None
    return _encodable(value if longest is None else value[:longest])


def _encodable(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _moment(text: str | None) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text) if text else None
    except ValueError:
        return None
    return moment.replace(tzinfo=UTC) if moment is not None and moment.tzinfo is None else moment


def _first_prompt(path: str) -> str | None:
    """Return the beginning of the first prompt; None if there is none near the start of the file."""
    try:
        if not os.path.isfile(path):
            return None
        with open(path, "rb") as file:
            for _ in range(_MOST_LINES):
                line = file.readline(_LONGEST_LINE)
                if not line:
                    return None
                prompt = _prompt_of(line)
                if prompt:
                    return prompt
    except OSError:
        return None  # reading the conversation reports it
    return None


def _prompt_of(line: bytes) -> str | None:
    try:
        message = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or message.get("role") != "user" or "tool_call_id" in message:
        return None
    text = _plain(message.get("content"))
    while found := re.match(_CONTEXT_BLOCK, text):
        text = text[found.end() :]
    text = " ".join(text[: _LONGEST_PROMPT * 4].split())
    return None if is_reminder(text) else _encodable(text[:_LONGEST_PROMPT]) or None


def _plain(content: object) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = [block.get("text") for block in content if isinstance(block, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))

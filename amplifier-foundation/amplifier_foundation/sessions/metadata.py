"""Keep what is known about a session in its `metadata.json`: merged, never overwritten, with the one before it kept."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

from amplifier_foundation.errors import FoundationError
from amplifier_foundation.files import locked, replace_file

__all__ = [
    "Metadata",
    "SessionFacts",
    "SessionGoneError",
    "default_scrub",
    "load_metadata",
    "update_metadata",
]

NAME = "metadata.json"
BACKUP = f"{NAME}.backup"
DAMAGED = f"{NAME}.damaged"
LOCK = "metadata.lock"

#: What sessions are found by; kept as it is whatever `scrub` thinks of it. (Ids and times are never masked anyway.)
_FOUND_BY = ("session_id", "parent_id", "working_dir")

Scrub = Callable[[Any], Any]


class SessionFacts(TypedDict, total=False):
    """The keys that are known; a file may hold others, and they are kept."""

    session_id: str
    created: str
    bundle: str  # "bundle:<name>"
    provider: str
    model: str  # "<provider>/<model>"; not there when the provider's default is used
    turn_count: int
    working_dir: str
    incremental: bool  # saved in the middle of a turn
    name: str
    description: str
    name_generated_at: str
    description_updated_at: str
    bundle_overrides: list[dict[str, Any]]
    # of sessions that another one has started
    parent_id: str
    trace_id: str
    agent_name: str
    child_span: str
    config: dict[str, Any]
    agent_overlay: dict[str, Any]
    bundle_context: dict[str, Any]
    self_delegation_depth: int
    use_subprocess: bool  # it has a process of its own, also when it goes on
    last_updated: str
    # of sessions that continue a copy of another one; they have a parent_id too
    forked_from_turn: int
    forked_at: str


class SessionGoneError(FoundationError):
    """The session was deleted, by this process or another one."""

    code = "session_gone"


class Metadata(NamedTuple):
    """What a session's metadata says, and what was wrong with it."""

    data: dict[str, Any]
    #: Why neither the file nor its backup can be used; `data` is empty then.
    damaged: str | None = None
    #: What the reader should know although the data can be used.
    warning: str | None = None


def load_metadata(folder: Path | str) -> Metadata:
    """Return the metadata of a session, from the backup when the file is damaged or gone; raise nothing.

    A session without either, which has not ended its first turn, has no data and a warning.
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
        return Metadata({}, warning="it has no metadata.json: its first turn has not ended, or was cut off")
    return Metadata({}, damaged=reason or saved_reason)


def update_metadata(
    folder: Path,
    changes: Mapping[str, Any],
    *,
    scrub: Scrub | None = None,
    create: bool = False,
    is_activity: bool = True,
) -> dict[str, Any]:
    """Merge `changes` into the metadata of a session and return all of it as it was written.

    A key that is set to None is removed; all others are kept, so that what another process has changed meanwhile is not
    undone. The file before becomes `metadata.json.backup`; one that was damaged is kept as `metadata.json.damaged`.
    Secrets are masked by `scrub`, or by `default_scrub()`. `create` makes the folder, for a session that begins.
    The time of the file says when the session was active last; a change that `is_activity` is not keeps it.

    Raises SessionGoneError when there is no such session, FileBusyError when another process holds the lock for too
    long, and OSError when the file cannot be written; it is then what it was before.
    """
    if not create and not folder.is_dir():
        raise _gone(folder)
    with locked(folder / LOCK):
        known = load_metadata(folder)
        if not create and not known.data and _is_bare(folder):
            # Deleted after it was looked for: the lock has just made the folder again.
            _remove_bare(folder)
            raise _gone(folder)
        merged = {**known.data, **changes}
        kept = _scrubbed({key: value for key, value in merged.items() if value is not None}, scrub or default_scrub())
        content = _encoded(kept)
        try:
            before = None if is_activity else _activity_before(folder)
            _keep_previous(folder)
            replace_file(folder / NAME, content)
            if before is not None:
                os.utime(folder / NAME, ns=(before, before))
        except FileNotFoundError as error:
            raise _gone(folder) from error
    return kept


def default_scrub() -> Scrub:
    """Return the masking for writers that know no secrets of their own: by key, by pattern, and by environment."""
    from amplifier_kit.guard.redaction import Redactor, known_secrets, live_values_from_env, process_redactor

    process_redactor()  # so that all its secrets are known
    redactor = Redactor((*live_values_from_env(os.environ), *known_secrets()))
    return lambda value: redactor.scrub(value).value


def _scrubbed(data: dict[str, Any], scrub: Scrub) -> dict[str, Any]:
    scrubbed: dict[str, Any] = scrub(data)
    return {**scrubbed, **{key: data[key] for key in _FOUND_BY if key in data}}


def _encoded(data: dict[str, Any]) -> bytes:
    text = json.dumps(data, ensure_ascii=False, indent=2, default=str)
    # A path that is no UTF-8 has halves of characters: their backslash form is the one of JSON too, and is found again.
    return text.encode("utf-8", "backslashreplace") + b"\n"


def _keep_previous(folder: Path) -> None:
    """Keep a good file as the backup, and a bad one aside: a good backup is never replaced by a bad one."""
    path = folder / NAME
    data, reason = _read(str(path))
    if data is not None:
        replace_file(folder / BACKUP, path.read_bytes())
    elif reason is not None:
        os.replace(path, folder / DAMAGED)


def _read(path: str) -> tuple[dict[str, Any] | None, str | None]:
    """Return the object in a file; None and why not when it has none, None and None when there is no file."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # a pipe would be waited for, for ever
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
        return None, f"{path} is damaged: it holds no JSON object"
    return data, None


def _activity_before(folder: Path) -> int | None:
    try:
        return (folder / NAME).stat().st_mtime_ns
    except FileNotFoundError:
        return None


def _is_bare(folder: Path) -> bool:
    try:
        return set(os.listdir(folder)) <= {LOCK}
    except FileNotFoundError:  # another process that came too late has removed it again
        return True


def _remove_bare(folder: Path) -> None:
    try:
        (folder / LOCK).unlink(missing_ok=True)
        folder.rmdir()
    except OSError:
        # Somebody begins a session of this id at this moment: it is theirs now.
        pass


def _gone(folder: Path) -> SessionGoneError:
    return SessionGoneError(
        f"there is no session {folder.name} in {folder.parent} any more: `amplifier session list` shows the others"
    )

"""Delete sessions, and clean up: old sessions, rotated log files, and what crashes left behind.

A session is deleted as a whole or not at all, whatever happens meanwhile.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

from amplifier_foundation.errors import FoundationError
from amplifier_foundation.sessions.log import is_running, lock_session
from amplifier_foundation.sessions.metadata import SessionSummary, last_activity
from amplifier_foundation.sessions.store import SessionStore, folder_names
from amplifier_kit.log.blobs import BlobStore
from amplifier_kit.log.files import LogFiles, LogLock, SessionLogBusy
from amplifier_kit.named_tuple import NamedTuple

__all__ = [
    "ASIDE",
    "CleanedSession",
    "Cleanup",
    "CleanupError",
    "Pruned",
    "RemovalError",
    "Removed",
    "clean_up",
    "folder_bytes",
    "prune_blobs",
    "prune_rotated",
    "remove",
]

_LONGEST_AGE = 36_500
#: Seconds after which a temporary file or folder counts as orphaned by a crash.
_ABANDONED = 3600


class CleanupError(FoundationError):
    """The age is invalid, or a session became active."""

    code = "cleanup_invalid"


class CleanedSession(NamedTuple):
    """A session that was, or would be, deleted with its children."""

    session: SessionSummary
    ids: tuple[str, ...]
    bytes: int


class Cleanup(NamedTuple):
    """The sessions deleted, or to delete; those as old but kept, with the reason; what crashes left behind."""

    removed: tuple[CleanedSession, ...]
    kept: tuple[tuple[SessionSummary, str], ...]
    swept: tuple[Path, ...]
    #: Rotated files of logs that were, or would be, deleted from sessions that stay.
    pruned: tuple[Path, ...]
    #: Bytes that were, or would be, freed.
    bytes: int
    warnings: tuple[str, ...]


def clean_up(
    store: SessionStore,
    *,
    days: float,
    project: Path | None = None,
    all_projects: bool = False,
    include_named: bool = False,
    keep_rotated: int | None = None,
    dry_run: bool = False,
) -> Cleanup:
    """Delete the sessions of a project, or of all projects, that were not active for `days` days.

    A session is deleted with its children, and only if none of them was active since. Running sessions are kept; so are
    named and damaged ones, whose name is unknown, unless `include_named`. With `keep_rotated`, the logs of idle
    sessions that are kept lose all but that many of their newest rotated files, and the blobs that only those referred
    to. With `dry_run` nothing is changed. Raises CleanupError for an invalid age, and what `list` raises.
    """
    if not 0 <= days <= _LONGEST_AGE:
        raise CleanupError(f"invalid age {days!r}: expected a number of days from 0 to {_LONGEST_AGE}")
    sessions = store.list(project, all_projects=all_projects, include_children=True)
    warnings = list(store.warnings)
    before = datetime.now(UTC) - timedelta(days=days)
    removed: list[CleanedSession] = []
    kept: list[tuple[SessionSummary, str]] = []
    pruned: list[Path] = []
    pruned_bytes = 0
    for family in _families(sessions):
        if max(one.updated for one in family) > before:
            if keep_rotated is not None:
                paths, size = _prune(family, keep_rotated, dry_run, warnings)
                pruned += paths
                pruned_bytes += size
            continue
        reason = _reason_to_keep(family, include_named)
        if reason is None:
            try:
                removed.append(_clean(family, before, dry_run, warnings))
            except FoundationError as error:
                reason = str(error)
        if reason is not None:
            kept.append((family[0], reason))
    places = {one.folder.parent for one in sessions}
    swept, freed = _sweep(places, dry_run, warnings)
    freed += pruned_bytes + sum(one.bytes for one in removed)
    return Cleanup(tuple(removed), tuple(kept), tuple(swept), tuple(pruned), freed, tuple(warnings))


def _prune(family: Sequence[SessionSummary], keep: int, dry_run: bool, warnings: list[str]) -> tuple[list[Path], int]:
    """Delete the oldest rotated files of the logs of a family, then the blobs that only they referred to."""
    if any(is_running(one.folder) for one in family):
        return [], 0
    sizes = {path: path.stat().st_size for one in family for path in prune_rotated(one.folder, keep, dry_run=True)}
    if dry_run or not sizes:
        return list(sizes), sum(sizes.values())
    try:
        for one in family:
            prune_rotated(one.folder, keep)
        return list(sizes), sum(sizes.values()) + prune_blobs(family[0].folder).freed
    except (OSError, SessionLogBusy) as error:
        warnings.append(f"the log of session {family[0].id} could not be pruned: {error}")
        return [], 0


def _families(sessions: Sequence[SessionSummary]) -> Iterator[list[SessionSummary]]:
    """Yield every root session followed by its descendants; a child whose parent was deleted is a root."""
    known = {one.folder for one in sessions}
    children: dict[Path, list[SessionSummary]] = {}
    roots: list[SessionSummary] = []
    for one in sessions:
        parent = one.folder.parent / one.parent_id if one.parent_id and one.is_child else None
        if parent is None or parent not in known or parent == one.folder:
            roots.append(one)
        else:
            children.setdefault(parent, []).append(one)
    for root in roots:
        family, todo = [root], [root]
        while todo:
            found = children.pop(todo.pop().folder, [])
            family += found
            todo += found
        yield family
    # The rest are cycles in damaged metadata; each session is a root.
    yield from ([one] for rest in children.values() for one in rest)


def _reason_to_keep(family: Sequence[SessionSummary], include_named: bool) -> str | None:
    for one in family:
        if is_running(one.folder):
            return f"session {one.id} is running"
        if not include_named and one.name:
            return f"it is named {one.name!r}" if one is family[0] else f"its child {one.id} is named"
        if not include_named and one.damaged:
            return f"it is damaged, so that its name is unknown: {one.damaged}"
    return None


def _clean(family: Sequence[SessionSummary], before: datetime, dry_run: bool, warnings: list[str]) -> CleanedSession:
    folders = [one.folder for one in family]
    if any((last_activity(str(folder)) or 0.0) > before.timestamp() for folder in folders):
        raise CleanupError("it became active while others were deleted")
    if dry_run:
        return CleanedSession(family[0], tuple(one.id for one in family), sum(map(folder_bytes, folders)))
    done = remove(folders)
    warnings += done.warnings
    return CleanedSession(family[0], done.ids, done.bytes)


def _sweep(places: set[Path], dry_run: bool, warnings: list[str]) -> tuple[list[Path], int]:
    """Delete what crashes left behind in folders with sessions; return the paths and their bytes."""
    swept: list[Path] = []
    freed = 0
    for path in (path for place in sorted(places) for path in _abandoned(place)):
        size = folder_bytes(path) if path.is_dir() else path.lstat().st_size
        if not dry_run:
            failures = sweep(path) if path.is_dir() else _unlink(path)
            warnings += failures
            if failures:
                continue
        swept.append(path)
        freed += size
    return swept, freed


def _unlink(path: Path) -> list[str]:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        return [f"{path} could not be deleted: {error.strerror or error}"]
    return []


def _abandoned(place: Path) -> Iterator[Path]:
    """Yield the temporary folders beside sessions, and the temporary files in sessions, that crashes left behind."""
    from amplifier_foundation.sessions.fork import TEMPORARY

    with os.scandir(place) as entries:
        hidden = [Path(entry.path) for entry in entries if entry.name.startswith((ASIDE, TEMPORARY))]
    yield from (path for path in hidden if _is_abandoned(path))
    for name in folder_names(str(place)):
        try:
            with os.scandir(place / name) as entries:
                files = [Path(entry.path) for entry in entries if entry.name.endswith(".tmp") and entry.is_file()]
        except OSError:
            continue  # just deleted
        yield from (path for path in files if _is_abandoned(path))


def _is_abandoned(path: Path) -> bool:
    try:
        found = path.lstat()
    except OSError:
        return False
    return time.time() - max(found.st_mtime, found.st_ctime) > _ABANDONED


# -- deletion --


#: The prefix of folders that are being deleted; `clean_up` deletes those that a crash left behind.
ASIDE = ".deleted-"


class RemovalError(FoundationError):
    """A session cannot be deleted; it is unchanged."""

    code = "session_not_deleted"


class Removed(NamedTuple):
    """The ids of the deleted sessions, the requested one first, and their bytes."""

    ids: tuple[str, ...]
    bytes: int
    #: Folders that were moved aside but could not be deleted: the next cleanup tries again.
    warnings: tuple[str, ...] = ()


def remove(folders: Sequence[Path]) -> Removed:
    """Delete sessions of one project, all or none.

    Raises SessionRunningError if one of them runs, and RemovalError if one cannot be moved aside. Folders that do not
    exist are ignored. Children share the blobs of their root: delete a root with all of its descendants.
    """
    doomed = [folder for folder in folders if folder.is_dir()]
    size = sum(map(folder_bytes, doomed))
    with ExitStack() as locks:
        _lock_all(doomed, locks)
        asides = _move_all(doomed)
    warnings = [text for aside in asides for text in sweep(aside)]
    return Removed(tuple(folder.name for folder in doomed), size, tuple(warnings))


def sweep(aside: Path) -> list[str]:
    """Delete a folder that was moved aside; return a warning if that fails."""
    import shutil

    try:
        if aside.is_symlink():
            aside.unlink()
        else:
            shutil.rmtree(aside)
    except FileNotFoundError:
        pass  # another process has deleted it
    except OSError as error:
        return [f"{aside} could not be deleted: {error.strerror or error}"]
    return []


def folder_bytes(folder: Path) -> int:
    """Return the size of the files below a folder; links are not followed."""
    size = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                size += os.lstat(os.path.join(parent, name)).st_size
            except OSError:
                continue  # deleted just now
    return size


def _lock_all(folders: Iterable[Path], locks: ExitStack) -> None:
    for folder in folders:
        try:
            locks.enter_context(lock_session(folder, "deleted"))
        except FileNotFoundError:
            continue  # another process has deleted it
        except OSError as error:
            raise _failed(folder, error) from error


def _move_all(doomed: Sequence[Path]) -> list[Path]:
    """Move folders aside, children before parents; if one fails, move all back."""
    moved: list[tuple[Path, Path]] = []
    try:
        for number, folder in enumerate(reversed(doomed)):
            aside = folder.with_name(f"{ASIDE}{os.getpid()}-{time.monotonic_ns():x}-{number}")
            try:
                os.rename(folder, aside)
            except FileNotFoundError:
                continue  # another process has deleted it
            moved.append((folder, aside))
    except OSError as error:
        for folder, aside in moved:
            os.rename(aside, folder)
        raise _failed(doomed[0], error) from error
    return [aside for _, aside in moved]


def _failed(folder: Path, error: OSError) -> RemovalError:
    return RemovalError(
        f"session {folder.name} cannot be deleted: {error.strerror or error} ({error.filename or folder}). "
        "Make its folder writable and try again"
    )


# -- logs --


_REFERENCE = re.compile(rb'"\$blob":\s*"(sha256:[0-9a-f]{64})"')
_ROTATED = re.compile(r"^(.+)\.[1-9][0-9]*\.jsonl$")


class Pruned(NamedTuple):
    """How many blobs were deleted and kept."""

    deleted: int
    #: In bytes.
    freed: int
    kept: int


def prune_rotated(location: Path | str, keep: int, *, dry_run: bool = False) -> list[Path]:
    """Delete all but the `keep` newest rotated files of a log, never the one being written; return the deleted ones.

    With `dry_run` nothing is deleted. Line numbers do not change, and blobs stay until `prune_blobs`. Raises ValueError
    for a negative `keep`, OSError if a file cannot be deleted.
    """
    if keep < 0:
        raise ValueError(f"keep must not be negative, got {keep}")
    files = LogFiles.at(location)
    numbers = files.numbers()
    doomed = [files.rotated(number) for number in numbers[: len(numbers) - keep]]
    for path in () if dry_run else doomed:
        path.unlink(missing_ok=True)
    return doomed


def prune_blobs(location: Path | str) -> Pruned:
    """Delete the blobs that no line of any session sharing them refers to, and those that a crash left incomplete.

    `location` is a session's folder; the sessions that share its blobs are beside it. Raises SessionLogBusy if one of
    them is being written: its next line might refer to a deleted blob.
    """
    files = LogFiles.at(location)
    folder = files.blobs.resolve()
    store = BlobStore(folder)
    logs = [log for directory in _sharing(files.directory, folder) for log in _logs_in(directory)]
    with ExitStack() as locks:
        for log in logs:
            locks.callback(LogLock(log.lock, log.active).release)
        wanted = _reachable(store, logs)
        deleted = freed = kept = 0
        for path in _blobs_in(folder):
            if path.name in wanted or (path.name.startswith(".") and not _is_abandoned(path)):
                kept += 1
                continue
            freed += path.stat().st_size
            path.unlink()
            deleted += 1
    return Pruned(deleted, freed, kept)


def _sharing(directory: Path, folder: Path) -> Iterator[Path]:
    """Yield the folders of the sessions whose blobs are in `folder`."""
    home = folder.parent.parent
    beside = {home, directory.resolve().parent}
    for candidate in sorted({path for parent in beside for path in parent.iterdir() if path.is_dir()}):
        if (candidate / "blobs").exists() and (candidate / "blobs").resolve() == folder:
            yield candidate


def _logs_in(directory: Path) -> list[LogFiles]:
    """Return the logs in a folder: usually one, several if a template puts them there."""
    names = {_ROTATED.sub(r"\1.jsonl", path.name) for path in directory.glob("*.jsonl")}
    return [LogFiles(directory, name) for name in sorted(names)]


def _reachable(store: BlobStore, logs: list[LogFiles]) -> set[str]:
    """Return the names of the blobs that lines refer to, directly or through other blobs."""
    wanted: set[str] = set()
    for log in logs:
        for path in log.newest_first():
            wanted.update(_references_in(path))
    todo = list(wanted)
    while todo:
        for name in _references_in(store.path(todo.pop())):
            if name not in wanted:
                wanted.add(name)
                todo.append(name)
    return {name.removeprefix("sha256:") for name in wanted}


def _references_in(path: Path) -> Iterator[str]:
    """Yield the blobs that a log file or a blob refers to."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        for line in file:
            for match in _REFERENCE.finditer(line):
                yield match[1].decode()


def _blobs_in(folder: Path) -> Iterator[Path]:
    for part in sorted(folder.iterdir()) if folder.is_dir() else ():
        if part.is_dir():
            yield from sorted(part.iterdir())

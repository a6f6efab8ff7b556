"""Make room: delete sessions that nobody has used for long, and what crashes have left."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from amplifier_foundation.errors import FoundationError
from amplifier_foundation.sessions.index import folder_names
from amplifier_foundation.sessions.log_retention import prune_blobs, prune_rotated
from amplifier_foundation.sessions.metadata import SessionSummary, last_activity
from amplifier_foundation.sessions.store import SessionStore
from amplifier_kit.log import SessionLogBusy

__all__ = [
    "ASIDE",
    "CleanedSession",
    "Cleanup",
    "CleanupError",
    "RemovalError",
    "Removed",
    "SessionRunningError",
    "clean_up",
    "folder_bytes",
    "is_running",
    "remove",
]

_LONGEST_AGE = 36_500
#: Seconds after which a temporary file or folder belongs to nobody.
_ABANDONED = 3600


class CleanupError(FoundationError):
    """The age that was asked for makes no sense."""

    code = "cleanup_invalid"


@dataclass(frozen=True)
class CleanedSession:
    """A session that was, or would be, deleted with all that it started."""

    session: SessionSummary
    ids: tuple[str, ...]
    bytes: int


@dataclass(frozen=True)
class Cleanup:
    """What was deleted, or would be; what is as old and was kept, with the reason; what crashes had left."""

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
    """Delete the sessions of a project, or of all, that were not active for `days` days.

    A session goes together with those that it started, and only when none of them was active since. Kept are sessions
    that run, those with a name, and damaged ones, of which nobody knows whether they have one: `include_named` takes
    both kinds too. With `keep_rotated` the logs of the sessions that stay, and do not run, keep only so many of their
    rotated files, the newest, and the large values of the remaining lines. With `dry_run` nothing is changed. Raises
    CleanupError for an invalid age, and what `list` raises.
    """
    if not 0 <= days <= _LONGEST_AGE:
        raise CleanupError(f"{days!r} days is no age of sessions: give a number from 0 to {_LONGEST_AGE}")
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
    """Delete the oldest rotated files of the logs of a family, then the large values that only they referred to."""
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
        warnings.append(f"the log of session {family[0].id} could not be made smaller: {error}")
        return [], 0


def _families(sessions: Sequence[SessionSummary]) -> Iterator[list[SessionSummary]]:
    """Yield every session that no other one has started, and behind it all that came of it.

    One whose parent is gone stands for itself.
    """
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
    # What is left goes in circles, by damaged notes; each stands for itself.
    yield from ([one] for rest in children.values() for one in rest)


def _reason_to_keep(family: Sequence[SessionSummary], include_named: bool) -> str | None:
    for one in family:
        if is_running(one.folder):
            return f"session {one.id} runs"
        if not include_named and one.name:
            return f"it is named {one.name!r}" if one is family[0] else f"{one.id}, which it started, is named"
        if not include_named and one.damaged:
            return f"nobody knows whether it is named: {one.damaged}"
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
    """Delete what crashes have left in some folders with sessions; return what it was, and its bytes."""
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
    """Yield the temporary folders beside the sessions, and the temporary files in them, that belong to nobody."""
    from amplifier_foundation.sessions.fork import TEMPORARY

    with os.scandir(place) as entries:
        hidden = [Path(entry.path) for entry in entries if entry.name.startswith((ASIDE, TEMPORARY))]
    yield from (path for path in hidden if _is_abandoned(path))
    for name in folder_names(str(place)):
        try:
            with os.scandir(place / name) as entries:
                files = [Path(entry.path) for entry in entries if entry.name.endswith(".tmp") and entry.is_file()]
        except OSError:
            continue  # deleted just now
        yield from (path for path in files if _is_abandoned(path))


def _is_abandoned(path: Path) -> bool:
    try:
        found = path.lstat()
    except OSError:
        return False
    return time.time() - max(found.st_mtime, found.st_ctime) > _ABANDONED


# -- removal: Delete sessions: each is there as a whole or gone as a whole, whatever happens meanwhile. --


#: How the names of folders start that are being deleted; what a crash leaves of them is swept by `cleanup`.
ASIDE = ".deleted-"
_LOCK = "events.lock"
_BLOBS = "blobs"


class SessionRunningError(FoundationError):
    """A process runs this session."""

    code = "session_running"


class RemovalError(FoundationError):
    """A session cannot be deleted; it is there as before."""

    code = "session_not_deleted"


@dataclass(frozen=True)
class Removed:
    """What was deleted: the ids, the one that was asked for first, and the bytes they took."""

    ids: tuple[str, ...]
    bytes: int
    #: What could be moved aside but not deleted: it is no session any more, and is swept by the next cleanup.
    warnings: tuple[str, ...] = ()


def is_running(folder: Path) -> bool:
    """Tell whether a process runs the session in a folder; of the published program's sessions nobody can tell."""
    import fcntl

    try:
        descriptor = os.open(folder / _LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False  # whoever runs a session has made this file
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False  # no locks on this file system
    finally:
        os.close(descriptor)
    return False


def remove(folders: Sequence[Path]) -> Removed:
    """Delete the sessions in some folders of one project, all or none; blobs that others share stay with those.

    Raises SessionRunningError when one of them runs, or one that shares blobs with them, and RemovalError when one
    cannot be moved aside. A folder that is gone already is none to delete.
    """
    doomed = [folder for folder in folders if folder.is_dir()]
    size = sum(map(folder_bytes, doomed))
    with ExitStack() as locks:
        _lock_all(doomed, locks)
        heirs = _heirs(doomed)
        _lock_all([heir for sharers in heirs.values() for heir in sharers], locks)
        for folder, sharers in heirs.items():
            _hand_over(folder, sharers)
        asides = _move_all(doomed)
    warnings = [text for aside in asides for text in sweep(aside)]
    return Removed(tuple(folder.name for folder in doomed), size, tuple(warnings))


def sweep(aside: Path) -> list[str]:
    """Delete a folder that was moved aside; return what could not be deleted, in readable lines."""
    import shutil

    try:
        if aside.is_symlink():
            aside.unlink()
        else:
            shutil.rmtree(aside)
    except FileNotFoundError:
        pass  # another process has swept it
    except OSError as error:
        return [f"{aside} could not be deleted: {error.strerror or error}"]
    return []


def folder_bytes(folder: Path) -> int:
    """Return how many bytes the files below a folder have; links are not followed."""
    size = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                size += os.lstat(os.path.join(parent, name)).st_size
            except OSError:
                continue  # deleted just now
    return size


def _lock_all(folders: Iterable[Path], locks: ExitStack) -> None:
    """Keep whoever would run these sessions away."""
    from amplifier_kit.log.files import LogLock, SessionLogBusy

    for folder in folders:
        try:
            locks.callback(LogLock(folder / _LOCK, folder / "events.jsonl").release)
        except SessionLogBusy as error:
            who = "another process" if error.pid is None else f"process {error.pid}"
            raise SessionRunningError(
                f"session {folder.name} cannot be deleted, because {who} runs it, or deletes it: wait for it, or end it"
            ) from error
        except FileNotFoundError:
            continue  # another process has deleted it
        except OSError as error:
            raise _failed(folder, error) from error


def _heirs(doomed: Sequence[Path]) -> dict[Path, list[Path]]:
    """Return, for every folder whose blobs others use that stay, those others."""
    heirs: dict[Path, list[Path]] = {}
    owners = [folder for folder in doomed if (folder / _BLOBS).is_dir() and not (folder / _BLOBS).is_symlink()]
    if not owners:
        return heirs
    by_blobs = {os.path.realpath(folder / _BLOBS): folder for folder in owners}
    for parent in {folder.parent for folder in owners}:
        for name in folder_names(str(parent)):
            link = parent / name / _BLOBS
            owner = by_blobs.get(os.path.realpath(link)) if os.path.islink(link) else None
            if owner is not None and parent / name not in doomed:
                heirs.setdefault(owner, []).append(parent / name)
    return heirs


def _hand_over(folder: Path, sharers: Sequence[Path]) -> None:
    """Give the blobs of a session to the first that shares them, and let the others share with that one."""
    heir, *others = sharers
    try:
        (heir / _BLOBS).unlink()
        os.rename(folder / _BLOBS, heir / _BLOBS)
        for other in others:
            fresh = other / f"{_BLOBS}.{os.getpid()}.tmp"
            fresh.unlink(missing_ok=True)
            fresh.symlink_to(os.path.relpath(heir / _BLOBS, other), target_is_directory=True)
            os.replace(fresh, other / _BLOBS)
    except OSError as error:
        raise _failed(folder, error) from error


def _move_all(doomed: Sequence[Path]) -> list[Path]:
    """Move folders aside, the ones that were started before the one that started them; on trouble, all back."""
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

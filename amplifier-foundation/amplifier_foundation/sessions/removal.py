"""Delete sessions: each is there as a whole or gone as a whole, whatever happens meanwhile."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from amplifier_foundation.errors import FoundationError
from amplifier_foundation.sessions.catalog import folder_names

__all__ = ["ASIDE", "RemovalError", "Removed", "SessionRunningError", "folder_bytes", "is_running", "remove"]

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
    from amplifier_kit.log.lock import LogLock, SessionLogBusy

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

"""Delete old parts of a log on request (`amplifier session cleanup --keep-rotated N`), never automatically."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from amplifier_kit.log.blobs import BlobStore
from amplifier_kit.log.files import LogFiles, LogLock

_REFERENCE = re.compile(rb'"\$blob":\s*"(sha256:[0-9a-f]{64})"')
_ROTATED = re.compile(r"^(.+)\.[1-9][0-9]*\.jsonl$")
#: Seconds after which a partly written blob is abandoned.
_ABANDONED = 3600


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


def _is_abandoned(path: Path) -> bool:
    return time.time() - os.stat(path).st_mtime > _ABANDONED

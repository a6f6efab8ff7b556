"""Make the folders of the cache completely or not at all, each by one process at a time.

A folder is built beside its place and renamed into it, so that no other process ever sees a part of it. What a killed
process leaves behind is never used, and removed when the next folder is built.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from amplifier_foundation.files import FileBusyError, locked
from amplifier_kit.threads import in_thread

#: How often a process checks whether another one is done, in seconds.
_POLL: Final = 0.05
_ENDING: Final = ".tmp"


@asynccontextmanager
async def folder_lock(
    folder: Path, timeout: float = float("inf"), on_wait: Callable[[], None] = lambda: None
) -> AsyncIterator[None]:
    """Hold the lock of a folder that may be missing; `on_wait` is called when another process holds it.

    Raises FileBusyError after `timeout` seconds, and OSError.
    """
    import asyncio

    end = time.monotonic() + timeout
    has_waited = False
    while True:
        lock = locked(_lock_file(folder), timeout=0)
        try:
            lock.__enter__()
            break
        except FileBusyError:
            if time.monotonic() >= end:
                raise FileBusyError(
                    f"{folder}: another process has been working on it for {timeout:g} s: wait for it, or end it"
                ) from None
        if not has_waited:
            on_wait()
        has_waited = True
        await asyncio.sleep(_POLL)  # not in a thread: a cancelled caller must not get the lock afterwards
    try:
        yield
    finally:
        lock.__exit__(None, None, None)


@asynccontextmanager
async def staging_folder(folder: Path) -> AsyncIterator[Path]:
    """Yield an empty folder to build `folder` in, whose lock is held; it is removed in the end. Raises OSError."""
    await in_thread(lambda: _remove_abandoned(folder))
    staging = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=_ENDING, dir=folder.parent))
    try:
        yield staging
    finally:
        # A process that outlived its parent may still be writing there; what stays is removed the next time.
        await in_thread(lambda: shutil.rmtree(staging, ignore_errors=True))


def move_into_place(built: Path, folder: Path) -> None:
    """Rename a folder built in a staging folder, and move one that is there out of the way. Raises OSError."""
    if folder.is_symlink() or folder.exists():
        os.rename(folder, built.with_name(f"{built.name}.old"))
    os.rename(built, folder)


def _remove_abandoned(mine: Path) -> None:
    """Remove the staging folders of killed processes: those whose lock is free, and those of `mine`, held here."""
    for leftover in mine.parent.glob(f".*{_ENDING}"):
        folder = mine.with_name(leftover.name[1:].rsplit(".", 2)[0])
        if folder == mine:
            shutil.rmtree(leftover, ignore_errors=True)
            continue
        try:
            with locked(_lock_file(folder), timeout=0):
                shutil.rmtree(leftover, ignore_errors=True)
        except (FileBusyError, OSError):
            continue  # another process is working there, or it is not ours to remove


def _lock_file(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.lock")

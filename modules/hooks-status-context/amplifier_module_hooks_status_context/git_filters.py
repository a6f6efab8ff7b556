"""Find unchanged files that have a filter, without running the filter.

The filter of a file (`filter=lfs` in `.gitattributes`) is a program from the repository's config, which is not run. So
git compares the raw file with the filtered content in its index, and reports it as changed whenever it compares: after
a write, and also for files as recent as the index. The index is more reliable: a file with the times and the size that
it recorded has not been written to since.
"""

from __future__ import annotations

import os
import re
from typing import Final

from amplifier_module_hooks_status_context.command import OpenRepository
from amplifier_module_hooks_status_context.status import Change, Status

#: The most files that are checked, and the most bytes of their names together.
_MOST: Final = 500
_LONGEST: Final = 50_000
_ATTRIBUTES_LIMIT: Final = 256 * 1024
_NO_FILTER: Final = (b"unspecified", b"unset", b"set")
_ENTRY: Final = (
    rb"([^\0]+)\0  ctime: (\d+):(\d+)\n  mtime: (\d+):(\d+)\n"
    rb"  dev: [^\n]*\n  uid: [^\n]*\n  size: (\d+)\t[^\n]*\n"
)


async def drop_unchanged(status: Status, opened: OpenRepository) -> None:
    """Remove files from the changes that only look changed because their filter was not run."""
    paths = _candidates(status.changes, opened.root)
    if not paths:
        return
    attributes, index = await opened.ask(
        ("check-attr", "-z", "filter", "--", *paths), ("--literal-pathspecs", "ls-files", "--debug", "-z", "--", *paths)
    )
    if not (attributes.is_usable and index.is_usable):
        return
    said = attributes.output.split(b"\0")
    filtered = {path for path, value in zip(said[::3], said[2::3], strict=False) if value not in _NO_FILTER}
    same = {
        os.fsdecode(path)
        for path, *recorded in re.findall(_ENTRY, index.output)
        if path in filtered and _is_same(os.path.join(os.fsencode(opened.root), path), tuple(map(int, recorded)))
    }
    status.changes[:] = [
        change._replace(code=f"{change.code[0]} ") if change.path in same and change.code[1:] == "M" else change
        for change in status.changes
        if change.path not in same or change.code != " M"
    ]


def _candidates(changes: list[Change], root: str) -> list[str]:
    """Return the changed files below a `.gitattributes` that mentions filters."""
    known: dict[str, bool] = {}
    found: list[str] = []
    length = 0
    for change in changes[: 4 * _MOST]:
        if change.code[1:] != "M" or "\ufffd" in change.path:
            continue
        if _has_filters(os.path.dirname(change.path), root, known):
            length += len(change.path.encode())
            if length > _LONGEST or len(found) == _MOST:
                break
            found.append(change.path)
    return found


def _has_filters(folder: str, root: str, known: dict[str, bool]) -> bool:
    if folder not in known:
        above = bool(folder) and _has_filters(os.path.dirname(folder), root, known)
        known[folder] = above or b"filter" in _read(os.path.join(root, folder, ".gitattributes"))
    return known[folder]


def _read(path: str) -> bytes:
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
            return file.read(_ATTRIBUTES_LIMIT)
    except OSError:
        return b""


def _is_same(path: bytes, recorded: tuple[int, ...]) -> bool:
    try:
        now = os.lstat(path)
    except OSError:
        return False
    changed, written = divmod(now.st_ctime_ns, 10**9), divmod(now.st_mtime_ns, 10**9)
    # The index keeps the lower 32 bits.
    return (*changed, *written, now.st_size) == recorded if max(recorded) < 2**32 - 1 else False

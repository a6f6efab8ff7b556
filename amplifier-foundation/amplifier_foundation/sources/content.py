"""Hash the content of a folder, with the same result on every machine."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

#: The cache's own record in a fetched folder.
META_NAME: Final = ".amplifier_cache_meta.json"
#: What is not part of a source's content: git's data, what Python compiles by itself, our record.
NOT_CONTENT: Final = frozenset({".git", "__pycache__", META_NAME})


def content_hash(root: Path) -> str:
    """Return the sha256 over the relative paths, executable bits and contents of everything below `root`, sorted.

    Links are not followed: their target is their content. Empty folders do not count. Raises OSError.
    """
    import hashlib

    whole = hashlib.sha256()
    for name, path in sorted(_files(os.fsencode(root))):
        kind, digest = _one(path)
        whole.update(b"%s %s %d:%s\n" % (kind, digest, len(name), name))
    return whole.hexdigest()


def _files(root: bytes) -> list[tuple[bytes, bytes]]:
    found: list[tuple[bytes, bytes]] = []
    ignored = {os.fsencode(name) for name in NOT_CONTENT}
    pending = [(b"", root)]
    while pending:
        prefix, folder = pending.pop()
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name in ignored:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    pending.append((prefix + entry.name + b"/", entry.path))
                else:
                    found.append((prefix + entry.name, entry.path))
    return found


def _one(path: bytes) -> tuple[bytes, bytes]:
    import hashlib

    mode = os.lstat(path).st_mode
    if stat.S_ISLNK(mode):
        return b"link", hashlib.sha256(os.readlink(path)).hexdigest().encode()
    if not stat.S_ISREG(mode):
        return b"other", b"-"  # a pipe or socket: reading it could wait for ever
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest().encode()
    return (b"program" if mode & stat.S_IXUSR else b"file"), digest

"""Store large values outside the lines of a log, each once, named by the hash of its content.

A blob is the JSON of one value in `<first two hex digits>/<sha256>`, written to a temporary file and renamed: a blob
that exists is complete, also after a crash.
"""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from threading import get_ident
from typing import Any

from amplifier_kit.log.record import decode

#: Values with longer JSON become blobs.
LIMIT = 4096

#: Characters of a value that its reference shows.
PREVIEW = 200

_PREFIX = "sha256:"
_HEX = 64
#: How many blobs may be written before they are forced to disk.
_UNSYNCED = 1024
_FEW = 4
_MAX_THREADS = 16


class BlobError(LookupError):
    """A blob is missing, or its content does not match its name."""


class BlobStore:
    """Store and read blobs in one folder, which the sessions of a tree may share, in any process."""

    def __init__(self, folder: Path) -> None:
        """Use `folder`, which need not exist."""
        self.folder = folder
        #: What `sync` must force to disk.
        self._unsynced: list[Path] = []

    def put(self, value: Any, encoded: bytes) -> dict[str, Any]:
        """Store `encoded`, the JSON of `value`, unless it exists, and return the reference to it; raises OSError."""
        name = sha256(encoded).hexdigest()
        self._write(name, encoded)
        return {"$blob": f"{_PREFIX}{name}", "bytes": len(encoded), "preview": _preview(value, encoded)}

    def get(self, reference: str) -> Any:
        """Return the value named `sha256:...`; raise BlobError if it is missing or damaged."""
        return decode(self.content(reference))

    def content(self, reference: str) -> bytes:
        """Return the bytes named `sha256:...`, checked against their hash; raise BlobError otherwise."""
        path = self.path(reference)
        try:
            content = path.read_bytes()
        except OSError as error:
            raise BlobError(f"Blob {reference} is not in {self.folder}: {error.strerror}") from error
        if sha256(content).hexdigest() != path.name:
            raise BlobError(f"Blob {path} is damaged: its content does not have the hash that is its name")
        return content

    def path(self, reference: str) -> Path:
        """Return the path of a blob; raise BlobError for an invalid name."""
        name = reference.removeprefix(_PREFIX)
        if len(reference) != len(_PREFIX) + _HEX or len(name) != _HEX or not set(name) <= set("0123456789abcdef"):
            raise BlobError(f"{reference[:100]!r} does not name a blob: expected sha256: and 64 hex digits")
        return self.folder / name[:2] / name

    def sync(self) -> None:
        """Force everything written since the last call to disk: contents, then names."""
        pending, self._unsynced = self._unsynced, []
        _sync_all(pending)
        _sync_all(list({path.parent for path in pending}))

    def _write(self, name: str, encoded: bytes) -> None:
        try:
            # Without a Path: most blobs exist already, and this is the whole cost of writing them again.
            if os.stat(f"{self.folder}/{name[:2]}/{name}").st_size == len(encoded):
                return
        except FileNotFoundError:
            self._make_folder(self.folder / name[:2])
        path = self.folder / name[:2] / name
        temporary = path.with_name(f".{name}.{os.getpid()}.{get_ident()}.tmp")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            try:
                _write_all(descriptor, encoded)
            finally:
                os.close(descriptor)
            os.replace(temporary, path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        self._unsynced.append(path)
        if len(self._unsynced) >= _UNSYNCED:
            self.sync()

    def _make_folder(self, folder: Path) -> None:
        """Create the folder of some blobs, never the session's own: a session that was removed stays removed."""
        if self.folder.is_symlink() and not self.folder.exists():
            self.folder.unlink()  # the root session, whose blobs were shared, was removed
        self.folder.mkdir(mode=0o700, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)


def share_folder(own: Path, shared: Path) -> None:
    """Make `own`, the blob folder of a child session, a link to the root session's, unless it exists.

    If that is impossible (the root was removed, the file system has no links), the child stores its own blobs.
    """
    if own.is_symlink() or own.exists() or not shared.parent.is_dir():
        return
    try:
        shared.mkdir(mode=0o700, exist_ok=True)
        own.symlink_to(os.path.relpath(shared, own.parent), target_is_directory=True)
    except OSError:
        # Another process created it, or it cannot be created; the log is complete either way.
        pass


def sync_path(path: Path) -> None:
    """Force a file, or the names in a folder, to disk; a removed one is skipped."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_all(paths: list[Path]) -> None:
    """Force many files to disk in parallel, which takes little longer than one."""
    if len(paths) > _FEW:
        from concurrent.futures import ThreadPoolExecutor

        try:
            with ThreadPoolExecutor(min(len(paths), _MAX_THREADS)) as pool:
                list(pool.map(sync_path, paths))
            return
        except RuntimeError:
            # The interpreter is shutting down and starts no more threads.
            pass
    for path in paths:
        sync_path(path)


def _write_all(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


def _preview(value: Any, encoded: bytes) -> str:
    # A cut inside a character leaves that character out.
    text = value if isinstance(value, str) else encoded[: 4 * PREVIEW].decode("utf-8", "ignore")
    return text[:PREVIEW]

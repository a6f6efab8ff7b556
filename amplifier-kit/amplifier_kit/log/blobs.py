"""Keep large values apart from the log's lines, each once, under the hash of its content.

A blob is the JSON of one value in `<first two hex digits>/<sha256>`, written beside its name and renamed into place: a
name that exists holds all of its content, also after a crash.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from hashlib import sha256
from pathlib import Path
from threading import get_ident
from typing import Any

from amplifier_kit.log.encoding import decode

#: Values whose JSON is longer than this leave the line.
LIMIT = 4096

#: Characters of a value that its reference shows.
PREVIEW = 200

_PREFIX = "sha256:"
_HEX = 64
_REMEMBERED = 4096
#: How many blobs may be written without having been forced to disk.
_UNSYNCED = 1024
_ONE_BY_ONE = 4
_SIDE_BY_SIDE = 16


class BlobError(LookupError):
    """A blob is missing, or its content is not what its name says."""


class BlobStore:
    """Store and find blobs in one folder, which may be shared by the sessions of a tree, in any process."""

    def __init__(self, folder: Path, *, durable: bool = False) -> None:
        """Use `folder`, which need not exist; `durable` remembers what `sync` has to force to disk."""
        self.folder = folder
        self._durable = durable
        self._known: OrderedDict[str, None] = OrderedDict()
        self._unsynced: list[Path] = []

    def put(self, value: Any, encoded: bytes) -> dict[str, Any]:
        """Store `encoded`, the JSON of `value`, unless it is there, and return the reference that stands for it.

        Raises OSError when it cannot be stored.
        """
        name = sha256(encoded).hexdigest()
        if name in self._known:
            self._known.move_to_end(name)
        else:
            self._write(name, encoded)
            self._known[name] = None
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return {"$blob": f"{_PREFIX}{name}", "bytes": len(encoded), "preview": _preview(value, encoded)}

    def get(self, reference: str) -> Any:
        """Return the value that `sha256:...` names; raise BlobError when it is missing or damaged."""
        return decode(self.content(reference))

    def content(self, reference: str) -> bytes:
        """Return the bytes that `sha256:...` names, checked against it; raise BlobError otherwise."""
        path = self.path(reference)
        try:
            content = path.read_bytes()
        except OSError as error:
            raise BlobError(f"Blob {reference} is not in {self.folder}: {error.strerror}") from error
        if sha256(content).hexdigest() != path.name:
            raise BlobError(f"Blob {path} is damaged: its content does not have the hash that is its name")
        return content

    def path(self, reference: str) -> Path:
        """Return where a blob lies; raise BlobError for a name that is none."""
        name = reference.removeprefix(_PREFIX)
        if len(reference) != len(_PREFIX) + _HEX or len(name) != _HEX or not set(name) <= set("0123456789abcdef"):
            raise BlobError(f"{reference[:100]!r} does not name a blob: expected sha256: and 64 hex digits")
        return self.folder / name[:2] / name

    def sync(self) -> None:
        """Force everything written since the last time to disk: contents, then the names of them."""
        pending, self._unsynced = self._unsynced, []
        _sync_all(pending)
        _sync_all(list({path.parent for path in pending}))

    def forget(self) -> None:
        """Look at the disk again before trusting that a blob is there."""
        self._known.clear()

    def _write(self, name: str, encoded: bytes) -> None:
        path = self.folder / name[:2] / name
        try:
            if path.stat().st_size == len(encoded):
                return
        except FileNotFoundError:
            self._make_folder(path.parent)
        beside = path.with_name(f".{name}.{os.getpid()}.{get_ident()}.tmp")
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            try:
                _write_all(descriptor, encoded)
            finally:
                os.close(descriptor)
            os.replace(beside, path)
        except OSError:
            beside.unlink(missing_ok=True)
            raise
        if self._durable:
            self._unsynced.append(path)
            if len(self._unsynced) >= _UNSYNCED:
                self.sync()

    def _make_folder(self, folder: Path) -> None:
        """Make the folder of some blobs, never the session's own: a session that was removed stays removed."""
        if self.folder.is_symlink() and not self.folder.exists():
            self.folder.unlink()  # the root session, whose blobs were shared, is gone
        self.folder.mkdir(mode=0o700, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)


def share_folder(own: Path, shared: Path) -> None:
    """Make `own`, the blob folder of a child session, a link to the root session's, unless it is there already.

    Where that is impossible (the root is gone, no links on this file system) the child keeps blobs of its own.
    """
    if own.is_symlink() or own.exists() or not shared.parent.is_dir():
        return
    try:
        shared.mkdir(mode=0o700, exist_ok=True)
        own.symlink_to(os.path.relpath(shared, own.parent), target_is_directory=True)
    except OSError:
        # Another process made it meanwhile, or it cannot be made; the log is complete either way.
        pass


def sync_path(path: Path) -> None:
    """Force a file's content, or a folder's list of names, to disk; one that was removed is no loss."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_all(paths: list[Path]) -> None:
    """Force many files to disk, side by side: file systems do them together, in little more time than one takes."""
    if len(paths) > _ONE_BY_ONE:
        from concurrent.futures import ThreadPoolExecutor

        try:
            with ThreadPoolExecutor(min(len(paths), _SIDE_BY_SIDE)) as pool:
                list(pool.map(sync_path, paths))
            return
        except RuntimeError:
            # The interpreter is ending and starts no more threads.
            pass
    for path in paths:
        sync_path(path)


def _write_all(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


def _preview(value: Any, encoded: bytes) -> str:
    # Cut bytes may end inside a character, which is then left out.
    text = value if isinstance(value, str) else encoded[: 4 * PREVIEW].decode("utf-8", "ignore")
    return text[:PREVIEW]

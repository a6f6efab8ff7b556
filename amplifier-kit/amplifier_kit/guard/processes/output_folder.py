"""Keep what does not fit into a result: files that only their owner reads, together no larger than a limit."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, NamedTuple

from amplifier_kit.guard.private_files import make_private

#: What the files of one folder may take together; the oldest go first.
FOLDER_LIMIT: Final = 256 * 1024 * 1024


class Kept(NamedTuple):
    """A file that has just been made, open for writing."""

    path: Path
    file: int


class OutputFolder:
    """Make files for output in one folder, which comes into being with the first of them."""

    def __init__(self, path: Path | None = None, *, limit: int = FOLDER_LIMIT) -> None:
        """Keep files in `path`, or in a temporary folder that `close` removes."""
        self._path = path
        self._limit = limit
        self._is_temporary = path is None
        self._open: set[Path] = set()

    def create(self, prefix: str) -> Kept:
        """Make a file that only its owner may read; raises OSError."""
        folder = self._made()
        self._prune(folder)
        path = folder / f"{prefix}-{os.urandom(6).hex()}.out"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        kept = Kept(path, os.open(path, flags, 0o600))
        self._open.add(path)
        return kept

    def release(self, path: Path) -> None:
        """Take note that a file is written to no more: from now on it may go when there is no room."""
        self._open.discard(path)

    def close(self) -> None:
        """Remove a temporary folder; make one that stays no larger than its limit."""
        import shutil

        self._open.clear()
        if self._path is None:
            return
        if not self._is_temporary:
            self._prune(self._path)
            return
        shutil.rmtree(self._path, ignore_errors=True)
        self._path = None

    def _made(self) -> Path:
        if self._path is None:
            import tempfile

            self._path = Path(tempfile.mkdtemp(prefix="amplifier-output-"))
        make_private(self._path.parent)
        self._path.mkdir(mode=0o700, exist_ok=True)
        return self._path

    def _prune(self, folder: Path) -> None:
        """Remove the oldest files that nobody writes to until the rest fits."""
        found = []
        for path in folder.glob("*.out"):
            try:
                status = path.lstat()
            except OSError:
                continue  # removed meanwhile
            found.append((status.st_mtime_ns, path, status.st_size))
        total = sum(size for _, _, size in found)
        for _, path, size in sorted(found):
            if total <= self._limit:
                return
            if path not in self._open:
                path.unlink(missing_ok=True)
                total -= size

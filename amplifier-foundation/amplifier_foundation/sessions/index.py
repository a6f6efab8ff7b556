"""Read the summaries of all sessions, fast: `SessionCatalog` reads folders, `SessionIndex` caches what it found.

The folders are the truth. The index is a cache that may be deleted at any time; a row is valid as long as its stamp is
that of the session's file.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amplifier_core.named_tuple import NamedTuple
from amplifier_foundation.errors import FoundationError
from amplifier_foundation.files import locked
from amplifier_foundation.paths import Home
from amplifier_foundation.sessions.metadata import Facts, SessionSummary, last_activity, read_facts, summary_of

if TYPE_CHECKING:
    import sqlite3

__all__ = ["IndexRow", "Row", "SessionCatalog", "SessionIndex", "SessionsUnreadableError", "folder_names"]

#: The version of the table; a file of another version is rebuilt.
_VERSION = 1
_COLUMNS = ("slug", "id", "stamp", *Facts._fields)
_TABLE = f"CREATE TABLE sessions ({', '.join(_COLUMNS)}, PRIMARY KEY (slug, id)) WITHOUT ROWID"
_INSERT = f"INSERT OR REPLACE INTO sessions ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM sessions"
#: Seconds to wait for another process that writes; a list without the index is only slower.
_PATIENCE = 2.0


#: A row of the table: slug, id, stamp, then the facts in their order.
Row = tuple[Any, ...]


class IndexRow(NamedTuple):
    """One session: its project and id, the stamp of the file that was read, and the facts in it."""

    slug: str
    id: str
    stamp: str
    facts: Facts


class SessionIndex:
    """The rows in one SQLite file, shared by all processes of a user.

    Never raises: an unusable index has no rows, and a damaged one is rebuilt; `problem` says why.
    """

    def __init__(self, path: Path) -> None:
        """Use the file at `path`, which the first row creates."""
        self._path = path
        #: Why the index is unusable, None if it is not.
        self.problem: str | None = None

    def load(self, slug: str | None = None) -> dict[str, dict[str, Row]]:
        """Return the rows of one project, or of all, by slug and id."""
        rows: dict[str, dict[str, Row]] = {}
        condition, values = ("", ()) if slug is None else (" WHERE slug = ?", (slug,))
        with self._guarded():
            if self._path.exists():
                with closing(self._connected()) as connection:
                    for row in connection.execute(f"{_SELECT}{condition}", values):
                        rows.setdefault(row[0], {})[row[1]] = row
        return rows

    def save(self, rows: Iterable[IndexRow], gone: Iterable[tuple[str, str]] = ()) -> None:
        """Add or replace rows, and remove those of deleted sessions, given by slug and id."""
        added = [(row.slug, row.id, row.stamp, *row.facts) for row in rows]
        removed = list(gone)
        if not added and not removed:
            return
        with self._guarded():
            self._create()
            with closing(self._connected()) as connection, connection:
                connection.execute("BEGIN IMMEDIATE")
                connection.executemany("DELETE FROM sessions WHERE slug = ? AND id = ?", removed)
                connection.executemany(_INSERT, added)

    # -- the file --

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Set `problem` if the file cannot be used; delete a damaged one."""
        import sqlite3

        try:
            yield
        except sqlite3.Error as error:
            self.problem = f"{self._path}: {error}"
            # OperationalError is locked, full or unreadable, and may pass; others mean a damaged or foreign file.
            if not isinstance(error, sqlite3.OperationalError):
                self._discard()
        except (OSError, FoundationError, ValueError, OverflowError) as error:
            # ValueError: text that UTF-8 cannot carry, or a path that SQLite does not take.
            self.problem = f"{self._path}: {error}"
        else:
            self.problem = None

    def _connected(self) -> sqlite3.Connection:
        """Open an existing file of our version; raises sqlite3.Error."""
        import sqlite3
        from urllib.parse import quote

        address = f"file:{quote(os.fsencode(self._path))}?mode=rw"
        connection = sqlite3.connect(address, uri=True, timeout=_PATIENCE, isolation_level=None)
        try:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version != _VERSION:
                raise sqlite3.DatabaseError(f"the index has version {version}, this program has version {_VERSION}")
            connection.execute("PRAGMA synchronous = NORMAL")
        except BaseException:
            connection.close()
            raise
        return connection

    def _create(self) -> None:
        """Create the file unless it exists."""
        if self._path.exists():
            return
        import sqlite3

        with locked(self._lock, timeout=_PATIENCE):
            if self._path.exists():
                return
            fresh = self._path.with_name(f"{self._path.name}.{os.getpid()}.tmp")
            fresh.unlink(missing_ok=True)
            # It has names and prompts, and is private. SQLite gives the files beside it the same mode.
            os.close(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            try:
                with closing(sqlite3.connect(fresh, isolation_level=None)) as connection:
                    connection.execute("PRAGMA journal_mode = WAL")
                    connection.execute(_TABLE)
                    connection.execute(f"PRAGMA user_version = {_VERSION}")
                os.replace(fresh, self._path)
            finally:
                for path in _files(fresh):
                    path.unlink(missing_ok=True)

    def _discard(self) -> None:
        """Delete a damaged file; the next list creates a new one."""
        try:
            with locked(self._lock, timeout=_PATIENCE):
                for path in _files(self._path):
                    path.unlink(missing_ok=True)
        except (OSError, FoundationError) as error:
            self.problem = f"{self.problem}; it cannot be removed: {error}"

    @property
    def _lock(self) -> Path:
        return self._path.with_name(f"{self._path.name}.lock")


def _files(path: Path) -> list[Path]:
    return [path.with_name(f"{path.name}{ending}") for ending in ("", "-wal", "-shm", "-journal")]


# -- folders --


#: Seconds since its last change before a file is indexed: two changes within one clock tick have the same stamp.
_SETTLED = 2.0
#: The files whose stamp is used for a session without metadata; the empty name is the folder.
_OTHER_FILES = ("metadata.json.backup", "transcript.jsonl", "events.jsonl", "")


class SessionsUnreadableError(FoundationError):
    """The folder with the sessions of a project cannot be read."""

    code = "sessions_unreadable"


class SessionCatalog:
    """Read the sessions of one home, project by project."""

    #: For tests.
    settled = _SETTLED

    def __init__(self, home: Home) -> None:
        """Read below `home`; nothing is read or created yet."""
        self._home = home
        self._index = SessionIndex(home.index)
        #: What was left out and why, and why reading is slow; the caller clears it.
        self.warnings: list[str] = []

    def places(self) -> list[Path]:
        """Return the folders with sessions, of all projects."""
        try:
            return [self._home.projects / name / "sessions" for name in folder_names(str(self._home.projects))]
        except SessionsUnreadableError as error:
            self.warnings.append(str(error))
            return []

    def read_all(self) -> list[SessionSummary]:
        """Return the sessions of all projects; those of one that cannot be read are left out with a warning."""
        found: list[SessionSummary] = []
        known = self._index.load()
        for sessions in self.places():
            try:
                found += self._read(sessions, known.pop(sessions.parent.name, {}))
            except SessionsUnreadableError as error:
                self.warnings.append(str(error))
        self._index.save((), [(slug, name) for slug, rows in known.items() for name in rows])
        self._note_index()
        return found

    def read(self, sessions: Path) -> list[SessionSummary]:
        """Return the sessions in the folder of one project; raises SessionsUnreadableError."""
        slug = sessions.parent.name
        found = self._read(sessions, self._index.load(slug).pop(slug, {}))
        self._note_index()
        return found

    def _read(self, sessions: Path, rows: dict[str, Row]) -> list[SessionSummary]:
        """Return all sessions of a folder; those with a valid row are not read."""
        slug, root, now = sessions.parent.name, str(sessions), time.time()
        found: list[SessionSummary] = []
        fresh: list[IndexRow] = []
        for name in folder_names(root):
            folder = f"{root}/{name}"
            stamp, updated, changed = _stamp(folder)
            row = rows.pop(name, None)
            facts = row[3:] if row is not None and row[2] == stamp else read_facts(folder)
            if updated is None or facts is None:
                continue  # just deleted
            is_settled = abs(now - changed) >= self.settled
            # Rows of the index are plain tuples: `Facts` were read, and are new to it.
            if isinstance(facts, Facts) and is_settled and _is_encodable(slug + name):
                fresh.append(IndexRow(slug, name, stamp, facts))
            found.append(summary_of(name, sessions, updated, facts))
        self._index.save(fresh, [(slug, name) for name in rows])
        return found

    def _note_index(self) -> None:
        if self._index.problem:
            self.warnings.append(f"lists are slower because the index of sessions is unusable: {self._index.problem}")


def folder_names(folder: str) -> list[str]:
    """Return the names of the folders in a folder, without those that are being created or deleted.

    A missing folder is empty; raises SessionsUnreadableError if it cannot be read.
    """
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries if entry.name[0] != "." and entry.is_dir()]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise SessionsUnreadableError(
            f"{folder} cannot be read: {error.strerror or error}. Make it a folder that you can read"
        ) from error


def _stamp(folder: str) -> tuple[str, float | None, float]:
    """Return a stamp that changes with a session's metadata, its last activity, and when the file changed."""
    try:
        found = os.stat(f"{folder}/metadata.json")
        return _of(found), found.st_mtime, found.st_ctime
    except OSError:
        pass  # no metadata yet, or deleted
    for name in _OTHER_FILES:
        try:
            found = os.stat(f"{folder}/{name}")
        except OSError:
            continue
        return f"{name} {_of(found)}", last_activity(folder), found.st_ctime
    return "", None, 0.0


def _of(found: os.stat_result) -> str:
    return f"{found.st_mtime_ns} {found.st_ctime_ns} {found.st_size} {found.st_ino}"


def _is_encodable(text: str) -> bool:
    """Return whether the index can store a name; file names may be any bytes."""
    try:
        return text.isascii() or bool(text.encode("utf-8"))
    except UnicodeEncodeError:
        return False

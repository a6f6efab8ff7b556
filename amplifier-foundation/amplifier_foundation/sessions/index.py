"""Remember what the files of all sessions say, so that a list need not read them: a cache that may go at any time.

The folders say which sessions there are; a row counts only as long as its stamp is that of the session's file.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from amplifier_foundation.errors import FoundationError
from amplifier_foundation.files import locked
from amplifier_foundation.paths import Home
from amplifier_foundation.sessions.metadata import Facts, SessionSummary, last_activity, read_facts, summary_of

if TYPE_CHECKING:
    import sqlite3

__all__ = ["IndexRow", "Row", "SessionCatalog", "SessionIndex", "SessionsUnreadableError", "folder_names"]

#: Counts the forms of the table; a file of another form is made anew.
_VERSION = 1
_COLUMNS = ("slug", "id", "stamp", *Facts._fields)
_TABLE = f"CREATE TABLE sessions ({', '.join(_COLUMNS)}, PRIMARY KEY (slug, id)) WITHOUT ROWID"
_INSERT = f"INSERT OR REPLACE INTO sessions ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM sessions"
#: Seconds to wait for another process that writes; without the index a list is only slower.
_PATIENCE = 2.0
#: What a file that is fit for use answers while it cannot be used; anything else means that it is damaged.
_PASSING = (
    *("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_IOERR", "SQLITE_FULL"),
    *("SQLITE_PERM", "SQLITE_AUTH", "SQLITE_NOLFS", "SQLITE_PROTOCOL", "SQLITE_NOMEM", "SQLITE_INTERRUPT"),
)


#: A row as the index tells it: slug, id and stamp, and after them the facts in their order.
Row = tuple[Any, ...]


class IndexRow(NamedTuple):
    """One session: where it lies, the stamp of the file that was read, and what it said."""

    slug: str
    id: str
    stamp: str
    facts: Facts


class SessionIndex:
    """Hold the rows in one SQLite file, shared by all processes of a user.

    Raises nothing: an index that cannot be used holds no rows, and one that is damaged is made anew. `problem` says so.
    """

    def __init__(self, path: Path) -> None:
        """Use the file at `path`; it is made when the first row is kept."""
        self._path = path
        #: Why the index is of no use at the moment, None when it is.
        self.problem: str | None = None

    def load(self, slug: str) -> dict[str, Row]:
        """Return the rows of one project by id."""
        rows: dict[str, Row] = {}
        with self._guarded():
            if self._path.exists():
                with closing(self._connected()) as connection:
                    rows = {row[1]: row for row in connection.execute(f"{_SELECT} WHERE slug = ?", (slug,))}
        return rows

    def load_all(self) -> dict[str, dict[str, Row]]:
        """Return the rows of all projects, by slug and id."""
        rows: dict[str, dict[str, Row]] = {}
        with self._guarded():
            if self._path.exists():
                with closing(self._connected()) as connection:
                    for row in connection.execute(_SELECT):
                        rows.setdefault(row[0], {})[row[1]] = row
        return rows

    def save(self, rows: Iterable[IndexRow], gone: Iterable[tuple[str, str]] = ()) -> None:
        """Keep rows, and forget the sessions that are gone, given by slug and id."""
        kept = [(row.slug, row.id, row.stamp, *row.facts) for row in rows]
        forgotten = list(gone)
        if not kept and not forgotten:
            return
        with self._guarded():
            self._create()
            with closing(self._connected()) as connection, connection:
                connection.execute("BEGIN IMMEDIATE")
                connection.executemany("DELETE FROM sessions WHERE slug = ? AND id = ?", forgotten)
                connection.executemany(_INSERT, kept)

    # -- the file --

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Note why the file cannot be used; put one that is damaged out of the way."""
        import sqlite3

        try:
            yield
        except sqlite3.Error as error:
            self.problem = f"{self._path}: {error}"
            if not _is_passing(error):
                self._discard()
        except (OSError, FoundationError, ValueError, OverflowError) as error:
            # ValueError: text that UTF-8 cannot carry, or a path that SQLite does not take.
            self.problem = f"{self._path}: {error}"
        else:
            self.problem = None

    def _connected(self) -> sqlite3.Connection:
        """Open a file that exists, of our form; raises sqlite3.Error, of a kind that is not passing when it is not."""
        import sqlite3
        from urllib.parse import quote

        address = f"file:{quote(os.fsencode(self._path))}?mode=rw"
        connection = sqlite3.connect(address, uri=True, timeout=_PATIENCE, isolation_level=None)
        try:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version != _VERSION:
                raise sqlite3.DatabaseError(f"the index has form {version}, this program knows form {_VERSION}")
            connection.execute("PRAGMA synchronous = NORMAL")
        except BaseException:
            connection.close()
            raise
        return connection

    def _create(self) -> None:
        """Make the file, unless it exists."""
        if self._path.exists():
            return
        import sqlite3

        with locked(self._lock, timeout=_PATIENCE):
            if self._path.exists():
                return
            fresh = self._path.with_name(f"{self._path.name}.{os.getpid()}.tmp")
            fresh.unlink(missing_ok=True)
            # It holds names and prompts. SQLite gives the files beside it the mode of this one.
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
        """Remove a damaged file, unless another process has made a new one meanwhile."""
        import sqlite3

        try:
            with locked(self._lock, timeout=_PATIENCE):
                try:
                    with closing(self._connected()) as connection:
                        if connection.execute("PRAGMA quick_check").fetchall() == [("ok",)]:
                            connection.execute(f"{_SELECT} LIMIT 1").fetchall()
                            return
                except sqlite3.Error as error:
                    if _is_passing(error):
                        return
                for path in _files(self._path):
                    path.unlink(missing_ok=True)
        except (OSError, FoundationError) as error:
            self.problem = f"{self.problem}; it cannot be removed: {error}"

    @property
    def _lock(self) -> Path:
        return self._path.with_name(f"{self._path.name}.lock")


def _is_passing(error: sqlite3.Error) -> bool:
    return str(getattr(error, "sqlite_errorname", "")).startswith(_PASSING)


def _files(path: Path) -> list[Path]:
    return [path.with_name(f"{path.name}{ending}") for ending in ("", "-wal", "-shm", "-journal")]


# -- catalog: Read which sessions lie on disk, with the help of the index: the folders are the truth. --


#: Seconds a file must have been left alone before a row of it is kept: two changes within one tick look the same.
_SETTLED = 2.0
#: Where there are no metadata, a change of one of these means that what is known of a session may have changed.
_STAND_INS = ("metadata.json.backup", "transcript.jsonl", "events.jsonl", "")


class SessionsUnreadableError(FoundationError):
    """The folder with the sessions of a project cannot be read."""

    code = "sessions_unreadable"


class SessionCatalog:
    """Read the sessions of one home, project by project."""

    #: How long a file must have been left alone before the index believes it; for tests.
    settled = _SETTLED

    def __init__(self, home: Home) -> None:
        """Read below `home`; nothing is read or made yet."""
        self._home = home
        self._index = SessionIndex(home.index)
        #: What was left out, and what makes reading slow, in readable lines; the caller empties it.
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
        known = self._index.load_all()
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
        found = self._read(sessions, self._index.load(slug))
        self._note_index()
        return found

    def _read(self, sessions: Path, rows: dict[str, Row]) -> list[SessionSummary]:
        """Return all sessions of a folder; only those that have changed since their row was kept are read."""
        slug, root, now = sessions.parent.name, str(sessions), time.time()
        found: list[SessionSummary] = []
        fresh: list[IndexRow] = []
        for name in folder_names(root):
            folder = f"{root}/{name}"
            stamp, updated, changed = _stamp(folder)
            row = rows.pop(name, None)
            facts = row[3:] if row is not None and row[2] == stamp else read_facts(folder)
            if updated is None or facts is None:
                continue  # deleted just now
            is_settled = abs(now - changed) >= self.settled
            # What the index has told is a plain tuple: only what was read is new to it.
            if isinstance(facts, Facts) and is_settled and _is_encodable(slug + name):
                fresh.append(IndexRow(slug, name, stamp, facts))
            found.append(summary_of(name, sessions, updated, facts))
        self._index.save(fresh, [(slug, name) for name in rows])
        return found

    def _note_index(self) -> None:
        if self._index.problem:
            self.warnings.append(f"the index of sessions is not used, so that lists are slower: {self._index.problem}")


def folder_names(folder: str) -> list[str]:
    """Return the names of the folders in a folder, without those that are being made or deleted.

    None when it does not exist; raises SessionsUnreadableError when it cannot be read.
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
    """Return what changes whenever the metadata of a session do, when it was active last, and when that changed."""
    try:
        found = os.stat(f"{folder}/metadata.json")
        return _of(found), found.st_mtime, found.st_ctime
    except OSError:
        pass  # it has none yet, or is gone
    for name in _STAND_INS:
        try:
            found = os.stat(f"{folder}/{name}")
        except OSError:
            continue
        return f"{name} {_of(found)}", last_activity(folder), found.st_ctime
    return "", None, 0.0


def _of(found: os.stat_result) -> str:
    return f"{found.st_mtime_ns} {found.st_ctime_ns} {found.st_size} {found.st_ino}"


def _is_encodable(text: str) -> bool:
    """Tell whether the index can hold a name; file names may be any bytes."""
    try:
        return text.isascii() or bool(text.encode("utf-8"))
    except UnicodeEncodeError:
        return False

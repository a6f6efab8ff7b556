"""Remember what the files of all sessions say, so that a list need not read them: a cache that may go at any time.

The folders say which sessions there are; a row counts only as long as its stamp is that of the session's file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from amplifier_foundation.errors import FoundationError
from amplifier_foundation.files import locked
from amplifier_foundation.sessions.summary import Facts

if TYPE_CHECKING:
    import sqlite3

__all__ = ["IndexRow", "Row", "SessionIndex"]

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

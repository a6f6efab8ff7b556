"""The sessions on disk, ours and those of the published program: list, find, rename and delete them.

The folders are the truth, and several processes may use them at once. `SessionCatalog` reads folders; `SessionIndex` is
a cache of what it found that may be deleted at any time: a row is valid as long as its stamp is that of the session's
file. A `SessionSummary` says which folder a session has; the other modules of this package read and change what is in
it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amplifier_foundation.errors import FoundationError
from amplifier_foundation.files import locked
from amplifier_foundation.paths import Home, current_project, expanded, project_slug
from amplifier_foundation.sessions.metadata import (
    Facts,
    SessionSummary,
    last_activity,
    read_facts,
    read_summary,
    summary_of,
    update_metadata,
)
from amplifier_kit.named_tuple import NamedTuple

if TYPE_CHECKING:
    import sqlite3

    from amplifier_foundation.sessions.cleanup import Removed

__all__ = [
    "AmbiguousSessionError",
    "IndexRow",
    "Row",
    "SessionCatalog",
    "SessionIdError",
    "SessionIndex",
    "SessionNameError",
    "SessionNameTakenError",
    "SessionNotFoundError",
    "SessionStore",
    "SessionsUnreadableError",
    "folder_names",
    "lineage",
]

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


# -- find, rename and delete --


LONGEST_NAME = 50
_MOST_CANDIDATES = 20
#: A text that starts like this is a path.
_PATH_STARTS = ("/", "./", "../", "~")

_Listing = list


class SessionNotFoundError(FoundationError):
    """No session has this id or name."""

    code = "session_not_found"


class AmbiguousSessionError(FoundationError):
    """Several sessions match; `candidates` has them."""

    code = "session_ambiguous"

    def __init__(self, text: str, candidates: list[SessionSummary]) -> None:
        shown = [f"  {_described(found)}" for found in candidates[:_MOST_CANDIDATES]]
        more = len(candidates) - len(shown)
        tail = [f"  and {more} more"] if more > 0 else []
        lines = [f"{len(candidates)} sessions match {text!r}; give the full id of one:", *shown, *tail]
        super().__init__("\n".join(lines))
        self.candidates = candidates


class SessionIdError(FoundationError):
    """The session id is invalid."""

    code = "session_id_invalid"


class SessionNameError(FoundationError):
    """The name is invalid, or another session has it."""

    code = "session_name_invalid"


class SessionNameTakenError(SessionNameError):
    """Another session of the project has the name."""


class SessionStore:
    """The sessions below one home."""

    def __init__(self, home: Home) -> None:
        """Use the sessions of `home`; nothing is read or created yet."""
        self.home = home
        self._catalog = SessionCatalog(home)

    @property
    def warnings(self) -> _Listing[str]:
        """What was left out of the last list and why, and why it was slow."""
        return self._catalog.warnings

    def folder(self, project: Path, session_id: str) -> Path:
        """Return the folder of a session, which need not exist; raises SessionIdError."""
        if not _is_plain(session_id):
            raise SessionIdError(
                f"invalid session id {session_id!r}: it names a folder, so it must not be empty, start with a dot, "
                "or contain a slash, backslash or NUL"
            )
        return self.home.sessions(project) / session_id

    # -- lists --

    def list(
        self,
        project: Path | None = None,
        *,
        all_projects: bool = False,
        limit: int | None = None,
        tree_of: SessionSummary | str | None = None,
        include_children: bool = False,
        text: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> _Listing[SessionSummary]:
        """Return the sessions of a project (by default the current one) or of all, the most recently active first.

        Child sessions are left out unless `include_children`. `tree_of` selects one session with its descendants and
        forks, in any project. Every word of `text` must be in the id, name, description, first prompt, bundle or
        project. `since` and `until` limit the last activity.

        Damaged sessions are included, with the reason. Raises SessionsUnreadableError; with several projects, those
        that cannot be read are in `warnings` instead.
        """
        self._catalog.warnings = []
        if tree_of is not None:
            found = self._tree(self._resolved(tree_of, project))
        else:
            found = self._catalog.read_all() if all_projects else self._listed(project or current_project())
            if not include_children:
                found = [session for session in found if not session.is_child]
        if text:
            words = text.casefold().split()
            found = [session for session in found if _has(session, words)]
        if since is not None or until is not None:
            start, end = _aware(since), _aware(until)
            found = [
                session
                for session in found
                if (start is None or session.updated >= start) and (end is None or session.updated <= end)
            ]
        found.sort(key=_activity, reverse=True)
        return found if limit is None else found[: max(limit, 0)]

    def newest(self, project: Path | None = None) -> SessionSummary | None:
        """Return the session of a project that was active last, None without any; no other session is read."""
        project = project or current_project()
        sessions = self.home.sessions(project)
        active = [(last_activity(f"{sessions}/{name}") or 0.0, name) for name in folder_names(str(sessions))]
        for _, name in sorted(active, reverse=True):
            summary = read_summary(sessions / name)
            if summary is not None and not summary.is_child and not _is_elsewhere(summary.project or "", project):
                return summary
        return None

    def children(self, session: SessionSummary | str) -> _Listing[SessionSummary]:
        """Return the children of a session, the oldest first, without forks."""
        parent = self._resolved(session)
        found = [
            other
            for other in self._catalog.read(parent.folder.parent)
            if other.is_child and other.parent_id == parent.id
        ]
        return sorted(found, key=_beginning)

    def lineage(self, session: SessionSummary | str) -> _Listing[SessionSummary]:
        """Return a session after its ancestors, parents and originals of forks, the root first.

        The line starts after an ancestor that was deleted.
        """
        return lineage(self._resolved(session))

    # -- one session --

    def find(self, text: str, project: Path | None = None) -> SessionSummary:
        """Return the session with an id, the beginning of an id, a name, or a path.

        The sessions of the project (by default the current one) come first; other projects are searched if none of
        them matches. Raises SessionNotFoundError, and AmbiguousSessionError if several match. `warnings` has the
        projects that could not be searched.
        """
        self._catalog.warnings = []
        if text and not text.startswith(_PATH_STARTS):
            here = self.home.sessions(project or current_project())
            for places in ([here], [other for other in self._catalog.places() if other != here]):
                found = self._matching(text, places)
                if len(found) == 1:
                    return found[0]
                if found:
                    raise AmbiguousSessionError(text, found)
        return self._at_path(text)

    def rename(self, session: SessionSummary | str, name: str | None) -> SessionSummary:
        """Set the name of a session, or remove it with None, and return its summary; it may be running.

        Raises SessionNameError if the name is invalid or another session of the project has it, and what `find` and
        `update_metadata` raise.
        """
        from amplifier_foundation.files import locked

        one = self._resolved(session)
        given = None if name is None else _checked(name)
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        sessions = one.folder.parent
        with locked(sessions / ".names.lock"):
            if given is not None:
                self._refuse_taken(given, one)
            named = {"name": given, "name_generated_at": None if given is None else now}
            update_metadata(one.folder, named, is_activity=False)
        return self._resolved(one)

    def delete(self, session: SessionSummary | str) -> Removed:
        """Delete a session and its descendants, all or none, and return what was deleted.

        Raises SessionRunningError if one of them runs, and what `find` raises.
        """
        from amplifier_foundation.sessions.cleanup import remove

        one = self._resolved(session)
        return remove([one.folder, *(child.folder for child in self.descendants(one))])

    def descendants(self, session: SessionSummary) -> _Listing[SessionSummary]:
        """Return the children of a session and their children, without forks."""
        return [one for one in self._tree(session, with_forks=False) if one.id != session.id]

    # -- search --

    def _listed(self, project: Path) -> _Listing[SessionSummary]:
        """Return all sessions of a project, without those of another one whose path has the same slug."""
        elsewhere: dict[str, bool] = {}
        found: list[SessionSummary] = []
        for session in self._catalog.read(self.home.sessions(project)):
            worked_in = session.project or ""
            if worked_in not in elsewhere:
                elsewhere[worked_in] = _is_elsewhere(worked_in, project)
            if not elsewhere[worked_in]:
                found.append(session)
        return found

    def _matching(self, text: str, places: Iterable[Path]) -> _Listing[SessionSummary]:
        """Return the sessions in some folders that match a text: the one with that id, else by name and beginning."""
        places = list(places)
        exact = [read_summary(sessions / text) for sessions in places] if _is_plain(text) else []
        if any(exact):
            return [summary for summary in exact if summary is not None]
        found: dict[Path, SessionSummary] = {}
        for sessions in places:
            try:
                listed = self._catalog.read(sessions)
            except SessionsUnreadableError as error:
                self.warnings.append(str(error))
                continue
            begun = [session for session in listed if session.id.startswith(text)]
            chosen = [session for session in begun if not session.is_child] or begun
            chosen += [session for session in listed if session.name == text]
            found.update({session.folder: session for session in chosen})
        return list(found.values())

    def _at_path(self, text: str) -> SessionSummary:
        # Only `~/`, not the home of another user.
        path = expanded(text) if text.startswith("~/") else Path(text) if text else None
        if path is not None and len(path.parts) > 1:
            folder = path.parent if path.is_file() else path
            summary = read_summary(folder.absolute()) if folder.is_dir() else None
            if summary is not None and (summary.damaged is None or folder.absolute().parent.name == "sessions"):
                return summary
        raise SessionNotFoundError(
            f"no session matches {text!r} (an id or its beginning, a name, or a path): "
            "`amplifier session list --all-projects` shows all"
        )

    def _resolved(self, session: SessionSummary | str, project: Path | None = None) -> SessionSummary:
        if isinstance(session, str):
            return self.find(session, project)
        summary = read_summary(session.folder)
        if summary is None:
            raise SessionNotFoundError(f"session {session.id} is no longer in {session.folder.parent}")
        return summary

    def _tree(self, root: SessionSummary, *, with_forks: bool = True) -> _Listing[SessionSummary]:
        by_parent: dict[str, list[SessionSummary]] = {}
        for session in self._catalog.read(root.folder.parent):
            if session.parent_id and (with_forks or session.is_child):
                by_parent.setdefault(session.parent_id, []).append(session)
        tree = {root.id: root}
        todo = [root.id]
        while todo:
            for child in by_parent.get(todo.pop(), ()):
                if child.id not in tree:
                    tree[child.id] = child
                    todo.append(child.id)
        return list(tree.values())

    def _refuse_taken(self, name: str, session: SessionSummary) -> None:
        for other in self._catalog.read(session.folder.parent):
            if other.id != session.id and name in (other.name, other.id):
                raise SessionNameTakenError(
                    f"session {other.id} of the same project has the name {name!r}: choose another, or rename that one "
                    "first"
                )


def lineage(session: SessionSummary) -> list[SessionSummary]:
    """Return a session after its ancestors; see `SessionStore.lineage`."""
    line = [session]
    while session.parent_id and _is_plain(session.parent_id):
        parent = read_summary(session.folder.parent / session.parent_id)
        if parent is None or parent.id in {known.id for known in line}:
            break
        line.append(parent)
        session = parent
    return line[::-1]


def _is_plain(text: str) -> bool:
    return bool(text) and text[0] != "." and not any(part in text for part in ("/", "\\", "\0"))


def _is_elsewhere(worked_in: str, project: Path) -> bool:
    """Return whether a folder is another project with the same slug, such as `/a-b` and `/a/b`."""
    folder = Path(worked_in)
    if not folder.is_absolute() or folder.resolve() == project.resolve():
        return False
    return project_slug(folder) == project_slug(project)


def _checked(name: str) -> str:
    given = name.strip()
    if not given or len(given) > LONGEST_NAME or not given.isprintable():
        raise SessionNameError(f"invalid session name {name[:80]!r}: expected 1 to {LONGEST_NAME} printable characters")
    return given


def _has(session: SessionSummary, words: Iterable[str]) -> bool:
    parts = (session.id, session.name, session.description, session.first_prompt, session.bundle, session.project)
    text = "\n".join(part for part in parts if part).casefold()
    return all(word in text for word in words)


def _aware(moment: datetime | None) -> datetime | None:
    return moment.astimezone() if moment is not None and moment.tzinfo is None else moment


def _activity(session: SessionSummary) -> tuple[datetime, str]:
    return session.updated, session.id


def _beginning(session: SessionSummary) -> tuple[datetime, str]:
    return session.created or session.updated, session.id


def _described(session: SessionSummary) -> str:
    facts = [session.name or session.first_prompt, session.project, session.updated.isoformat(timespec="seconds")]
    return "  ".join([session.id, *(fact for fact in facts if fact)])

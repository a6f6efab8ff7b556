"""Read which sessions lie on disk, with the help of the index: the folders are the truth."""

from __future__ import annotations

import os
import time
from pathlib import Path

from amplifier_foundation.errors import FoundationError
from amplifier_foundation.paths import Home
from amplifier_foundation.sessions.index import IndexRow, Row, SessionIndex
from amplifier_foundation.sessions.summary import Facts, SessionSummary, last_activity, read_facts, summary_of

__all__ = ["SessionCatalog", "SessionsUnreadableError", "folder_names"]

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

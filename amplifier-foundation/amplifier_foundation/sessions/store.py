"""The sessions on disk, ours and those of the published program: list, find, rename and delete them.

A `SessionSummary` says which folder a session has; the other modules of this package read and change what is in it. The
folders are the truth, and several processes may use them at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from amplifier_foundation.errors import FoundationError
from amplifier_foundation.paths import Home, current_project, expanded, project_slug
from amplifier_foundation.sessions.index import SessionCatalog, SessionsUnreadableError, folder_names
from amplifier_foundation.sessions.metadata import (
    SessionSummary,
    last_activity,
    read_summary,
    update_metadata,
)

if TYPE_CHECKING:
    from amplifier_foundation.sessions.cleanup import Removed

__all__ = [
    "AmbiguousSessionError",
    "SessionIdError",
    "SessionNameError",
    "SessionNameTakenError",
    "SessionNotFoundError",
    "SessionStore",
    "SessionsUnreadableError",
    "lineage",
]

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

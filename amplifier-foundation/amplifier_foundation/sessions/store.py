"""Know all sessions on disk, ours and those of the published program: list, find, name and delete them.

The folders are the truth. Several processes may use the store at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from amplifier_foundation.errors import FoundationError
from amplifier_foundation.paths import Home, current_project, expanded, project_slug
from amplifier_foundation.sessions.index import SessionCatalog, SessionsUnreadableError, folder_names
from amplifier_foundation.sessions.metadata import SessionSummary, last_activity, read_summary, update_metadata

if TYPE_CHECKING:
    from amplifier_foundation.sessions.cleanup import Removed

__all__ = [
    "AmbiguousSessionError",
    "SessionIdError",
    "SessionNameError",
    "SessionNotFoundError",
    "SessionStore",
    "SessionsUnreadableError",
]

LONGEST_NAME = 50
_MOST_CANDIDATES = 20
#: What starts like this is a path and no name.
_PATH_STARTS = ("/", "./", "../", "~")

_Listing = list


class SessionNotFoundError(FoundationError):
    """No session is called that."""

    code = "session_not_found"


class AmbiguousSessionError(FoundationError):
    """Several sessions could be meant; `candidates` are they."""

    code = "session_ambiguous"

    def __init__(self, text: str, candidates: list[SessionSummary]) -> None:
        shown = [f"  {_described(found)}" for found in candidates[:_MOST_CANDIDATES]]
        more = len(candidates) - len(shown)
        tail = [f"  and {more} more"] if more > 0 else []
        lines = [f"{len(candidates)} sessions could be meant by {text!r}; give the full id of one:", *shown, *tail]
        super().__init__("\n".join(lines))
        self.candidates = candidates


class SessionIdError(FoundationError):
    """A text cannot be the id of a session."""

    code = "session_id_invalid"


class SessionNameError(FoundationError):
    """A session cannot be given this name."""

    code = "session_name_invalid"


class SessionStore:
    """Find sessions below one home."""

    def __init__(self, home: Home) -> None:
        """Use the sessions of `home`; nothing is read or made yet."""
        self.home = home
        self._catalog = SessionCatalog(home)

    @property
    def warnings(self) -> _Listing[str]:
        """Return what was left out of the last list and why, and what made it slow, in readable lines."""
        return self._catalog.warnings

    def folder(self, project: Path, session_id: str) -> Path:
        """Return where a session of a project lies, or would lie; raise SessionIdError for what is no id."""
        if not _is_plain(session_id):
            raise SessionIdError(
                f"{session_id!r} cannot be the id of a session: it names a folder, so it is not empty, starts with no "
                "dot, and has no slash, backslash or NUL"
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
        """Return the sessions of a project (the current one unless named), or of all, the most recently active first.

        Sessions that other sessions have started are left out, unless `include_children`. `tree_of` gives one session
        with all that it started and all forks, whatever the project. `text`: every word of it stands in the id, name,
        description, first prompt, bundle or project. `since` and `until` are about the last activity.

        Damaged sessions are listed, with the reason. Raises SessionsUnreadableError; a project that cannot be read is
        no reason to show no others: `warnings` has it then.
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
        """Return the session of a project that was active last, None when it has none; nothing else is read."""
        project = project or current_project()
        sessions = self.home.sessions(project)
        active = [(last_activity(f"{sessions}/{name}") or 0.0, name) for name in folder_names(str(sessions))]
        for _, name in sorted(active, reverse=True):
            summary = read_summary(sessions / name)
            if summary is not None and not summary.is_child and not _is_elsewhere(summary.project or "", project):
                return summary
        return None

    def children(self, session: SessionSummary | str) -> _Listing[SessionSummary]:
        """Return the sessions that a session has started, the oldest first; its forks are none of them."""
        parent = self._resolved(session)
        found = [
            other
            for other in self._catalog.read(parent.folder.parent)
            if other.is_child and other.parent_id == parent.id
        ]
        return sorted(found, key=_beginning)

    def lineage(self, session: SessionSummary | str) -> _Listing[SessionSummary]:
        """Return a session and before it those it comes from, by start or by fork, the first one first.

        What was deleted ends the line.
        """
        one = self._resolved(session)
        line = [one]
        while one.parent_id and _is_plain(one.parent_id):
            parent = read_summary(one.folder.parent / one.parent_id)
            if parent is None or parent.id in {known.id for known in line}:
                break
            line.append(parent)
            one = parent
        return line[::-1]

    # -- one session --

    def find(self, text: str, project: Path | None = None) -> SessionSummary:
        """Return the session that is meant by an id, the beginning of one, a name, or a path.

        The sessions of the project (the current one unless named) come first; all others are looked at when none of
        those is meant. Raises SessionNotFoundError, and AmbiguousSessionError when several are meant. `warnings` names
        the projects that could not be looked at.
        """
        self._catalog.warnings = []
        if text and not text.startswith(_PATH_STARTS):
            here = self.home.sessions(project or current_project())
            for places in ([here], [other for other in self._catalog.places() if other != here]):
                found = self._meant(text, places)
                if len(found) == 1:
                    return found[0]
                if found:
                    raise AmbiguousSessionError(text, found)
        return self._at_path(text)

    def rename(self, session: SessionSummary | str, name: str | None) -> SessionSummary:
        """Give a session a name, or take it away with None; return the session as it is then.

        Raises SessionNameError when the name is too long or another session of the project has it, and what `find` and
        `update_metadata` raise. A session may be renamed while it runs.
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
        return self._resolved_at(one.folder)

    def delete(self, session: SessionSummary | str) -> Removed:
        """Delete a session and those it started, wholly or not at all; return what was deleted.

        Raises SessionRunningError when one of them runs, and what `find` raises.
        """
        from amplifier_foundation.sessions.cleanup import remove

        one = self._resolved(session)
        return remove([one.folder, *(child.folder for child in self.descendants(one))])

    def descendants(self, session: SessionSummary) -> _Listing[SessionSummary]:
        """Return the sessions that a session has started, and those that they have started; forks are none of them."""
        return [one for one in self._tree(session, with_forks=False) if one.id != session.id]

    # -- from here on, sessions are looked for --

    def _listed(self, project: Path) -> _Listing[SessionSummary]:
        """Return all sessions of a project, without those of another whose path becomes the same name."""
        elsewhere: dict[str, bool] = {}
        found: list[SessionSummary] = []
        for session in self._catalog.read(self.home.sessions(project)):
            worked_in = session.project or ""
            if worked_in not in elsewhere:
                elsewhere[worked_in] = _is_elsewhere(worked_in, project)
            if not elsewhere[worked_in]:
                found.append(session)
        return found

    def _meant(self, text: str, places: Iterable[Path]) -> _Listing[SessionSummary]:
        """Return the sessions in some folders that a text may mean: the one of that id, else by name and beginning."""
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
        # Only `~/`: the home of another user, who may not exist, is no place for sessions.
        path = expanded(text) if text.startswith("~/") else Path(text) if text else None
        if path is not None and len(path.parts) > 1:
            folder = path.parent if path.is_file() else path
            summary = read_summary(folder.absolute()) if folder.is_dir() else None
            if summary is not None and (summary.damaged is None or folder.absolute().parent.name == "sessions"):
                return summary
        raise SessionNotFoundError(
            f"no session is called {text!r}, by id, beginning of an id, name or path: "
            "`amplifier session list --all-projects` shows all"
        )

    def _resolved(self, session: SessionSummary | str, project: Path | None = None) -> SessionSummary:
        if isinstance(session, str):
            return self.find(session, project)
        return self._resolved_at(session.folder)

    def _resolved_at(self, folder: Path) -> SessionSummary:
        summary = read_summary(folder)
        if summary is None:
            raise SessionNotFoundError(f"there is no session {folder.name} in {folder.parent} any more")
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
                raise SessionNameError(
                    f"the name {name!r} is taken by session {other.id} of the same project: choose another, or rename "
                    "that one first"
                )


def _is_plain(text: str) -> bool:
    return bool(text) and text[0] != "." and not any(part in text for part in ("/", "\\", "\0"))


def _is_elsewhere(worked_in: str, project: Path) -> bool:
    """Tell whether a folder is another project whose path only becomes the same name: `/a-b` and `/a/b`."""
    folder = Path(worked_in)
    if not folder.is_absolute() or folder.resolve() == project.resolve():
        return False
    return project_slug(folder) == project_slug(project)


def _checked(name: str) -> str:
    given = name.strip()
    if not given or len(given) > LONGEST_NAME or not given.isprintable():
        raise SessionNameError(
            f"{name[:80]!r} cannot be the name of a session: it has 1 to {LONGEST_NAME} printable characters"
        )
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

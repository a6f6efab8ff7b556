"""What many sessions used, summed up by day, project, model, agent or session; children count with their parents.

The records are those that lists of sessions show: the usage in the metadata of each session. Its log is read, line by
line, only for what the metadata do not say: on which day and by which model something was used, or what was used since
a time. Only the sums are kept in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from amplifier_foundation.usage.history import SINCE, current_facts, logged_answers
from amplifier_kit.engine.usage import UsageRecord
from amplifier_kit.named_tuple import NamedTuple

if TYPE_CHECKING:
    from amplifier_foundation.sessions.metadata import SessionSummary

Group = Literal["day", "project", "model", "agent", "session"]
GROUPS: Final[tuple[Group, ...]] = ("day", "project", "model", "agent", "session")
#: The agent of a session that no other one started.
MAIN: Final = "main"


class Use(NamedTuple):
    """A part of what one session used: all of it, or what it used on one day by one model."""

    session: SessionSummary
    used: UsageRecord
    #: The day on the clock of the user; None if unknown.
    day: str | None
    #: As `provider/model`; None if unknown.
    model: str | None


class UsageReport:
    """Sums by one or several groups."""

    def __init__(self, by: tuple[Group, ...]) -> None:
        self.by = by
        self.rows: dict[tuple[str, ...], UsageRecord] = {}
        #: How many sessions each row is about, children included.
        self.sessions: dict[tuple[str, ...], int] = {}
        self.total = UsageRecord()
        self.total_sessions = 0
        #: The sessions whose log could not be read; what their metadata say counts.
        self.unreadable: list[str] = []

    @classmethod
    def of(
        cls, sessions: Iterable[SessionSummary], by: tuple[Group, ...], since: datetime | None = None
    ) -> UsageReport:
        """Return the report of sessions, each given once, with what was used since a time."""
        known = list(sessions)
        report, roots = cls(by), _roots(known) if "session" in by else {}
        for session in known:
            if since is None or session.updated >= since:
                report._add(session, roots, since)
        return report

    def _add(self, session: SessionSummary, roots: Mapping[tuple[Path, str], str], since: datetime | None) -> None:
        keys: set[tuple[str, ...]] = set()
        for use in self._uses(session, since):
            if use.used == UsageRecord():
                continue
            root = roots.get((session.place, session.id), session.id)
            key = tuple(_key(group, use, root) for group in self.by)
            self.rows[key] = self.rows.get(key, UsageRecord()) + use.used._replace(models=frozenset())
            self.total += use.used._replace(models=frozenset())
            keys.add(key)
        for key in keys:
            self.sessions[key] = self.sessions.get(key, 0) + 1
        self.total_sessions += bool(keys)

    def _uses(self, session: SessionSummary, since: datetime | None) -> Iterator[Use]:
        from amplifier_foundation.sessions.metadata import load_metadata

        metadata = load_metadata(session.folder).data
        facts = metadata.get("usage")
        is_counted = isinstance(facts, dict) and SINCE not in facts
        day = _day(session.updated)
        is_one_day = session.created is not None and _day(session.created) == day
        is_since = since is None or (session.created is not None and session.created >= since)
        if is_counted and is_since and ("day" not in self.by or is_one_day) and "model" not in self.by:
            used = UsageRecord.of_facts(current_facts(session.folder, metadata))
            yield Use(session, used, day if is_one_day else None, session.model)
            return
        try:
            yield from _logged(session, since)
        except OSError as error:
            self.unreadable.append(f"{session.folder}: {error.strerror or error}")
            yield Use(session, UsageRecord.of_facts(facts), day, session.model)


def _logged(session: SessionSummary, since: datetime | None) -> Iterator[Use]:
    """Yield what the log says, summed up by day and model. Raises OSError."""
    start = since.timestamp() * 1000 if since is not None else None
    sums: dict[tuple[str | None, str | None], UsageRecord] = {}
    for at, used in logged_answers(session.folder):
        if start is not None and (at is None or at < start):
            continue
        day = None if at is None else _day(datetime.fromtimestamp(at / 1000, UTC))
        key = day, next(iter(used.models), None)
        sums[key] = sums.get(key, UsageRecord()) + used
    for (day, model), used in sums.items():
        yield Use(session, used, day, model)


def _roots(sessions: Iterable[SessionSummary]) -> dict[tuple[Path, str], str]:
    """Return for every child the session at the top of its tree; forks are at the top of their own."""
    parents = {(one.place, one.id): one.parent_id for one in sessions if one.is_child and one.parent_id}
    roots: dict[tuple[Path, str], str] = {}
    for place, name in parents:
        root, seen = name, {name}
        while (parent := parents.get((place, root))) is not None and parent not in seen:
            seen.add(parent)
            root = parent
        roots[place, name] = root
    return roots


def _key(group: Group, use: Use, root: str) -> str:
    session = use.session
    values: dict[str, str | None] = {
        "day": use.day,
        "project": session.project,
        "model": use.model,
        "agent": (session.agent_name or "agent") if session.is_child else MAIN,
        "session": root,
    }
    return values[group] or "unknown"


def _day(moment: datetime) -> str:
    return moment.astimezone().date().isoformat()

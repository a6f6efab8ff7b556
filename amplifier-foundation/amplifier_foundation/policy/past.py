"""What sessions have done and who allowed it, read from their logs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from amplifier_foundation.paths import Home

if TYPE_CHECKING:
    from amplifier_kit.log import LogLine

#: What happened: it ran unasked, somebody was asked, rules denied it, or it ran and nobody judged it.
Then = Literal["allowed", "asked", "denied", "unjudged"]

_REQUIRED: Final = "approval:required"
_GRANTED: Final = "approval:granted"
_DENIED: Final = "approval:denied"
_BEFORE: Final = "tool:pre"
_AFTER: Final = "tool:post"
_EVENTS: Final = frozenset({_REQUIRED, _GRANTED, _DENIED, _BEFORE, _AFTER})
_MASKED: Final = "[REDACTED"
#: Answers that nobody gave.
_OF_NOBODY: Final = ("nobody", "timeout", "failure")


@dataclass(frozen=True)
class PastAction:
    """One action of a session, as it would be judged, and what became of it then."""

    action: str
    details: Mapping[str, Any]
    then: Then
    #: Whether it was granted in the end; None when the log ends before an answer.
    is_granted: bool | None
    reason: str
    #: Who decided, as the event says: a policy, `approval_system`, `kernel`, `hooks`; empty when nobody did.
    source: str
    project: Path
    session: str
    at: str | None
    #: What kind of answer it was, as the event says in `answered_by`; empty when it does not.
    kind: str = ""

    @property
    def is_masked(self) -> bool:
        """Whether the log keeps a secret from us: then it is not what ran."""
        return _MASKED in _text(self.details)

    @property
    def is_unanswered(self) -> bool:
        """Whether somebody was to be asked, and nobody answered, whatever came of it: nobody was there, or in time."""
        is_nobodys = self.is_granted is None or self.source == "kernel" or self.kind in _OF_NOBODY
        return self.then == "asked" and is_nobodys

    @property
    def shown(self) -> str:
        """What it was, in a few words: the command, the path, the address, else the tool."""
        given = self.details.get("tool_input")
        for place in (self.details, given if isinstance(given, Mapping) else {}):
            for key in ("command", "path", "file_path", "url", "host", "pattern"):
                if isinstance(place.get(key), str):
                    return str(place[key])
        return str(self.details.get("tool_name") or self.action)


@dataclass
class Past:
    """The actions of some sessions, and what of them could not be read."""

    actions: list[PastAction] = field(default_factory=list)
    sessions: int = 0
    problems: list[str] = field(default_factory=list)


def read_past(home: Home, project: Path, *, since: datetime | None = None, all_projects: bool = False) -> Past:
    """Read what sessions of a project, or of all, have done; `since` is about their last activity.

    What cannot be read is in `problems`. Raises SessionsUnreadableError.
    """
    from amplifier_foundation.sessions.store import SessionStore

    store = SessionStore(home)
    past = Past()
    for session in store.list(project, all_projects=all_projects, include_children=True, since=since):
        folder = Path(session.project) if session.project else project
        read_session(past, session.folder, folder)
    past.problems += store.warnings
    return past


def read_session(past: Past, folder: Path, project: Path) -> None:
    """Add what one session did, by its log; what cannot be read goes into the problems."""
    from amplifier_kit.log import read_log

    reading = _Reading(folder.name, project)
    torn: list[Any] = []
    try:
        for line in read_log(folder, torn.append):
            if line.event in _EVENTS:
                reading.take(line)
    except OSError as error:
        past.problems.append(f"{folder}: the log cannot be read: {error.strerror or error}")
    past.sessions += 1
    past.actions += reading.finished()
    damaged = len(torn) + reading.unreadable
    if damaged:
        past.problems.append(f"{folder}: {damaged} lines of the log cannot be read, so that their actions are missing")


class _Reading:
    """One pass over a session's log."""

    def __init__(self, session: str, project: Path) -> None:
        self._session = session
        self._project = project
        self._found: list[PastAction] = []
        self._waiting: list[tuple[str, PastAction]] = []
        self._inputs: dict[str, Any] = {}
        self._judged: set[str] = set()
        self.unreadable = 0

    def take(self, line: LogLine) -> None:
        """Take note of one line."""
        try:
            data = line.resolved()
        except LookupError:
            self.unreadable += 1
            return
        if data.get("origin") == "hook":
            return  # a hook's own question: rules do not judge it
        if line.event == _BEFORE:
            self._inputs[str(data.get("tool_name"))] = data.get("tool_input")
        elif line.event == _AFTER:
            self._ran(data, line.ts)
        elif line.event == _REQUIRED:
            asked = self._action(data, line.ts, "asked", None)
            self._waiting.append((_key(data, asked), asked))
        else:
            self._decided(data, line)

    def finished(self) -> Iterable[PastAction]:
        """Return all that was found; questions without an answer are the last."""
        return [*self._found, *(asked for _, asked in self._waiting)]

    def _decided(self, data: Mapping[str, Any], line: LogLine) -> None:
        is_granted = line.event == _GRANTED
        done = self._action(data, line.ts, "allowed" if is_granted else "denied", is_granted)
        key = _key(data, done)
        index = next((index for index, (other, _) in enumerate(self._waiting) if other == key), None)
        if index is not None:
            asked = self._waiting.pop(index)[1]
            action = asked.action if "action" not in data else done.action
            done = PastAction(
                action,
                done.details,
                "asked",
                is_granted,
                done.reason,
                done.source,
                self._project,
                self._session,
                done.at,
                done.kind,
            )
        self._judged.add(_call(done.details))
        self._found.append(done)

    def _ran(self, data: Mapping[str, Any], at: str | None) -> None:
        """Note a call that ran, unless somebody judged it."""
        name = data.get("tool_name")
        details = {"tool_name": name, "tool_input": data.get("tool_input", self._inputs.get(str(name)))}
        if data.get("tool_call_id"):
            details["tool_call_id"] = data["tool_call_id"]
        if isinstance(name, str) and _call(details) not in self._judged:
            self._found.append(
                PastAction(f"tool.{name}", details, "unjudged", True, "", "", self._project, self._session, at)
            )

    def _action(self, data: Mapping[str, Any], at: str | None, then: Then, is_granted: bool | None) -> PastAction:
        """Return what an event is about; published ones name the tool alone, and the call was just before."""
        details = data.get("details")
        action = data.get("action")
        if not isinstance(details, Mapping):
            name = str(data.get("tool_name") or "")
            details = {"tool_name": name, "tool_input": self._inputs.get(name)}
        if not isinstance(action, str) or "." not in action or " " in action:
            action = f"tool.{details.get('tool_name') or 'unknown'}"
        reason, source = str(data.get("reason") or ""), str(data.get("source") or "")
        by = data.get("answered_by")
        kind = str(by.get("kind") or "") if isinstance(by, Mapping) else ""
        return PastAction(action, details, then, is_granted, reason, source, self._project, self._session, at, kind)


def _call(details: Mapping[str, Any]) -> str:
    """Return what makes it the same call."""
    return _text(details.get("tool_call_id") or [details.get("tool_name"), details.get("tool_input")])


def _key(data: Mapping[str, Any], done: PastAction) -> str:
    """Return what makes it the same request: its id; modules and older logs have only what it is about."""
    return str(data.get("approval_id") or _text(done.details))


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str, ensure_ascii=False)


def counted(actions: Iterable[PastAction]) -> Iterator[tuple[PastAction, int]]:
    """Yield actions that differ in what they would do, each with how often it happened."""
    seen: dict[str, tuple[PastAction, int]] = {}
    for each in actions:
        details = {key: value for key, value in each.details.items() if key != "tool_call_id"}
        key = _text([each.action, details, str(each.project), each.then, each.is_granted, each.is_unanswered])
        first, count = seen.get(key, (each, 0))
        seen[key] = (first, count + 1)
    yield from seen.values()

"""Put what is known of sessions into words and records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amplifier_kit.engine.usage import UsageRecord, money

if TYPE_CHECKING:
    from amplifier_app_cli.app import App
    from amplifier_foundation.sessions.metadata import SessionSummary
    from amplifier_foundation.sessions.store import SessionStore

_SHORTEST_ID = 8
#: Of a child's id, which begins with the span of its parent: that, and enough of the rest to distinguish children.
_SHORTEST_CHILD_ID = 21


def found_session(app: App, text: str) -> tuple[SessionStore, SessionSummary]:
    """Return the store and the session that a text means; raises what `SessionStore.find` raises."""
    from amplifier_foundation.sessions.store import SessionStore

    store = SessionStore(app.home)
    session = store.find(text, app.project)
    app.warn(store.warnings)
    return store, session


class Family:
    """The child sessions below each of some sessions."""

    def __init__(self, sessions: Iterable[SessionSummary]) -> None:
        self._below: dict[tuple[Path, str], list[SessionSummary]] = {}
        for one in sessions:
            if one.is_child and one.parent_id:
                self._below.setdefault((one.place, one.parent_id), []).append(one)

    def metadata(self, session: SessionSummary) -> dict[str, Any]:
        """Return the metadata of a session with what its children used in its `usage`, and its own in `own_usage`.

        A turn that runs or was interrupted counts as far as the log goes.
        """
        from amplifier_foundation.sessions.metadata import current_metadata

        metadata = current_metadata(session.folder)
        children = list(self._descendants(session))
        if not children:
            return metadata
        own = _usage(metadata)
        total = UsageRecord.of_facts(own)
        for child in children:
            total += UsageRecord.of_facts(current_metadata(child.folder).get("usage"))
        since = {"since": own["since"]} if "since" in own else {}
        return {**metadata, "usage": {**total.facts(), **since}, "own_usage": own}

    def _descendants(self, session: SessionSummary) -> Iterator[SessionSummary]:
        seen, todo = {(session.place, session.id)}, [session]
        while todo:
            one = todo.pop()
            for child in self._below.get((one.place, one.id), ()):
                if (key := (child.place, child.id)) not in seen:
                    seen.add(key)
                    todo.append(child)
                    yield child


def record_of(session: SessionSummary, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return all that a list knows of a session, for programs; the metadata are those of a `Family`."""
    usage = _usage(metadata)
    own = metadata.get("own_usage", usage)
    return {
        "id": session.id,
        "name": session.name,
        "description": session.description,
        "project": session.project,
        "folder": str(session.folder),
        "created": session.created and session.created.isoformat(),
        "updated": session.updated.isoformat(),
        "turn_count": session.turn_count,
        "first_prompt": session.first_prompt,
        "bundle": session.bundle,
        "provider": _provider(metadata),
        "model": model_text(session, metadata),
        "permission_mode": metadata.get("permission_mode") or "ask",
        "cost_usd": usage.get("cost_usd"),
        "usage": usage or None,
        "own_cost_usd": own.get("cost_usd"),
        "own_usage": own or None,
        "parent_id": session.parent_id,
        "is_child": session.is_child,
        "is_fork": is_fork(session),
        "agent_name": session.agent_name,
        "damaged": session.damaged,
        "warning": session.warning,
    }


def model_text(session: SessionSummary, metadata: Mapping[str, Any]) -> str | None:
    """Return the model that answered last; before the first answer, the model or the provider that is configured."""
    if session.model:
        return session.model
    provider = _provider(metadata)
    if metadata.get("usage"):  # of an older version, whose metadata do not name the model
        from amplifier_foundation.usage.history import logged_model

        return logged_model(session.folder, provider) or provider
    return provider


def is_fork(session: SessionSummary) -> bool:
    """Return whether a session continues a copy of another one."""
    return session.parent_id is not None and not session.is_child


def cost_text(metadata: Mapping[str, Any]) -> str:
    """Return what a session cost: a plus marks answers without a price, a dash an unknown cost."""
    used = UsageRecord.of_facts(metadata.get("usage"))
    if not used.priced:
        return "-"
    text = money(used.known_cost)
    return f"{text}+" if used.unpriced or "since" in _usage(metadata) else text


def title(session: SessionSummary) -> str:
    """Return what a session is called, or how it began, or why neither is known."""
    if session.damaged:
        return f"(damaged) {session.damaged}"
    if session.name:
        return session.name
    return f'"{session.first_prompt}"' if session.first_prompt else f"({session.warning or 'nothing was said'})"


def when(moment: datetime | None) -> str:
    """Return a time as the clock on the wall shows it."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M") if moment is not None else "-"


def when_short(moment: datetime | None) -> str:
    """Return a time as short as possible: today the hour, this year without the year."""
    if moment is None:
        return "-"
    here, now = moment.astimezone(), datetime.now().astimezone()
    if here.date() == now.date():
        return here.strftime("%H:%M")
    return here.strftime("%m-%d %H:%M" if here.year == now.year else "%Y-%m-%d")


def short_ids(sessions: Iterable[SessionSummary]) -> dict[str, str]:
    """Return the beginning of each id that no other one has, for people."""
    sessions = list(sessions)
    ids = sorted({session.id for session in sessions})
    children = {session.id for session in sessions if session.is_child}
    shortened: dict[str, str] = {}
    for number, one in enumerate(ids):
        length = _SHORTEST_CHILD_ID if one in children else _SHORTEST_ID
        for other in (*ids[max(number - 1, 0) : number], *ids[number + 1 : number + 2]):
            while length < len(one) and one[:length] == other[:length]:
                length += 1
        shortened[one] = one[:length]
    return shortened


def _provider(metadata: Mapping[str, Any]) -> str | None:
    provider = metadata.get("provider")
    return provider if isinstance(provider, str) and provider else None


def _usage(metadata: Mapping[str, Any]) -> dict[str, Any]:
    usage = metadata.get("usage")
    return dict(usage) if isinstance(usage, dict) else {}

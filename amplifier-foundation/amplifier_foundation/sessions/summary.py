"""Tell sessions apart at a glance: what a list shows of each."""

from __future__ import annotations

import json
import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from amplifier_foundation.sessions.metadata import Metadata, load_metadata

__all__ = ["Facts", "SessionSummary", "read_facts", "read_summary", "summary_of"]

#: The files of a session that say when it was active last: the first that there is. A turn starts and ends by writing
#: the metadata, so that one look at one file does for a list.
_ACTIVITY = ("metadata.json", "events.jsonl", "transcript.jsonl")
#: Ids of sessions that another one has started: `<16 hex>-<16 hex>_<agent>`.
_CHILD_ID = re.compile(r"[0-9a-f]{16}-[0-9a-f]{16}_")
_CONTEXT_BLOCK = re.compile(r"\s*<context_file\b.*?</context_file>", re.DOTALL)
_LONGEST_PROMPT = 200
_LONGEST_TEXT = 500
#: A first message is looked for in this many bytes, and among this many lines.
_LONGEST_LINE = 1 << 20
_MOST_LINES = 20


class Facts(NamedTuple):
    """What the files of a session say, without where they lie and when they were written."""

    project: str | None
    name: str | None
    description: str | None
    bundle: str | None
    model: str | None
    created: str | None
    turn_count: int
    parent_id: str | None
    agent_name: str | None
    is_child: bool
    first_prompt: str | None
    damaged: str | None
    warning: str | None


class SessionSummary(NamedTuple):
    """One session of a list. (A tuple, because lists are long and these are made five times as fast.)"""

    id: str
    #: The folder with the sessions of its project.
    place: Path
    #: When the session was active last. A rename is no activity.
    updated: datetime
    #: The folder it runs in, None when its metadata do not say.
    project: str | None
    name: str | None
    description: str | None
    bundle: str | None
    model: str | None
    created: datetime | None
    turn_count: int
    #: The session that started it, or that it is a fork of.
    parent_id: str | None
    agent_name: str | None
    #: Whether another session has started it; a fork stands for itself.
    is_child: bool
    #: The beginning of the first prompt, on one line.
    first_prompt: str | None
    #: Why its metadata cannot be read; everything they would say is None then.
    damaged: str | None
    #: What else is wrong with it.
    warning: str | None

    @property
    def folder(self) -> Path:
        """Return where its files lie."""
        return self.place / self.id


def summary_of(session_id: str, place: Path, updated: float, facts: tuple[Any, ...]) -> SessionSummary:
    """Make the summary of a session from `Facts`, or a row of the index that holds the same in the same order."""
    project, name, description, bundle, model, created, turns, parent, agent, is_child, prompt, damaged, warning = facts
    return SessionSummary(
        session_id,
        place,
        datetime.fromtimestamp(updated, UTC),
        project,
        name,
        description,
        bundle,
        model,
        _moment(created),
        turns,
        parent,
        agent,
        bool(is_child),
        prompt,
        damaged,
        warning,
    )


def read_summary(folder: Path) -> SessionSummary | None:
    """Return the summary of the session in a folder, read from its files; None when there is no such folder."""
    facts = read_facts(folder)
    updated = last_activity(str(folder))
    return None if facts is None or updated is None else summary_of(folder.name, folder.parent, updated, facts)


def last_activity(folder: str) -> float | None:
    """Return when a session was active last, None when its folder does not exist."""
    for name in _ACTIVITY:
        try:
            return os.stat(f"{folder}/{name}").st_mtime
        except OSError:
            continue  # without this file the next one tells
    try:
        return os.stat(folder).st_mtime
    except OSError:
        return None


def read_facts(folder: Path | str) -> Facts | None:
    """Return what the files of a session say, None when its folder does not exist."""
    metadata = load_metadata(folder)
    if not metadata.data and not os.path.isdir(folder):
        return None
    if metadata.warning and not metadata.data and not _has_content(folder):
        metadata = Metadata({}, damaged=f"{folder} holds neither metadata nor a transcript nor events")
    data = metadata.data
    parent = _text(data.get("parent_id"))
    is_fork = any(key.startswith("forked_") for key in data)
    is_child = parent is not None and not is_fork
    agent = _text(data.get("agent_name"))
    if not data and (named := _CHILD_ID.match(name := os.path.basename(folder))) is not None:
        is_child, agent, parent = True, _text(name[named.end() :]), _text(_parent_by_log(folder))
    turns = data.get("turn_count")
    return Facts(
        project=_text(data.get("working_dir"), None),
        name=_text(data.get("name")),
        description=_text(data.get("description")),
        bundle=(_text(data.get("bundle")) or "").removeprefix("bundle:") or None,
        model=_text(data.get("model")),
        created=_text(data.get("created")),
        turn_count=turns if isinstance(turns, int) and 0 <= turns < 1 << 62 else 0,
        parent_id=parent,
        agent_name=agent,
        is_child=is_child,
        first_prompt=_text(data.get("first_prompt")) or _first_prompt(f"{folder}/transcript.jsonl"),
        damaged=metadata.damaged and _encodable(metadata.damaged),
        warning=metadata.warning and _encodable(metadata.warning),
    )


def _parent_by_log(folder: Path | str) -> object:
    """Return the session that started a child whose notes are lost, as each line of its log says; None if none does."""
    try:
        with open(f"{folder}/events.jsonl", "rb") as file:
            record = json.loads(file.readline(_LONGEST_LINE))
    except (OSError, ValueError, RecursionError):
        return None  # it has no line, or none that is whole: its parent's log may name it
    return record.get("parent_id") if isinstance(record, dict) else None


def _has_content(folder: Path | str) -> bool:
    return any(os.path.exists(f"{folder}/{name}") for name in _ACTIVITY)


def _text(value: object, longest: int | None = _LONGEST_TEXT) -> str | None:
    """Return a text, cut, None for anything else: metadata of other programs may hold anything."""
    if not isinstance(value, str) or not value:
        return None
    return _encodable(value if longest is None else value[:longest])


def _encodable(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _moment(text: str | None) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text) if text else None
    except ValueError:
        return None
    return moment.replace(tzinfo=UTC) if moment is not None and moment.tzinfo is None else moment


def _first_prompt(path: str) -> str | None:
    """Return the beginning of the first prompt; None without one, and when it lies too far in to be looked for."""
    try:
        if not os.path.isfile(path):
            return None
        with open(path, "rb") as file:
            for _ in range(_MOST_LINES):
                line = file.readline(_LONGEST_LINE)
                if not line:
                    return None
                prompt = _prompt_of(line)
                if prompt:
                    return prompt
    except OSError:
        return None  # whoever reads the conversation is told why
    return None


def _prompt_of(line: bytes) -> str | None:
    try:
        message = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or message.get("role") != "user" or "tool_call_id" in message:
        return None
    text = _plain(message.get("content"))
    while found := _CONTEXT_BLOCK.match(text):
        text = text[found.end() :]
    text = " ".join(text[: _LONGEST_PROMPT * 4].split())
    if text.startswith("<system-reminder>"):
        return None
    return _encodable(text[:_LONGEST_PROMPT]) or None


def _plain(content: object) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = [block.get("text") for block in content if isinstance(block, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))

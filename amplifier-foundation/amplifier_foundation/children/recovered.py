"""Give a session that was cut off what its children have done: their calls have no result, but they may be finished."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from amplifier_foundation.children.ids import call_begins_with, children_begin_with, is_plain

if TYPE_CHECKING:
    from amplifier_foundation.children.stored import Result
    from amplifier_foundation.sessions.resume import SavedSession

Message = dict[str, Any]

#: Marks results that were taken from a child.
FROM_CHILD: Final = "recovered_from_child"
#: Tools whose result is what their one child answered; others may have been about to do more.
_HANDING_OVER: Final = frozenset({"delegate", "task"})
_INTERRUPTED: Final = "The call was interrupted before it had a result. These are the agents that it had started:"


class _NextTask(NamedTuple):
    """What a call gave to a child that was there already."""

    folder: Path
    call: str
    instruction: str


def with_children(saved: SavedSession) -> SavedSession:
    """Return a session whose lost calls have the results of the children they had started.

    A child that had not finished is named, so that the model can let it go on. Raises nothing.
    """
    lost = [message for message in saved.messages if _is_lost(message)]
    if not lost:
        return saved
    from amplifier_foundation.sessions.index import folder_names

    place = saved.folder.parent
    names = folder_names(str(place))
    found: dict[int, Message] = {}
    notes: list[str] = []
    for message in lost:
        call, is_handed_over = str(message["tool_call_id"]), message.get("name") in _HANDING_OVER
        next_task = _next_task(call, saved.messages, place) if is_handed_over else None
        if next_task is not None:
            begun = [next_task.folder]
        else:
            begun = _children_of(call, saved.session_id, place, names, is_only_one=is_handed_over)
        told = [text for text in (_told(folder, saved.session_id, next_task, notes) for folder in begun) if text]
        if told:
            content = "\n".join(told if is_handed_over else (_INTERRUPTED, *told))
            found[id(message)] = {**message, "content": content, "metadata": {FROM_CHILD: True}}
    if not found:
        return saved
    messages = [found.get(id(message), message) for message in saved.messages]
    return replace(saved, messages=messages, notes=(*saved.notes, *notes))


def _children_of(call: str, parent_id: str, place: Path, names: Sequence[str], *, is_only_one: bool) -> list[Path]:
    """Return the folders of the children that a call has started.

    The first has the id of the call. Of others that one call starts the notes alone say whose they are.
    """
    begins = call_begins_with(parent_id, call)
    first = [place / name for name in names if name.startswith(begins)]
    if is_only_one or not first:
        return first
    from amplifier_foundation.sessions.metadata import load_metadata

    others = [place / name for name in names if name.startswith(children_begin_with(parent_id))]
    others = [folder for folder in others if folder not in first]
    return [*first, *(folder for folder in others if load_metadata(folder).data.get("tool_call_id") == call)]


def _next_task(call: str, messages: Sequence[Message], place: Path) -> _NextTask | None:
    """Return the task that a call had for a child that was to go on; None when it was to start one."""
    lists = [calls for message in messages if isinstance(calls := message.get("tool_calls"), list)]
    entries = [entry for calls in lists for entry in calls if isinstance(entry, Mapping)]
    given = next((entry.get("arguments") for entry in entries if entry.get("id") == call), None)
    named = given.get("session_id") if isinstance(given, Mapping) else None
    if not isinstance(given, Mapping) or not isinstance(named, str) or not is_plain(named := named.strip()):
        return None
    return _NextTask(place / named, call, str(given.get("instruction")))


def _is_lost(message: Message) -> bool:
    marks = message.get("metadata")
    is_stand_in = isinstance(marks, Mapping) and marks.get("synthetic") is True
    return message.get("role") == "tool" and is_stand_in and isinstance(message.get("tool_call_id"), str)


def _told(folder: Path, parent_id: str, next_task: _NextTask | None, notes: list[str]) -> str | None:
    """Return what to tell of a child; None when the folder holds no child of that session."""
    from amplifier_foundation.errors import FoundationError
    from amplifier_foundation.sessions.metadata import load_metadata
    from amplifier_foundation.sessions.recorder import RECORD

    facts = load_metadata(folder).data
    if facts.get("parent_id") != parent_id:
        return None
    agent, result = str(facts.get("agent_name")), None
    try:
        result = _first_result(folder, str(facts.get("task_sha256"))) if next_task is None else _next_result(next_task)
    except FoundationError as error:
        notes.append(str(error))
    if result is None and not (folder / RECORD).exists():
        notes.append(f"the session {folder.name} of agent {agent} was cut off before it began")
        return f"The call was interrupted before agent {agent} began: nothing was done. Call again to have it done."
    if result is None:
        notes.append(f"the session {folder.name} of agent {agent} was cut off with this one")
        was_told = "had started" if next_task is None else "had another task for"
        return (
            f"The call was interrupted. The session {folder.name} of agent {agent} that it {was_told} is not done; it "
            "goes on from where it was when it is resumed by that session id."
        )
    notes.append(f"the result of the session {folder.name} of agent {agent} was taken from it")
    told = {"response": result["output"], "session_id": folder.name, "agent": agent}
    return json.dumps({**told, "turn_count": result["turn_count"], "status": result["status"]}, ensure_ascii=False)


def _first_result(folder: Path, task: str) -> Result | None:
    """Return what came of the task that a child was started with; raises HistoryError."""
    from amplifier_foundation.children.resuming import answer_of
    from amplifier_foundation.children.stored import stored_result
    from amplifier_foundation.sessions.resume import load_session

    return stored_result(folder, task) or answer_of(load_session(folder), task)


def _next_result(task: _NextTask) -> Result | None:
    """Return what came of the task that a child was to go on with; raises HistoryError."""
    from amplifier_foundation.children.resuming import next_answer_of
    from amplifier_foundation.children.stored import result_of_call
    from amplifier_foundation.sessions.resume import load_session

    return result_of_call(task.folder, task.call) or next_answer_of(load_session(task.folder), task.instruction)

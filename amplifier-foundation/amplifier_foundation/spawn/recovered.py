"""Give a session that was cut off what its children have done: their calls have no result, but they may be finished."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from amplifier_foundation.spawn.ids import call_begins_with, children_begin_with

if TYPE_CHECKING:
    from amplifier_foundation.sessions.resume import SavedSession

Message = dict[str, Any]

#: Marks results that were taken from a child.
FROM_CHILD: Final = "recovered_from_child"
#: Tools whose result is what their one child answered; others may have been about to do more.
_HANDING_OVER: Final = frozenset({"delegate", "task"})
_INTERRUPTED: Final = "The call was interrupted before it had a result. These are the agents that it had started:"


def with_children(saved: SavedSession) -> SavedSession:
    """Return a session whose lost calls have the results of the children they had started.

    A child that had not finished is named, so that the model can let it go on. Raises nothing.
    """
    lost = [message for message in saved.messages if _is_lost(message)]
    if not lost:
        return saved
    from amplifier_foundation.sessions.catalog import folder_names

    place = saved.folder.parent
    names = folder_names(str(place))
    found: dict[int, Message] = {}
    notes: list[str] = []
    for message in lost:
        call, is_handed_over = str(message["tool_call_id"]), message.get("name") in _HANDING_OVER
        begun = _children_of(call, saved.session_id, place, names, is_only_one=is_handed_over)
        told = [text for text in (_told(folder, saved.session_id, notes) for folder in begun) if text]
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


def _is_lost(message: Message) -> bool:
    marks = message.get("metadata")
    is_stand_in = isinstance(marks, Mapping) and marks.get("synthetic") is True
    return message.get("role") == "tool" and is_stand_in and isinstance(message.get("tool_call_id"), str)


def _told(folder: Path, parent_id: str, notes: list[str]) -> str | None:
    """Return what to tell of a child; None when the folder holds no child of that session."""
    from amplifier_foundation.errors import FoundationError
    from amplifier_foundation.sessions.metadata import load_metadata
    from amplifier_foundation.sessions.resume import load_session
    from amplifier_foundation.spawn.resuming import answer_of
    from amplifier_foundation.spawn.stored import stored_result

    facts = load_metadata(folder).data
    if facts.get("parent_id") != parent_id:
        return None
    task, agent = str(facts.get("task_sha256")), str(facts.get("agent_name"))
    result = stored_result(folder, task)
    if result is None:
        try:
            result = answer_of(load_session(folder), task)
        except FoundationError as error:
            notes.append(str(error))
    if result is None:
        notes.append(f"the session {folder.name} of agent {agent} was cut off with this one")
        return (
            f"The call was interrupted. The session {folder.name} of agent {agent} that it had started is not done; it "
            "goes on from where it was when it is resumed by that session id."
        )
    notes.append(f"the result of the session {folder.name} of agent {agent} was taken from it")
    told = {"response": result["output"], "session_id": folder.name, "agent": agent}
    return json.dumps({**told, "turn_count": result["turn_count"], "status": result["status"]}, ensure_ascii=False)

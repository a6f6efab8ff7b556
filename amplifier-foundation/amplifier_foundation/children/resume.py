"""Resume child sessions, and recover their results for a parent that was interrupted.

A child on disk is resumed with its prompt, its agent, its history and its count of turns. When the parent was
interrupted, its calls have no result, although the children that they started may have finished: `recover_results`
puts their answers into the parent's conversation.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from amplifier_foundation.children.errors import ChildUnknownError
from amplifier_foundation.children.restrictions import restrict
from amplifier_foundation.children.results import (
    Result,
    call_prefix,
    children_prefix,
    is_child_id,
    last_result,
    result_of_call,
    stored_result,
    task_status,
)
from amplifier_foundation.errors import FoundationError, did_you_mean
from amplifier_foundation.merge import copied
from amplifier_foundation.plan.composed import masked_keys, with_secrets_of
from amplifier_foundation.plan.prepared import Prepared
from amplifier_foundation.sessions.metadata import RECORD, load_metadata
from amplifier_foundation.sessions.resume import SavedSession, load_session
from amplifier_foundation.sessions.store import folder_names
from amplifier_foundation.sessions.turns import message_text, starts_turn
from amplifier_kit.engine.delegation.parent_context import without_context
from amplifier_kit.engine.pairing import tool_call_ids
from amplifier_kit.named_tuple import NamedTuple

Message = dict[str, Any]

_CONTINUE: Final = (
    "You were interrupted before you were done. What you have found and done so far is above; continue from there, and "
    "do not repeat what has been done. Your task was:\n\n"
)
#: The mark of results that were recovered from a child.
FROM_CHILD: Final = "recovered_from_child"
#: Tools whose result is the answer of their one child; others may have been about to do more.
_DELEGATING: Final = frozenset({"delegate", "task"})
_INTERRUPTED: Final = "The call was interrupted before it had a result. These are the agents that it had started:"


# Resuming a child


async def load_child(place: Path, session_id: Any, parent_id: str) -> SavedSession:
    """Return the saved child of that id; raises ChildUnknownError if the parent does not have it."""
    if not is_child_id(session_id) or not (place / session_id).is_dir():
        children = [name for name in folder_names(str(place)) if name.startswith(children_prefix(parent_id))]
        hint = did_you_mean(session_id, children[:50]) if children else "this session has no children"
        raise ChildUnknownError(f"there is no child session {session_id!r}: {hint}")
    saved = await asyncio.to_thread(load_session, place / session_id)
    if not isinstance(saved.metadata.get("parent_id"), str) or saved.metadata.get("forked_at"):
        raise ChildUnknownError(f"the session {session_id} has no parent, so it cannot be resumed as a child")
    if (above := saved.metadata["parent_id"]) != parent_id:
        raise ChildUnknownError(f"the session {session_id} is a child of session {above}, which alone can resume it")
    return saved


async def load_interrupted(folder: Path, parent_id: str) -> SavedSession | None:
    """Return the child that was begun in a folder, None when it has nothing to resume; raises ChildUnknownError."""
    saved = await asyncio.to_thread(load_session, folder)
    if not saved.metadata:
        return None
    if saved.metadata.get("parent_id") != parent_id:
        raise ChildUnknownError(f"the session {folder.name} exists already and is not a child of session {parent_id}")
    return saved if saved.messages and saved.recorded is not None else None


def prepare_again(saved: SavedSession, parent: Prepared) -> tuple[Prepared, tuple[str, ...]]:
    """Return a child's recorded plan with the secrets and restrictions that its parent has now, and notes.

    Raises ChildUnknownError when its plan was not recorded.
    """
    if saved.recorded is None:
        why = saved.record_problem or "it has no recorded plan"
        raise ChildUnknownError(f"the session {saved.session_id} cannot be resumed: {why}")
    composed = with_secrets_of(saved.recorded, parent.composed)
    plan = copied(composed.plan)
    restrict(plan, parent.composed.plan)
    composed = replace(composed, plan=plan)
    lost = [f"{key}: a secret that neither the record nor this session has" for key in masked_keys(composed)]
    return replace(parent, composed=composed, is_recorded=True), (*saved.notes, *lost)


def continue_prompt(saved: SavedSession, instruction: str) -> str:
    """Return the prompt for a child that was interrupted."""
    return f"{_CONTINUE}{instruction}" if saved.messages else instruction


def unsaved_answer(saved: SavedSession, task: str) -> Result | None:
    """Return the answer of a child that finished when its process died before the result was saved."""
    return _last_answer(saved) if task_status(saved.folder, task) is None else None


def _unsaved_next_answer(saved: SavedSession, instruction: str) -> Result | None:
    """Return the same for a child that was resumed with another task: only the answer to that one."""
    prompts = [message for message in saved.messages if starts_turn(message)]
    answer, kept = _last_answer(saved), last_result(saved.folder)
    if answer is None or len(prompts) < 2 or without_context(message_text(prompts[-1])) != instruction:
        return None
    return answer if kept is None or kept.get("output") != answer["output"] else None


def _last_answer(saved: SavedSession) -> Result | None:
    """Return the last message of a child as its result, None when it is not an answer."""
    if not saved.messages:
        return None
    last = saved.messages[-1]
    text, marks = message_text(last), last.get("metadata")
    is_synthetic = isinstance(marks, dict) and bool(marks.get("synthetic"))
    if last.get("role") != "assistant" or tool_call_ids(last) or not text or is_synthetic:
        return None
    facts = {"agent": saved.metadata.get("agent_name"), "usage": saved.metadata.get("usage"), "is_stored": True}
    return {
        "output": text,
        "session_id": saved.session_id,
        "status": "success",
        "turn_count": saved.turn_count,
        "metadata": {key: value for key, value in facts.items() if value is not None},
    }


# Recovering results for the parent


class _NextTask(NamedTuple):
    """What a call gave to a child that existed already."""

    folder: Path
    call: str
    instruction: str


def recover_results(saved: SavedSession) -> SavedSession:
    """Return a session whose interrupted calls have the results of the children they had started.

    A child that had not finished is named, so that the model can resume it. Raises nothing.
    """
    lost = [message for message in saved.messages if _is_lost(message)]
    if not lost:
        return saved
    place = saved.folder.parent
    names = folder_names(str(place))
    found: dict[int, Message] = {}
    notes: list[str] = []
    for message in lost:
        call, is_delegating = str(message["tool_call_id"]), message.get("name") in _DELEGATING
        next_task = _next_task(call, saved.messages, place) if is_delegating else None
        if next_task is not None:
            folders = [next_task.folder]
        else:
            folders = _children_of(call, saved.session_id, place, names, is_only_one=is_delegating)
        texts = [text for text in (_report(folder, saved.session_id, next_task, notes) for folder in folders) if text]
        if texts:
            content = "\n".join(texts if is_delegating else (_INTERRUPTED, *texts))
            found[id(message)] = {**message, "content": content, "metadata": {FROM_CHILD: True}}
    if not found:
        return saved
    messages = [found.get(id(message), message) for message in saved.messages]
    return replace(saved, messages=messages, notes=(*saved.notes, *notes))


def _children_of(call: str, parent_id: str, place: Path, names: Sequence[str], *, is_only_one: bool) -> list[Path]:
    """Return the folders of the children that a call has started.

    The first has the id of the call. Further ones are known by their metadata alone.
    """
    prefix = call_prefix(parent_id, call)
    first = [place / name for name in names if name.startswith(prefix)]
    if is_only_one or not first:
        return first
    others = [place / name for name in names if name.startswith(children_prefix(parent_id))]
    others = [folder for folder in others if folder not in first]
    return [*first, *(folder for folder in others if load_metadata(folder).data.get("tool_call_id") == call)]


def _next_task(call: str, messages: Sequence[Message], place: Path) -> _NextTask | None:
    """Return the task that a call had for an existing child; None when the call was to start one."""
    lists = [calls for message in messages if isinstance(calls := message.get("tool_calls"), list)]
    entries = [entry for calls in lists for entry in calls if isinstance(entry, Mapping)]
    given = next((entry.get("arguments") for entry in entries if entry.get("id") == call), None)
    named = given.get("session_id") if isinstance(given, Mapping) else None
    if not isinstance(given, Mapping) or not isinstance(named, str) or not is_child_id(named := named.strip()):
        return None
    return _NextTask(place / named, call, str(given.get("instruction")))


def _is_lost(message: Message) -> bool:
    marks = message.get("metadata")
    is_synthetic = isinstance(marks, Mapping) and marks.get("synthetic") is True
    return message.get("role") == "tool" and is_synthetic and isinstance(message.get("tool_call_id"), str)


def _report(folder: Path, parent_id: str, next_task: _NextTask | None, notes: list[str]) -> str | None:
    """Return the text about a child for the model; None when the folder has no child of that session."""
    facts = load_metadata(folder).data
    if facts.get("parent_id") != parent_id:
        return None
    agent, result = str(facts.get("agent_name")), None
    try:
        if next_task is None:
            task = str(facts.get("task_sha256"))
            result = stored_result(folder, task) or unsaved_answer(load_session(folder), task)
        else:
            result = result_of_call(folder, next_task.call)
            result = result or _unsaved_next_answer(load_session(folder), next_task.instruction)
    except FoundationError as error:
        notes.append(str(error))
    if result is None and not (folder / RECORD).exists():
        notes.append(f"the session {folder.name} of agent {agent} was interrupted before it began")
        return f"The call was interrupted before agent {agent} began: nothing was done. Call again to have it done."
    if result is None:
        notes.append(f"the session {folder.name} of agent {agent} was interrupted with this one")
        relation = "had started" if next_task is None else "had another task for"
        return (
            f"The call was interrupted. The session {folder.name} of agent {agent} that it {relation} is not done; it "
            "continues from where it was when it is resumed by that session id."
        )
    notes.append(f"the result of the session {folder.name} of agent {agent} was recovered from it")
    answer = {"response": result["output"], "session_id": folder.name, "agent": agent}
    return json.dumps({**answer, "turn_count": result["turn_count"], "status": result["status"]}, ensure_ascii=False)

"""Take up a child session that is on disk: with its prompt, its agent, its history and its count of turns."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from amplifier_foundation.children.errors import ChildUnknownError
from amplifier_foundation.children.ids import is_plain
from amplifier_foundation.children.plan import tighten
from amplifier_foundation.children.stored import Result, end_of, last_result
from amplifier_foundation.errors import did_you_mean
from amplifier_foundation.merge import copied
from amplifier_foundation.plan.composed import masked_keys, with_secrets_of
from amplifier_foundation.plan.prepared import Prepared
from amplifier_foundation.sessions.resume import SavedSession, load_session
from amplifier_foundation.sessions.turns import message_text, starts_turn
from amplifier_kit.engine.delegation.parent_context import without_context
from amplifier_kit.engine.pairing import tool_call_ids

_GO_ON: Final = (
    "You were interrupted before you were done. What you have found and done so far is above; go on from there, and do "
    "not repeat what has been done. Your task was:\n\n"
)


async def load_child(place: Path, session_id: Any, parent_id: str) -> SavedSession:
    """Return the child of that id; raises ChildUnknownError for an id that none of the sessions there has."""
    if not is_plain(session_id) or not (place / session_id).is_dir():
        raise ChildUnknownError(f"there is no child session {session_id!r}: {_hint(place, session_id, parent_id)}")
    saved = await asyncio.to_thread(load_session, place / session_id)
    if not isinstance(saved.metadata.get("parent_id"), str) or saved.metadata.get("forked_at"):
        raise ChildUnknownError(
            f"the session {session_id} was not started by another one, so it cannot go on as a child"
        )
    if (above := saved.metadata["parent_id"]) != parent_id:
        raise ChildUnknownError(f"the session {session_id} is a child of session {above}, which alone can let it go on")
    return saved


async def cut_off(folder: Path, parent_id: str) -> SavedSession | None:
    """Return the child that was begun in a folder, None when it had said nothing yet; raises ChildUnknownError."""
    saved = await asyncio.to_thread(load_session, folder)
    if not saved.metadata:
        return None
    if saved.metadata.get("parent_id") != parent_id:
        raise ChildUnknownError(f"the session {folder.name} is there already, and is no child of session {parent_id}")
    return saved if saved.messages and saved.recorded is not None else None


def prepared_again(saved: SavedSession, parent: Prepared) -> tuple[Prepared, tuple[str, ...]]:
    """Return what a child was made of, with secrets as its parent has them now, and guarded as that is now.

    Raises ChildUnknownError when nobody knows.
    """
    if saved.recorded is None:
        raise ChildUnknownError(
            f"the session {saved.session_id} cannot go on: what it was made of is not known ({'; '.join(saved.notes)})"
        )
    composed = with_secrets_of(saved.recorded, parent.composed)
    plan = copied(composed.plan)
    tighten(plan, parent.composed.plan)
    composed = replace(composed, plan=plan)
    lost = [
        f"{key}: a secret that the record does not hold, and that is not known here" for key in masked_keys(composed)
    ]
    return replace(parent, composed=composed, is_recorded=True), (*saved.notes, *lost)


def prompt_to_go_on(saved: SavedSession, instruction: str) -> str:
    """Return what to tell a child that was cut off."""
    return f"{_GO_ON}{instruction}" if saved.messages else instruction


def answer_of(saved: SavedSession, task: str) -> Result | None:
    """Return the answer of a child that was done when its process died before the answer could be kept."""
    return _last_answer(saved) if end_of(saved.folder, task) is None else None


def next_answer_of(saved: SavedSession, instruction: str) -> Result | None:
    """Return the same for a child that was to go on with another task: only what was said to that, and is not kept."""
    prompts = [message for message in saved.messages if starts_turn(message)]
    answer, kept = _last_answer(saved), last_result(saved.folder)
    if answer is None or len(prompts) < 2 or without_context(message_text(prompts[-1])) != instruction:
        return None
    return answer if kept is None or kept.get("output") != answer["output"] else None


def _last_answer(saved: SavedSession) -> Result | None:
    """Return what a child said last as its answer, None when that is none."""
    if not saved.messages:
        return None
    last = saved.messages[-1]
    text, marks = message_text(last), last.get("metadata")
    is_stand_in = isinstance(marks, dict) and bool(marks.get("synthetic"))
    if last.get("role") != "assistant" or tool_call_ids(last) or not text or is_stand_in:
        return None
    facts = {"agent": saved.metadata.get("agent_name"), "usage": saved.metadata.get("usage"), "is_stored": True}
    return {
        "output": text,
        "session_id": saved.session_id,
        "status": "success",
        "turn_count": saved.turn_count,
        "metadata": {key: value for key, value in facts.items() if value is not None},
    }


def _hint(place: Path, session_id: Any, parent_id: str) -> str:
    from amplifier_foundation.children.ids import children_begin_with
    from amplifier_foundation.sessions.index import folder_names

    children = [name for name in folder_names(str(place)) if name.startswith(children_begin_with(parent_id))]
    return did_you_mean(session_id, children[:50]) if children else "this session has started none"

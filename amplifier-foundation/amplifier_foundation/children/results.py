"""The ids of child sessions and the results in their folders, so that a repeated call finds its child and its answer.

The id of a child is `<parent span>-<first 16 hex of sha256(parent id, tool call id)>_<agent>`: the same call always
means the same child. `results.json` in its folder holds the results of its latest tasks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from amplifier_foundation.files import replace_file
from amplifier_kit.engine.delegation.session_ids import child_session_id, is_session_id

RESULTS: Final = "results.json"
#: Statuses of finished tasks; a child that ended otherwise is resumed when it is called again.
FINAL: Final = ("success", "incomplete")
#: How many results are kept for a child.
_MOST: Final = 50
#: The call that a result answers; only in the file, since a recovering parent knows the call and not the task's hash.
_CALL: Final = "tool_call_id"
#: `<parent span>-<own span>_<agent>`.
_CHILD: Final = re.compile(r"[0-9a-f]{16}-(?P<span>[0-9a-f]{16})_.+")

Result = dict[str, Any]

# Ids


def child_id(parent_id: str, tool_call_id: str | None, agent: str, *distinct: str) -> str:
    """Return the id of the child that a call starts; without a call, a new one every time.

    `distinct` separates children of the same call id: a second task in one call, or a reused id.
    """
    call = tool_call_id if tool_call_id is None else "\0".join((tool_call_id, *distinct))
    return child_session_id(parent_id, call, agent)


def children_prefix(parent_id: str) -> str:
    """Return the prefix of the ids of a session's children; children of other sessions may share it."""
    return child_session_id(parent_id, None, "").partition("-")[0] + "-"


def call_prefix(parent_id: str, tool_call_id: str) -> str:
    """Return the prefix of the ids of a call's children, whichever agent they are."""
    return child_session_id(parent_id, tool_call_id, "").partition("_")[0] + "_"


def own_span(session_id: str) -> str | None:
    """Return the span in a child's id, None for an id of another form."""
    own = _CHILD.fullmatch(session_id)
    return own["span"] if own is not None else None


def is_child_id(session_id: object) -> bool:
    """Return whether a value can be the id of a child, and so the name of its folder."""
    return isinstance(session_id, str) and is_session_id(session_id)


# Results


def task_hash(*words: str) -> str:
    """Return the hash that identifies a task."""
    import hashlib

    return hashlib.sha256("\0".join(words).encode("utf-8", "surrogatepass")).hexdigest()


def save_result(folder: Path, task: str, result: Result, scrub: Callable[[Any], Any], call: str | None = None) -> None:
    """Write the result of a task, masked, and its call, beside those of other tasks; raises OSError."""
    saved = {**scrub(result), "session_id": result["session_id"], **({_CALL: call} if call is not None else {})}
    results = {**{name: one for name, one in _results(folder).items() if name != task}, task: saved}
    content = {"version": 1, "results": dict(list(results.items())[-_MOST:])}
    text = json.dumps(content, ensure_ascii=False, default=str)
    replace_file(folder / RESULTS, text.encode("utf-8", "backslashreplace") + b"\n")


def task_status(folder: Path, task: str) -> str | None:
    """Return the status that a task ended with, None when it did not end or is unknown."""
    result = _results(folder).get(task)
    status = result.get("status") if isinstance(result, dict) else None
    return status if isinstance(status, str) else None


def last_result(folder: Path) -> Result | None:
    """Return the result of a child's last task, however it ended; None when unknown."""
    results = list(_results(folder).values())
    return results[-1] if results and isinstance(results[-1], dict) else None


def stored_result(folder: Path, task: str) -> Result | None:
    """Return the result of a finished task; None when it is not finished or the file cannot be read."""
    return _finished(_results(folder).get(task))


def result_of_call(folder: Path, call: str) -> Result | None:
    """Return the result of the finished task that a call gave to a child; None as with `stored_result`."""
    of_call = [one for one in _results(folder).values() if isinstance(one, dict) and one.get(_CALL) == call]
    return _finished(of_call[-1]) if of_call else None


def _finished(result: Any) -> Result | None:
    if not isinstance(result, dict) or result.get("status") not in FINAL or not isinstance(result.get("output"), str):
        return None
    known = result.get("metadata")
    facts = {**(known if isinstance(known, dict) else {}), "is_stored": True}
    return {**{key: value for key, value in result.items() if key != _CALL}, "metadata": facts}


def _results(folder: Path) -> dict[str, Any]:
    try:
        content = json.loads((folder / RESULTS).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}  # the child is resumed from its conversation instead
    results = content.get("results") if isinstance(content, dict) else None
    return results if isinstance(results, dict) else {}

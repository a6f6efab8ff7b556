"""Keep what came of a child's tasks in its folder, so that a call that is made again finds it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from amplifier_foundation.files import replace_file

#: In the folder of a child.
RESULTS: Final = "results.json"
#: Ends after which nothing is left to do; a child that ended otherwise goes on when it is called again.
FINAL: Final = ("success", "incomplete")
#: How many tasks of one child are remembered.
_MOST: Final = 50
#: The call that a result answers, in the file alone: by its words a task is not known to those who have the call only.
_CALL: Final = "tool_call_id"

Result = dict[str, Any]


def task_hash(*words: str) -> str:
    """Return what tells a task from others."""
    import hashlib

    return hashlib.sha256("\0".join(words).encode("utf-8", "surrogatepass")).hexdigest()


def keep_result(folder: Path, task: str, result: Result, scrub: Callable[[Any], Any], call: str | None = None) -> None:
    """Write what came of a task, masked, and of which call it was, beside what came of others; raises OSError."""
    kept = {**scrub(result), "session_id": result["session_id"], **({_CALL: call} if call is not None else {})}
    results = {**{name: one for name, one in _results(folder).items() if name != task}, task: kept}
    content = {"version": 1, "results": dict(list(results.items())[-_MOST:])}
    text = json.dumps(content, ensure_ascii=False, default=str)
    replace_file(folder / RESULTS, text.encode("utf-8", "backslashreplace") + b"\n")


def end_of(folder: Path, task: str) -> str | None:
    """Return the status that a task ended with, None when it did not end or nobody knows."""
    result = _results(folder).get(task)
    status = result.get("status") if isinstance(result, dict) else None
    return status if isinstance(status, str) else None


def last_result(folder: Path) -> Result | None:
    """Return what came of the task that a child had last, however it ended; None when nobody knows."""
    results = list(_results(folder).values())
    return results[-1] if results and isinstance(results[-1], dict) else None


def stored_result(folder: Path, task: str) -> Result | None:
    """Return what came of a task that is done; None when it is not, or the file cannot be read."""
    return _done(_results(folder).get(task))


def result_of_call(folder: Path, call: str) -> Result | None:
    """Return what came of the task that a call gave to a child and that is done; None as with `stored_result`."""
    of_call = [one for one in _results(folder).values() if isinstance(one, dict) and one.get(_CALL) == call]
    return _done(of_call[-1]) if of_call else None


def _done(result: Any) -> Result | None:
    if not isinstance(result, dict) or result.get("status") not in FINAL or not isinstance(result.get("output"), str):
        return None
    known = result.get("metadata")
    facts = {**(known if isinstance(known, dict) else {}), "is_stored": True}
    return {**{key: value for key, value in result.items() if key != _CALL}, "metadata": facts}


def _results(folder: Path) -> dict[str, Any]:
    try:
        content = json.loads((folder / RESULTS).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}  # the child goes on from its conversation instead
    results = content.get("results") if isinstance(content, dict) else None
    return results if isinstance(results, dict) else {}

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

Result = dict[str, Any]


def task_hash(*words: str) -> str:
    """Return what tells a task from others."""
    import hashlib

    return hashlib.sha256("\0".join(words).encode("utf-8", "surrogatepass")).hexdigest()


def keep_result(folder: Path, task: str, result: Result, scrub: Callable[[Any], Any]) -> None:
    """Write what came of a task, masked, beside what came of others; raises OSError."""
    kept = {**scrub(result), "session_id": result["session_id"]}
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
    result = _results(folder).get(task)
    if not isinstance(result, dict) or result.get("status") not in FINAL or not isinstance(result.get("output"), str):
        return None
    known = result.get("metadata")
    return {**result, "metadata": {**(known if isinstance(known, dict) else {}), "is_stored": True}}


def _results(folder: Path) -> dict[str, Any]:
    try:
        content = json.loads((folder / RESULTS).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}  # the child goes on from its conversation instead
    results = content.get("results") if isinstance(content, dict) else None
    return results if isinstance(results, dict) else {}

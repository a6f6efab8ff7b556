"""Turn a todo list into lines for the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from amplifier_kit.reminders import without_tags

#: Of longer lists, the first open entries are shown.
_LISTED: Final = 50
_LENGTH: Final = 300
_MARKS: Final = {"completed": "[x]", "in_progress": "[>]", "pending": "[ ]"}


def todo_lines(state: Any) -> list[str]:
    """Return the list with a heading, or an empty list; invalid entries are left out."""
    todos = [todo for todo in state if isinstance(todo, Mapping)] if isinstance(state, list) else []
    if not todos:
        return []
    unfinished = [todo for todo in todos if todo.get("status") != "completed"]
    listed = todos if len(todos) <= _LISTED else unfinished[:_LISTED]
    lines = [f"Todo list, {len(todos) - len(unfinished)} of {len(todos)} done:", *map(_line, listed)]
    if len(listed) < len(todos):
        lines.append(f"({len(todos) - len(listed)} more, not listed)")
    return lines


def _line(todo: Mapping[str, Any]) -> str:
    status = todo.get("status")
    mark = _MARKS.get(status, "[ ]") if isinstance(status, str) else "[ ]"
    text = todo.get("activeForm") if status == "in_progress" else None
    words = " ".join(str(text or todo.get("content") or "").split())
    shown = words if len(words) <= _LENGTH else f"{words[:_LENGTH]}…"
    return f"{mark} {without_tags(shown)}"

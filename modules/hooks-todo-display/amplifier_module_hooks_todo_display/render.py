"""Turn a todo list into lines for a person."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, Final

from amplifier_module_hooks_todo_display.config import TodoDisplayConfig

__all__ = ["todo_lines", "todos_of"]

_MARKS: Final = {"completed": "✓", "in_progress": "▶", "pending": "○"}
_WIDE: Final = ("W", "F")


def todos_of(state: Any) -> list[dict[str, str]]:
    """Return the entries of a list that are todos, with texts only."""
    if not isinstance(state, list | tuple):
        return []
    return [{str(key): str(value) for key, value in todo.items()} for todo in state if isinstance(todo, Mapping)]


def todo_lines(todos: Sequence[Mapping[str, str]], settings: TodoDisplayConfig) -> list[str]:
    """Return the list as the settings want it; no lines without todos."""
    if not todos or settings.mode == "none":
        return []
    done = sum(todo.get("status") == "completed" for todo in todos)
    counted = f"{done}/{len(todos)}"
    bar = f"{_bar(done, len(todos), settings.progress_bar_width)} " if settings.show_progress_bar else ""
    is_full = settings.mode == "full" or (settings.mode == "auto" and len(todos) <= settings.compact_threshold)
    if not is_full:
        current = next((todo for todo in todos if todo.get("status") == "in_progress"), None)
        text = f" {_MARKS['in_progress']} {_text(current)}" if current is not None else ""
        return [_cut(f"{settings.title} {bar}{counted}{text}", settings.max_width)]
    inner = settings.max_width - (4 if settings.show_border else 0)
    lines = [_cut(f"{_MARKS.get(todo.get('status', ''), '○')} {_text(todo)}", inner) for todo in todos]
    foot = _cut(f"{bar}{counted}", inner)
    if not settings.show_border:
        return [_cut(settings.title, inner), *lines, foot]
    head = f"┌ {_cut(settings.title, inner - 2)} "
    return [
        f"{head}{'─' * (settings.max_width - _columns(head) - 1)}┐",
        *(f"│ {line}{' ' * (inner - _columns(line))} │" for line in (*lines, foot)),
        f"└{'─' * (settings.max_width - 2)}┘",
    ]


def _bar(done: int, total: int, width: int) -> str:
    filled = width * done // total
    return "█" * filled + "░" * (width - filled)


def _text(todo: Mapping[str, str]) -> str:
    key = "activeForm" if todo.get("status") == "in_progress" and todo.get("activeForm") else "content"
    words = " ".join(todo.get(key, "").split())
    return "".join(character for character in words if character.isprintable())


def _columns(text: str) -> int:
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in _WIDE else 1
        for character in text
    )


def _cut(text: str, width: int) -> str:
    """Return a text that fits into a number of columns, with an ellipsis when it was cut."""
    if _columns(text) <= width:
        return text
    while text and _columns(text) > width - 1:
        text = text[:-1]
    return f"{text.rstrip()}…"

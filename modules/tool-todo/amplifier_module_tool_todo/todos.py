"""Check a todo list that a model has written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

STATUSES: Final = ("pending", "in_progress", "completed")
#: The whole list is sent with every change, so it must stay short.
MOST: Final = 1000
LONGEST: Final = 10_000

_TEXTS: Final = ("content", "activeForm")


class TodoProblem(ValueError):
    """Say which entry of a list is wrong and what was expected; the text is for the model."""


def checked(given: Any) -> list[dict[str, str]]:
    """Return a new list with the three keys of each todo; raise TodoProblem for the first invalid entry."""
    if given is None:
        raise TodoProblem("'todos' is missing: give the whole list")
    if not isinstance(given, list):
        raise TodoProblem(f"'todos' must be a list of todos, got {_kind(given)}")
    if len(given) > MOST:
        raise TodoProblem(f"'todos' may have at most {MOST} entries, got {len(given)}")
    return [_todo(f"todos[{index}]", todo) for index, todo in enumerate(given)]


def _todo(where: str, todo: Any) -> dict[str, str]:
    if not isinstance(todo, Mapping):
        raise TodoProblem(f"{where} must be an object with content, activeForm and status, got {_kind(todo)}")
    texts = {key: _text(f"{where}.{key}", todo.get(key)) for key in _TEXTS}
    status = todo.get("status")
    if not isinstance(status, str) or status not in STATUSES:
        shown = "nothing" if status is None else repr(status)[:100]
        raise TodoProblem(f"{where}.status must be one of {', '.join(STATUSES)}, got {shown}")
    return {**texts, "status": status}


def _text(where: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise TodoProblem(f"{where} must be text that is not empty, got {_kind(value)}")
    if len(value) > LONGEST:
        raise TodoProblem(f"{where} may have at most {LONGEST} characters, got {len(value)}")
    return value


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    return "empty text" if isinstance(value, str) and not value.strip() else type(value).__name__

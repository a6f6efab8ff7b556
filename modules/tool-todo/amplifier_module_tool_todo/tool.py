"""The tool `todo`, and the items of its list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from amplifier_core.models import ToolResult

# --- items ---

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


# --- tool ---

_DESCRIPTION: Final = """\
Plan work of three steps or more, and keep track of it. The list is yours: the user sees it, and you are shown it again.

- create: start a list; it takes the place of the one before.
- update: give the whole list again with what has changed. Do it as soon as a step is started or finished.
- list: read the list.

Each todo has `content` (what to do, as an order: "Run the tests"), `activeForm` (the same while it is being done: \
"Running the tests") and `status` (pending, in_progress, completed). Keep exactly one todo in_progress while you work. \
A todo is completed only when it is done, not when it is blocked or half done. One simple step needs no list."""


class TodoTool:
    """Keep a list of todos in `coordinator.todo_state`; it lives as long as the session."""

    name = "todo"
    description = _DESCRIPTION
    input_schema: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {
            "action": {
                "type": "string",
                "enum": ["create", "update", "list"],
                "description": "create: start a list; update: replace it with its new state; list: read it",
            },
            "todos": {
                "type": "array",
                "description": "The whole list; needed to create and update",
                "items": {
                    "type": "object",
                    "properties": {
                        "content": {"type": "string", "description": "What to do: 'Run the tests'"},
                        "activeForm": {"type": "string", "description": "The same under way: 'Running the tests'"},
                        "status": {"type": "string", "enum": list(STATUSES)},
                    },
                    "required": ["content", "activeForm", "status"],
                },
            },
        },
        "required": ["action"],
    }

    def __init__(self, coordinator: Any) -> None:
        self._coordinator = coordinator
        self._actions: dict[str, Callable[[Any], dict[str, Any]]] = {
            "create": self._create,
            "update": self._update,
            "list": self._list,
        }

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Do what `action` says; what is wrong with the input is said in the result, and the list stays as it was."""
        given = input if isinstance(input, Mapping) else {}
        action = given.get("action")
        act = self._actions.get(action) if isinstance(action, str) else None
        if act is None:
            shown = "nothing" if action is None else repr(action)[:100]
            return _failure("unknown_action", f"'action' must be one of {', '.join(self._actions)}, got {shown}")
        try:
            return ToolResult(output=act(given.get("todos")))
        except TodoProblem as problem:
            return _failure("invalid_todos", f"{problem}; the list is unchanged")

    def _create(self, todos: Any) -> dict[str, Any]:
        self._coordinator.todo_state = checked(todos)
        return {"status": "created", **self._shown()}

    def _update(self, todos: Any) -> dict[str, Any]:
        state = checked(todos)
        self._coordinator.todo_state = state
        counts = Counter(todo["status"] for todo in state)
        return {"status": "updated", "count": len(state), **{status: counts[status] for status in STATUSES}}

    def _list(self, todos: Any) -> dict[str, Any]:
        return {"status": "listed", **self._shown()}

    def _shown(self) -> dict[str, Any]:
        """Return a copy of the list, through which the caller cannot change the state."""
        state = getattr(self._coordinator, "todo_state", None)
        todos = [dict(todo) for todo in state if isinstance(todo, Mapping)] if isinstance(state, list) else []
        return {"count": len(todos), "todos": todos}


def _failure(code: str, message: str) -> ToolResult:
    return ToolResult(success=False, output=message, error={"message": message, "code": code})

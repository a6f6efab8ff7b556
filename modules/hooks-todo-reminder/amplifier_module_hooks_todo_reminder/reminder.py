"""Remind the model of its todo list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from amplifier_core.models import HookResult
from amplifier_kit.reminders import fitting_reminder, without_tags
from amplifier_module_hooks_todo_reminder.config import ReminderConfig

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


NAME: Final = "hooks-todo-reminder"
TOOL: Final = "todo"

_NUDGE: Final = (
    "The tool `todo` has not been used recently. If the work has several steps, plan and track them with it and keep "
    "the list current; if it does not, ignore this. It is not a request of the user: do not mention it."
)


class TodoReminder:
    """Remind the model in one session."""

    def __init__(self, coordinator: Any, settings: ReminderConfig) -> None:
        self._coordinator = coordinator
        self._settings = settings
        self._calls_since = 0

    def on_tool_post(self, event: str, data: Any) -> None:
        """Count tool calls since the last successful use of `todo`."""
        name = data.get("tool_name") if isinstance(data, Mapping) else None
        if name == TOOL and _succeeded(data.get("result")):
            self._calls_since = 0
        elif name:
            self._calls_since += 1

    def on_provider_request(self, event: str, data: Any) -> HookResult | None:
        """Inject the list, and the reminder when it is due, into this request only."""
        parts = ["\n".join(todo_lines(getattr(self._coordinator, "todo_state", None)))]
        if self._is_due():
            parts.append(_NUDGE)
        text = fitting_reminder(
            "\n\n".join(part for part in parts if part), NAME, self._coordinator.injection_size_limit
        )
        if text is None:
            return None
        return HookResult(
            action="inject_context",
            context_injection=text,
            context_injection_role=self._settings.inject_role,
            ephemeral=True,
            append_to_last_tool_result=True,
        )

    def _is_due(self) -> bool:
        has_tool = TOOL in (self._coordinator.get("tools") or {})
        return has_tool and self._calls_since >= self._settings.recent_tool_threshold


def _succeeded(result: Any) -> bool:
    return not (isinstance(result, Mapping) and result.get("success") is False)

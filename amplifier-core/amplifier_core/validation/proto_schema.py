"""Check plain dicts that travel as tool and hook results."""

from __future__ import annotations

from typing import Any

__all__ = [
    "VALID_APPROVAL_DEFAULTS",
    "VALID_CONTEXT_INJECTION_ROLES",
    "VALID_HOOK_ACTIONS",
    "VALID_USER_MESSAGE_LEVELS",
    "validate_hook_result",
    "validate_tool_result",
]

VALID_HOOK_ACTIONS = frozenset({"continue", "deny", "modify", "inject_context", "ask_user"})
VALID_CONTEXT_INJECTION_ROLES = frozenset({"system", "user", "assistant"})
VALID_USER_MESSAGE_LEVELS = frozenset({"info", "warning", "error"})
VALID_APPROVAL_DEFAULTS = frozenset({"allow", "deny"})


def validate_tool_result(data: Any) -> list[str]:
    """Return the errors of a tool result."""
    if not isinstance(data, dict):
        return [f"Tool result must be a dict, got {type(data).__name__}"]
    if "success" not in data:
        return ["Missing required field: 'success'"]
    if not isinstance(data["success"], bool):
        return [f"Field 'success' must be bool, got {type(data['success']).__name__}"]
    return []


def validate_hook_result(data: Any) -> list[str]:
    """Return the errors of a hook result; an absent action means continue."""
    if not isinstance(data, dict):
        return [f"Hook result must be a dict, got {type(data).__name__}"]
    problems = _outside("action", data.get("action", "continue"), VALID_HOOK_ACTIONS)
    for name, allowed in (
        ("context_injection_role", VALID_CONTEXT_INJECTION_ROLES),
        ("user_message_level", VALID_USER_MESSAGE_LEVELS),
        ("approval_default", VALID_APPROVAL_DEFAULTS),
    ):
        if data.get(name) is not None:
            problems += _outside(name, data[name], allowed)
    return problems


def _outside(name: str, value: Any, allowed: frozenset[str]) -> list[str]:
    if isinstance(value, str) and value in allowed:
        return []
    return [f"Invalid {name} '{value}': must be one of {sorted(allowed)}"]
